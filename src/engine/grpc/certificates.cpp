#include "engine/grpc/certificates.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/files.h"
#include "signvote/error.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;

template <auto release>
struct Free {
  void operator()(auto* object) const { release(object); }
};
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using Bio = std::unique_ptr<BIO, Free<BIO_free>>;

constexpr std::size_t kLongestCommonName = 64;  // X.520's limit, which OpenSSL enforces

/// For what fails only without memory or randomness.
void check(bool done, std::string_view what) {
  if (done) return;
  const char* reason = ::ERR_reason_error_string(::ERR_peek_last_error());
  throw DataError(fmt::format("OpenSSL cannot {}: {}", what, reason != nullptr ? reason : "no reason given"));
}

std::string to_pem(const auto& write) {
  const Bio bio(::BIO_new(::BIO_s_mem()));
  check(bio != nullptr && write(bio.get()) == 1, "write PEM");
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

std::string to_pem(X509* certificate) {
  return to_pem([certificate](BIO* bio) { return ::PEM_write_bio_X509(bio, certificate); });
}

std::string to_pem(EVP_PKEY* key) {
  return to_pem([key](BIO* bio) {
    return ::PEM_write_bio_PKCS8PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
}

// Reading

Bio reader(const std::string& pem) {
  Bio bio(::BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  check(bio != nullptr, "read PEM");
  return bio;
}

/// The next one; nothing if there is none.
Certificate next_certificate(const Bio& pem) {
  Certificate certificate(::PEM_read_bio_X509(pem.get(), nullptr, nullptr, nullptr));
  ::ERR_clear_error();
  return certificate;
}

/// The first of a file: the program's own; those of a chain follow.
Certificate parse_certificate(const std::string& pem, const fs::path& file) {
  Certificate certificate = next_certificate(reader(pem));
  if (!certificate)
    throw DataError(
        fmt::format("'{}' holds no certificate in PEM (-----BEGIN CERTIFICATE-----)", file.string()));
  return certificate;
}

Key parse_key(const std::string& pem, const fs::path& file) {
  bool encrypted = false;
  const auto no_password = [](char*, int, int, void* asked) {  // else OpenSSL asks on the terminal
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
    const Bio bio(::BIO_new(::BIO_s_mem()));
    check(bio != nullptr && ::ASN1_TIME_print(bio.get(), time) == 1, "print a date");
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio.get(), &data);
    return std::string(data, static_cast<std::size_t>(size));
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

// Writing

void refuse_existing(const fs::path& file) {
  if (fs::exists(fs::symlink_status(file)))
    throw ConfigError(
        fmt::format("'{}' is there already and is not overwritten; remove it or take another folder or name",
                    file.string()));
}

/// Never a moment in which others could read a key: the file is born with its mode.
void write_new(const fs::path& file, std::string_view content, mode_t mode) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0 && errno == EEXIST) refuse_existing(file);
  int error = fd < 0 ? errno : 0;
  while (error == 0 && !content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written >= 0)
      content.remove_prefix(static_cast<std::size_t>(written));
    else if (errno != EINTR)
      error = errno;
  }
  if (error == 0 && ::fsync(fd) != 0) error = errno;
  if (fd >= 0) ::close(fd);
  if (error == 0) return;
  if (fd >= 0) ::unlink(file.c_str());
  throw DataError(fmt::format("cannot write '{}': {}", file.string(), std::strerror(error)));
}

struct Files {
  fs::path certificate;
  fs::path key;
};

Files files_of(const fs::path& folder, const std::string& name) {
  return {folder / (name + ".pem"), folder / (name + ".key")};
}

void write_pair(const Files& files, X509* certificate, EVP_PKEY* key) {
  write_new(files.key, to_pem(key), 0600);
  try {
    write_new(files.certificate, to_pem(certificate), 0644);
  } catch (...) {
    ::unlink(files.key.c_str());
    throw;
  }
}

struct Authority {
  Certificate certificate;
  Key key;
};

Authority load_ca(const fs::path& folder) {
  const Files files = files_of(folder, "ca");
  for (const fs::path& file : {files.certificate, files.key})
    if (!fs::exists(file))
      throw ConfigError(
          fmt::format("there is no '{}' to sign with; make one with: signvote certs new-ca '{}'",
                      file.string(), folder.string()));
  Authority ca{parse_certificate(read_text_file(files.certificate), files.certificate),
               parse_key(read_text_file(files.key), files.key)};
  check_fit(ca.certificate.get(), ca.key.get(), files.certificate, files.key);
  check_dates(ca.certificate.get(), files.certificate, "make a new one in another folder");
  return ca;
}

void add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  ::X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  using Extension = std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION_free>>;
  const Extension extension(::X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  check(extension && ::X509_add_ext(certificate, extension.get(), -1) == 1,
        "add an extension to a certificate");
}

void set_random_serial(X509* certificate) {
  unsigned char bytes[16];
  check(::RAND_bytes(bytes, sizeof bytes) == 1, "draw a serial number");
  bytes[0] &= 0x7f;  // positive, as the standard wants it
  using Number = std::unique_ptr<BIGNUM, Free<BN_free>>;
  const Number number(::BN_bin2bn(bytes, sizeof bytes, nullptr));
  check(number && ::BN_to_ASN1_INTEGER(number.get(), ::X509_get_serialNumber(certificate)),
        "set a serial number");
}

Key make_key() {
  Key key(EVP_EC_gen("P-256"));
  check(key != nullptr, "make a key");
  return key;
}

/// Without extensions and signature. Valid from an hour ago, for clocks differ.
Certificate make_certificate(EVP_PKEY* key, const std::string& name, int days) {
  Certificate certificate(::X509_new());
  X509* raw = certificate.get();
  check(raw != nullptr && ::X509_set_version(raw, X509_VERSION_3) == 1, "make a certificate");
  set_random_serial(raw);
  check(::X509_time_adj_ex(::X509_getm_notBefore(raw), std::min(days, 0), -3600, nullptr) &&
            ::X509_time_adj_ex(::X509_getm_notAfter(raw), days, 0, nullptr),
        "set a certificate's dates");
  check(::X509_NAME_add_entry_by_NID(::X509_get_subject_name(raw), NID_commonName, MBSTRING_UTF8,
                                     reinterpret_cast<const unsigned char*>(name.data()),
                                     static_cast<int>(name.size()), -1, 0) == 1,
        "set a certificate's name");
  check(::X509_set_pubkey(raw, key) == 1, "set a certificate's key");
  return certificate;
}

void sign(X509* certificate, X509* issuer, EVP_PKEY* issuer_key) {
  check(::X509_set_issuer_name(certificate, ::X509_get_subject_name(issuer)) == 1,
        "set a certificate's issuer");
  add_extension(certificate, issuer, NID_subject_key_identifier, "hash");
  add_extension(certificate, issuer, NID_authority_key_identifier, "keyid");
  check(::X509_sign(certificate, issuer_key, ::EVP_sha256()) > 0, "sign a certificate");
}

void make_signed(const fs::path& folder, const std::string& file, const std::string& name,
                 const std::string& alternatives, const std::string& usage, int days) {
  const Authority ca = load_ca(folder);
  const Files files = files_of(folder, file);
  refuse_existing(files.key);
  refuse_existing(files.certificate);
  const Key key = make_key();
  const Certificate certificate = make_certificate(key.get(), name, days);
  X509* issuer = ca.certificate.get();
  add_extension(certificate.get(), issuer, NID_basic_constraints, "critical,CA:FALSE");
  add_extension(certificate.get(), issuer, NID_key_usage, "critical,digitalSignature");
  add_extension(certificate.get(), issuer, NID_ext_key_usage, usage);
  add_extension(certificate.get(), issuer, NID_subject_alt_name, alternatives);
  sign(certificate.get(), issuer, ca.key.get());
  write_pair(files, certificate.get(), key.get());
}

bool made_of(std::string_view text, std::string_view others) {
  return std::ranges::all_of(text, [others](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           others.find(c) != std::string_view::npos;
  });
}

bool is_address(const std::string& host) {
  unsigned char bytes[16];
  return ::inet_pton(AF_INET, host.c_str(), bytes) == 1 || ::inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

}  // namespace

void make_ca(const fs::path& folder, int days) {
  const Files files = files_of(folder, "ca");
  refuse_existing(files.key);
  refuse_existing(files.certificate);
  make_folder(folder);
  const Key key = make_key();
  unsigned char unique[4];
  check(::RAND_bytes(unique, sizeof unique) == 1, "draw a name");
  const Certificate certificate = make_certificate(
      key.get(),
      fmt::format("signvote CA {:02x}{:02x}{:02x}{:02x}", unique[0], unique[1], unique[2], unique[3]), days);
  add_extension(certificate.get(), certificate.get(), NID_basic_constraints, "critical,CA:TRUE");
  add_extension(certificate.get(), certificate.get(), NID_key_usage, "critical,keyCertSign,cRLSign");
  sign(certificate.get(), certificate.get(), key.get());
  write_pair(files, certificate.get(), key.get());
}

void make_server_certificate(const fs::path& folder, const std::vector<std::string>& hosts, int days) {
  if (hosts.empty()) throw ConfigError("a server's certificate needs a host name; give one with --host");
  std::string alternatives;
  for (const std::string& host : hosts) {
    const bool address = is_address(host);
    if (!address && (host.empty() || host.size() > 253 || !made_of(host, ".-*")))
      throw ConfigError(
          fmt::format("the host '{}' is neither a name nor an address; write it without a port, "
                      "as in --host localhost --host 192.0.2.7",
                      host));
    alternatives += fmt::format("{}{}:{}", alternatives.empty() ? "" : ",", address ? "IP" : "DNS", host);
  }
  // Who connects looks at the alternative names; the common name is for people.
  const bool fits = hosts.front().size() <= kLongestCommonName;
  make_signed(folder, "server", fits ? hosts.front() : "signvote server", alternatives, "serverAuth", days);
}

void make_worker_certificate(const fs::path& folder, const std::string& name, int days) {
  if (name.empty() || name.size() > kLongestCommonName || !made_of(name, "._-") ||
      !made_of(name.substr(0, 1), ""))
    throw ConfigError(
        fmt::format("the worker's name '{}' must be 1 to {} letters, digits, '.', '_' or '-', and "
                    "begin with a letter or digit",
                    name, kLongestCommonName));
  if (name == "ca" || name == "server")
    throw ConfigError(fmt::format("a worker cannot be called '{0}', for {0}.pem is another's file", name));
  make_signed(folder, name, name, "DNS:" + name, "clientAuth", days);
}

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
  Certificate certificate = parse_certificate(pem, file);
  // Of several, one that is valid is enough: an authority hands over to its successor in this way.
  const auto valid = [](const Certificate& one) {
    return ::X509_cmp_current_time(::X509_get0_notBefore(one.get())) < 0 &&
           ::X509_cmp_current_time(::X509_get0_notAfter(one.get())) > 0;
  };
  const Bio all = reader(pem);
  for (Certificate one = next_certificate(all); one; one = next_certificate(all))
    if (valid(one)) return pem;
  check_dates(certificate.get(), file, "have a new one made, and all it has signed signed again");
  return pem;
}

std::optional<std::string> common_name(const std::string& pem) {
  const Certificate certificate = next_certificate(reader(pem));
  if (!certificate) return std::nullopt;
  const X509_NAME* subject = ::X509_get_subject_name(certificate.get());
  const int at = ::X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at < 0 || ::X509_NAME_get_index_by_NID(subject, NID_commonName, at) >= 0) return std::nullopt;
  unsigned char* text = nullptr;
  const int size =
      ::ASN1_STRING_to_UTF8(&text, ::X509_NAME_ENTRY_get_data(::X509_NAME_get_entry(subject, at)));
  if (size < 0) return std::nullopt;
  std::string name(reinterpret_cast<const char*>(text), static_cast<std::size_t>(size));
  ::OPENSSL_free(text);
  return name;
}

}  // namespace signvote
