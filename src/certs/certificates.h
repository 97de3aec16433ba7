// The certificates that a program is started with, read and checked. A worker's identity is the common name
// of its certificate.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace signvote {

struct KeyPair {
  std::string certificate;  // PEM
  std::string key;          // PEM
};

/// Checks that both files are PEM, that the key is the certificate's, and that the certificate is valid now.
/// Throws DataError naming the file.
KeyPair load_key_pair(const std::filesystem::path& certificate, const std::filesystem::path& key);

/// PEM with at least one certificate that is valid now. Throws DataError naming the file.
std::string load_authority(const std::filesystem::path& file);

/// Of the first certificate in a PEM; none if it has no common name, or several.
std::optional<std::string> common_name(const std::string& pem);

}  // namespace signvote
