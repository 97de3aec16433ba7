// Certificates for a first try, and what the programs need to know of those they are given. ECDSA on
// P-256, by OpenSSL. A worker's identity is its certificate's common name.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace signvote {

/// FOLDER/ca.pem and .key; makes the folder. Private keys are readable by their owner only; nothing is
/// overwritten (ConfigError). Certificates are valid from an hour ago, for clocks differ; a negative
/// number of days makes one that has expired.
void make_ca(const std::filesystem::path& folder, int days);

/// FOLDER/server.pem and .key, signed by FOLDER's ca, for these host names and addresses.
void make_server_certificate(const std::filesystem::path& folder, const std::vector<std::string>& hosts,
                             int days);

/// FOLDER/NAME.pem and .key. Throws ConfigError if the name is not made of letters, digits, '.', '_', '-',
/// does not begin with a letter or digit, or is "ca" or "server".
void make_worker_certificate(const std::filesystem::path& folder, const std::string& name, int days);

/// What a program is started with, read and checked: the files exist, are PEM, the key fits the
/// certificate, which has not expired and is not of the future. Throws DataError naming the file.
struct KeyPair {
  std::string certificate;  // PEM
  std::string key;          // PEM
};
KeyPair load_key_pair(const std::filesystem::path& certificate, const std::filesystem::path& key);

/// PEM with at least one certificate that is valid now. Throws DataError naming the file.
std::string load_authority(const std::filesystem::path& file);

/// Of the first certificate in a PEM; none if it has no common name, or several.
std::optional<std::string> common_name(const std::string& pem);

}  // namespace signvote
