// What reading and making certificates share of OpenSSL.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace signvote::openssl {

template <auto release>
struct Free {
  void operator()(auto* object) const { release(object); }
};
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using Bio = std::unique_ptr<BIO, Free<BIO_free>>;

/// Throws DataError with OpenSSL's reason unless it is done. For what fails only without memory or
/// randomness.
void check(bool done, std::string_view what);

/// What `write` writes to the BIO it is given; it returns 1 if it could.
std::string written(const auto& write, std::string_view what) {
  const Bio bio(::BIO_new(::BIO_s_mem()));
  check(bio != nullptr && write(bio.get()) == 1, what);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

Bio reader(const std::string& pem);

/// The next one; null if there is none.
Certificate next_certificate(const Bio& pem);

// `file` is named in errors.

/// The first in a PEM: the program's own; those of a chain follow. Throws DataError if there is none.
Certificate parse_certificate(const std::string& pem, const std::filesystem::path& file);

/// Throws DataError if there is none, or if it has a password.
Key parse_key(const std::string& pem, const std::filesystem::path& file);

/// Throws DataError, with `advice` if it has expired.
void check_dates(const X509* certificate, const std::filesystem::path& file, std::string_view advice);

/// Throws DataError if the key is another certificate's.
void check_fit(const X509* certificate, const EVP_PKEY* key, const std::filesystem::path& certificate_file,
               const std::filesystem::path& key_file);

}  // namespace signvote::openssl
