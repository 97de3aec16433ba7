#include "certs/openssl.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include "signvote/error.h"

namespace signvote::openssl {

namespace fs = std::filesystem;

void check(bool done, std::string_view what) {
  if (done) return;
  const char* reason = ::ERR_reason_error_string(::ERR_peek_last_error());
  throw DataError(fmt::format("OpenSSL cannot {}: {}", what, reason != nullptr ? reason : "no reason given"));
}

Bio reader(const std::string& pem) {
  Bio bio(::BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  check(bio != nullptr, "read PEM");
  return bio;
}

Certificate next_certificate(const Bio& pem) {
  Certificate certificate(::PEM_read_bio_X509(pem.get(), nullptr, nullptr, nullptr));
  ::ERR_clear_error();
  return certificate;
}

Certificate parse_certificate(const std::string& pem, const fs::path& file) {
  Certificate certificate = next_certificate(reader(pem));
  if (!certificate)
    throw DataError(
        fmt::format("'{}' holds no certificate in PEM (-----BEGIN CERTIFICATE-----)", file.string()));
  return certificate;
}

Key parse_key(const std::string& pem, const fs::path& file) {
  bool encrypted = false;
  const auto no_password = [](char*, int, int, void* asked) {  // without this OpenSSL asks on the terminal
    *static_cast<bool*>(asked) = true;
    return -1;
  };
  Key key(::PEM_read_bio_PrivateKey(reader(pem).get(), nullptr, no_password, &encrypted));
  ::ERR_clear_error();
  if (encrypted)
    throw DataError(fmt::format(
        "the key in '{0}' has a password; remove it with: openssl pkey -in '{0}' -out KEY", file.string()));
  if (!key) throw DataError(fmt::format("'{}' holds no private key in PEM", file.string()));
  return key;
}

void check_dates(const X509* certificate, const fs::path& file, std::string_view advice) {
  const auto shown = [](const ASN1_TIME* time) {
    return written([time](BIO* bio) { return ::ASN1_TIME_print(bio, time); }, "print a date");
  };
  const ASN1_TIME* from = ::X509_get0_notBefore(certificate);
  const ASN1_TIME* to = ::X509_get0_notAfter(certificate);
  if (::X509_cmp_current_time(from) > 0)
    throw DataError(fmt::format("the certificate '{}' is valid only from {}; check this machine's clock",
                                file.string(), shown(from)));
  if (::X509_cmp_current_time(to) < 0)
    throw DataError(
        fmt::format("the certificate '{}' has expired on {}; {}", file.string(), shown(to), advice));
}

void check_fit(const X509* certificate, const EVP_PKEY* key, const fs::path& certificate_file,
               const fs::path& key_file) {
  const bool fits = ::X509_check_private_key(certificate, key) == 1;
  ::ERR_clear_error();
  if (!fits)
    throw DataError(
        fmt::format("the key '{}' is not that of the certificate '{}'; give the two files that were "
                    "made together",
                    key_file.string(), certificate_file.string()));
}

}  // namespace signvote::openssl
