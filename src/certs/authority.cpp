#include "certs/authority.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/files.h"
#include "certs/openssl.h"
#include "signvote/error.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;
using namespace openssl;

constexpr std::size_t kLongestCommonName = 64;  // X.520's limit, which OpenSSL enforces

std::string to_pem(X509* certificate) {
  return written([certificate](BIO* bio) { return ::PEM_write_bio_X509(bio, certificate); }, "write PEM");
}

std::string to_pem(EVP_PKEY* key) {
  return written(
      [key](BIO* bio) {
        return ::PEM_write_bio_PKCS8PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
      },
      "write PEM");
}

void refuse_existing(const fs::path& file) {
  if (fs::exists(fs::symlink_status(file)))
    throw ConfigError(fmt::format(
        "'{}' is there already and is not overwritten; remove it, or choose another folder or name",
        file.string()));
}

/// The file is created with its mode, so that at no moment others can read a key.
void write_new(const fs::path& file, std::string_view content, mode_t mode) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0 && errno == EEXIST) refuse_existing(file);
  int error = fd < 0 ? errno : 0;
  while (error == 0 && !content.empty()) {
    const ssize_t count = ::write(fd, content.data(), content.size());
    if (count >= 0)
      content.remove_prefix(static_cast<std::size_t>(count));
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
  bytes[0] &= 0x7f;  // the standard asks for a positive number
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

/// Without extensions and signature. Valid from an hour ago, because clocks differ.
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
  // Clients check the alternative names; the common name is for people.
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
    throw ConfigError(
        fmt::format("a worker cannot be called '{0}', because {0}.pem is not a worker's file", name));
  make_signed(folder, name, name, "DNS:" + name, "clientAuth", days);
}

}  // namespace signvote
