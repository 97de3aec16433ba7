#include "certs/certificates.h"

#include <fmt/format.h>
#include <openssl/x509.h>

#include <span>
#include <utility>

#include "base/files.h"
#include "base/sha256.h"
#include "certs/openssl.h"
#include "signvote/error.h"

namespace signvote {

namespace fs = std::filesystem;
using namespace openssl;

KeyPair load_key_pair(const fs::path& certificate_file, const fs::path& key_file) {
  KeyPair pair{read_text_file(certificate_file), read_text_file(key_file)};
  const Certificate certificate = parse_certificate(pair.certificate, certificate_file);
  const Key key = parse_key(pair.key, key_file);
  check_fit(certificate.get(), key.get(), certificate_file, key_file);
  check_dates(certificate.get(), certificate_file, "have a new one signed");
  return pair;
}

std::string load_authority(const fs::path& file) {
  std::string pem = read_text_file(file);
  const Certificate first = parse_certificate(pem, file);
  // One that is valid is enough, because this is how an authority hands over to its successor.
  const auto valid = [](const Certificate& one) {
    return ::X509_cmp_current_time(::X509_get0_notBefore(one.get())) < 0 &&
           ::X509_cmp_current_time(::X509_get0_notAfter(one.get())) > 0;
  };
  const Bio all = reader(pem);
  for (Certificate one = next_certificate(all); one; one = next_certificate(all))
    if (valid(one)) return pem;
  check_dates(first.get(), file, "make a new authority, and sign all certificates again");
  return pem;
}

TlsFiles::TlsFiles(fs::path certificate, fs::path key, fs::path authority)
    : certificate_file_(std::move(certificate)),
      key_file_(std::move(key)),
      authority_file_(std::move(authority)) {
  load();
  seen_ = keys_.certificate + keys_.key + authority_;
}

std::string TlsFiles::warning() const {
  if ((fs::status(key_file_).permissions() & fs::perms::others_read) == fs::perms::none) return {};
  return fmt::format("every user of this machine can read the private key '{0}'; do: chmod 600 '{0}'",
                     key_file_.string());
}

void TlsFiles::load() {
  KeyPair keys = load_key_pair(certificate_file_, key_file_);
  authority_ = load_authority(authority_file_);
  keys_ = std::move(keys);
}

bool TlsFiles::reload() {
  std::string now;
  for (const fs::path& file : {certificate_file_, key_file_, authority_file_}) {
    try {
      now += read_text_file(file);
    } catch (const DataError&) {  // load() says so
    }
  }
  if (now == seen_) return false;
  seen_ = now;
  load();
  return true;
}

std::optional<Identity> identity(const std::string& pem) {
  const Certificate certificate = next_certificate(reader(pem));
  if (!certificate) return std::nullopt;
  const X509_NAME* subject = ::X509_get_subject_name(certificate.get());
  const int at = ::X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at < 0 || ::X509_NAME_get_index_by_NID(subject, NID_commonName, at) >= 0) return std::nullopt;
  unsigned char* text = nullptr;
  const int size =
      ::ASN1_STRING_to_UTF8(&text, ::X509_NAME_ENTRY_get_data(::X509_NAME_get_entry(subject, at)));
  if (size < 0) return std::nullopt;
  Identity owner;
  owner.name.assign(reinterpret_cast<const char*>(text), static_cast<std::size_t>(size));
  ::OPENSSL_free(text);
  unsigned char* key = nullptr;
  const int key_size = ::i2d_X509_PUBKEY(::X509_get_X509_PUBKEY(certificate.get()), &key);
  check(key_size > 0, "write a public key");
  owner.key = "sha256:" + sha256_hex(std::as_bytes(std::span(key, static_cast<std::size_t>(key_size))));
  ::OPENSSL_free(key);
  return owner;
}

}  // namespace signvote
