// The certificates that a program is started with, read and checked. A worker's identity is the common name
// of its certificate, and its key.
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

/// What a program shows, and whom it believes, in files that may be replaced while it runs.
class TlsFiles {
 public:
  /// Reads and checks them. Throws what load_key_pair and load_authority throw.
  TlsFiles(std::filesystem::path certificate, std::filesystem::path key, std::filesystem::path authority);

  const KeyPair& keys() const { return keys_; }
  const std::string& authority() const { return authority_; }
  /// What is not as it should be, though it works; empty if all is well.
  std::string warning() const;

  /// Reads them again; true if they changed. If they are gone or do not work, keeps the old ones and throws
  /// DataError, once for each change: files that are replaced one after the other do not fit for a while.
  bool reload();

 private:
  void load();

  std::filesystem::path certificate_file_, key_file_, authority_file_;
  std::string seen_;  // all three as they were last read
  KeyPair keys_;
  std::string authority_;
};

/// Who a certificate says that its owner is.
struct Identity {
  std::string name;  // the common name
  std::string key;   // "sha256:" and the SHA-256 of the public key (its SubjectPublicKeyInfo in DER)
  bool operator==(const Identity&) const = default;
};

/// Of the first certificate in a PEM; none if it has no common name, or several.
std::optional<Identity> identity(const std::string& pem);

}  // namespace signvote
