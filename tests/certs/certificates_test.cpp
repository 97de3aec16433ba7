// Certificates as OpenSSL's own program sees them, and what is refused.

#include "certs/certificates.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "base/files.h"
#include "base/process.h"
#include "certs/authority.h"
#include "signvote/error.h"
#include "temporary_folder.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;

class Certificates : public testing::Test {
 protected:
  std::string openssl(std::vector<std::string> words, int expected = 0) {
    words.insert(words.begin(), "openssl");
    const ProcessResult result = run_process(words, folder.path());
    EXPECT_EQ(result.exit_code, expected) << result.output;
    return result.output;
  }
  std::string shown(const std::string& file) { return openssl({"x509", "-in", file, "-noout", "-text"}); }

  template <class Failure>
  void refuses(const std::function<void()>& work, const std::string& words) {
    try {
      work();
      FAIL() << "not refused: " << words;
    } catch (const Failure& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(words), std::string::npos) << text;
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    }
  }

  TemporaryFolder folder;
};

TEST_F(Certificates, are_chains_that_openssl_accepts) {
  const fs::path there = folder / "deep/certs";
  make_ca(there, 30);
  make_server_certificate(there, {"localhost", "127.0.0.1", "::1", "vote.example.org"}, 20);
  make_worker_certificate(there, "worker-1.lab_2", 20);
  const std::string ca = there / "ca.pem", server = there / "server.pem",
                    worker = there / "worker-1.lab_2.pem";
  openssl({"verify", "-x509_strict", "-CAfile", ca, ca});
  for (const char* host : {"localhost", "vote.example.org"})
    openssl(
        {"verify", "-x509_strict", "-CAfile", ca, "-purpose", "sslserver", "-verify_hostname", host, server});
  for (const char* address : {"127.0.0.1", "::1"})
    openssl(
        {"verify", "-x509_strict", "-CAfile", ca, "-purpose", "sslserver", "-verify_ip", address, server});
  openssl({"verify", "-x509_strict", "-CAfile", ca, "-purpose", "sslclient", worker});
  openssl({"verify", "-CAfile", ca, "-verify_hostname", "other.example.org", server}, 2);
  openssl({"verify", "-CAfile", ca, "-purpose", "sslclient", server}, 2);
  openssl({"verify", "-CAfile", ca, "-purpose", "sslserver", worker}, 2);
  EXPECT_NE(shown(worker).find("CN = worker-1.lab_2"), std::string::npos);
  EXPECT_NE(shown(worker).find("DNS:worker-1.lab_2"), std::string::npos);
  EXPECT_NE(shown(worker).find("ecdsa-with-SHA256"), std::string::npos);
  EXPECT_NE(shown(worker).find("prime256v1"), std::string::npos);
  EXPECT_NE(shown(ca).find("CA:TRUE"), std::string::npos);
  EXPECT_NE(shown(ca).find("Certificate Sign, CRL Sign"), std::string::npos);

  make_ca(folder / "other", 30);
  openssl({"verify", "-CAfile", folder / "other/ca.pem", worker}, 2);
}

TEST_F(Certificates, are_read_back) {
  make_ca(folder.path(), 30);
  make_worker_certificate(folder.path(), "ann", 20);
  const KeyPair pair = load_key_pair(folder / "ann.pem", folder / "ann.key");
  ASSERT_TRUE(identity(pair.certificate));
  EXPECT_EQ(identity(pair.certificate)->name, "ann");
  EXPECT_EQ(pair.certificate, read_text_file(folder / "ann.pem"));
  EXPECT_EQ(pair.key, read_text_file(folder / "ann.key"));
  EXPECT_EQ(load_authority(folder / "ca.pem"), read_text_file(folder / "ca.pem"));
}

TEST_F(Certificates, keys_are_for_their_owner_only) {
  const mode_t before = ::umask(0);
  make_ca(folder.path(), 30);
  make_server_certificate(folder.path(), {"localhost"}, 20);
  make_worker_certificate(folder.path(), "ann", 20);
  ::umask(before);
  for (const char* name : {"ca", "server", "ann"}) {
    struct stat status {};
    ASSERT_EQ(::stat((folder / (std::string(name) + ".key")).c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0600u) << name;
  }
}

TEST_F(Certificates, overwrite_nothing) {
  make_ca(folder.path(), 30);
  make_server_certificate(folder.path(), {"localhost"}, 20);
  make_worker_certificate(folder.path(), "ann", 20);
  const auto names = folder.names();
  const std::string key = read_text_file(folder / "ann.key");
  refuses<ConfigError>([&] { make_ca(folder.path(), 30); }, "ca.key' is there already");
  refuses<ConfigError>([&] { make_server_certificate(folder.path(), {"localhost"}, 20); },
                       "server.key' is there");
  refuses<ConfigError>([&] { make_worker_certificate(folder.path(), "ann", 20); },
                       "ann.key' is there already");
  fs::remove(folder / "ann.key");
  refuses<ConfigError>([&] { make_worker_certificate(folder.path(), "ann", 20); },
                       "ann.pem' is there already");
  EXPECT_FALSE(fs::exists(folder / "ann.key"));
  fs::create_symlink("/nowhere", folder / "ann.key");
  fs::remove(folder / "ann.pem");
  refuses<ConfigError>([&] { make_worker_certificate(folder.path(), "ann", 20); },
                       "ann.key' is there already");
}

TEST_F(Certificates, need_an_authority_that_can_sign) {
  refuses<ConfigError>([&] { make_worker_certificate(folder.path(), "ann", 20); }, "signvote certs new-ca");
  make_ca(folder / "expired", -1);
  refuses<DataError>([&] { make_worker_certificate(folder / "expired", "ann", 20); }, "has expired");
  make_ca(folder / "one", 20);
  make_ca(folder / "two", 20);
  fs::copy_file(folder / "one/ca.key", folder / "two/ca.key", fs::copy_options::overwrite_existing);
  refuses<DataError>([&] { make_worker_certificate(folder / "two", "ann", 20); },
                     "is not that of the certificate");
}

TEST_F(Certificates, have_names_that_make_sense) {
  make_ca(folder.path(), 30);
  for (const std::string name : {"", "a b", "a/b", "../a", "-a", ".a", "a,DNS:b", "a\n", "ä", "ca", "server"})
    EXPECT_THROW(make_worker_certificate(folder.path(), name, 20), ConfigError) << name;
  EXPECT_THROW(make_worker_certificate(folder.path(), std::string(65, 'a'), 20), ConfigError);
  make_worker_certificate(folder.path(), std::string(64, 'a'), 20);
  for (const std::string host : {"", "localhost:7000", "a b", "a,DNS:b", "[::1]", "http://a"})
    EXPECT_THROW(make_server_certificate(folder.path(), {"localhost", host}, 20), ConfigError) << host;
  EXPECT_THROW(make_server_certificate(folder.path(), {}, 20), ConfigError);
  make_server_certificate(folder.path(), {std::string(60, 'a') + ".example.org"}, 20);
}

TEST_F(Certificates, that_do_not_work_are_not_loaded) {
  make_ca(folder.path(), 30);
  make_worker_certificate(folder.path(), "ann", 20);
  make_worker_certificate(folder.path(), "bob", 20);
  make_worker_certificate(folder.path(), "old", -1);
  const auto load = [&](const std::string& certificate, const std::string& key) {
    return [=, this] { load_key_pair(folder / certificate, folder / key); };
  };
  refuses<DataError>(load("none.pem", "ann.key"), "none.pem");
  refuses<DataError>(load("ann.pem", "none.key"), "none.key");
  refuses<DataError>(load("ann.key", "ann.key"), "holds no certificate");
  refuses<DataError>(load("ann.pem", "ann.pem"), "holds no private key");
  refuses<DataError>(load("ann.pem", "bob.key"), "is not that of the certificate");
  refuses<DataError>(load("old.pem", "old.key"), "has expired on");
  refuses<DataError>([&] { load_authority(folder / "ann.key"); }, "holds no certificate");
  refuses<DataError>([&] { load_authority(folder / "none.pem"); }, "none.pem");

  std::ofstream(folder / "empty.pem");
  refuses<DataError>(load("empty.pem", "ann.key"), "holds no certificate");
  openssl({"pkey", "-in", "ann.key", "-aes256", "-passout", "pass:secret", "-out", "locked.key"});
  refuses<DataError>(load("ann.pem", "locked.key"), "has a password");
}

TEST_F(Certificates, name_one_or_nobody) {
  EXPECT_EQ(identity("no certificate"), std::nullopt);
  const auto named = [&](const std::string& subject) {
    openssl({"req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
             subject, "-keyout", "some.key", "-out", "some.pem"});
    load_key_pair(folder / "some.pem", folder / "some.key");  // a server needs no name
    return identity(read_text_file(folder / "some.pem"));
  };
  EXPECT_EQ(named("/O=nameless"), std::nullopt);
  EXPECT_EQ(named("/CN=ann/CN=bob"), std::nullopt);
  ASSERT_TRUE(named("/CN=ann/O=here"));
  EXPECT_EQ(identity(read_text_file(folder / "some.pem"))->name, "ann");
}

TEST_F(Certificates, are_read_again_when_they_change_and_work) {
  make_ca(folder.path(), 30);
  make_worker_certificate(folder.path(), "ann", 20);
  TlsFiles files(folder / "ann.pem", folder / "ann.key", folder / "ca.pem");
  const KeyPair before = files.keys();
  EXPECT_EQ(files.authority(), read_text_file(folder / "ca.pem"));
  EXPECT_FALSE(files.reload());
  make_worker_certificate(folder.path(), "bob", 20);
  fs::rename(folder / "bob.pem", folder / "ann.pem");
  refuses<DataError>([&] { files.reload(); }, "is not that of the certificate");
  EXPECT_FALSE(files.reload()) << "told once";
  EXPECT_EQ(files.keys().certificate, before.certificate);
  fs::rename(folder / "bob.key", folder / "ann.key");
  EXPECT_TRUE(files.reload());
  EXPECT_FALSE(files.reload());
  EXPECT_EQ(identity(files.keys().certificate)->name, "bob");
  EXPECT_EQ(files.keys().key, read_text_file(folder / "ann.key"));
  fs::rename(folder / "ca.pem", folder / "away.pem");
  refuses<DataError>([&] { files.reload(); }, "ca.pem");
  EXPECT_FALSE(files.reload());
  EXPECT_EQ(files.authority(), read_text_file(folder / "away.pem"));
  fs::rename(folder / "away.pem", folder / "ca.pem");
  EXPECT_TRUE(files.reload()) << "it is back: used anew, though it is the same";
  make_ca(folder / "other", 30);
  fs::rename(folder / "other/ca.pem", folder / "ca.pem");
  EXPECT_TRUE(files.reload());
  EXPECT_EQ(files.authority(), read_text_file(folder / "ca.pem"));
}

TEST_F(Certificates, have_the_key_that_openssl_sees) {
  make_ca(folder.path(), 30);
  make_worker_certificate(folder.path(), "ann", 20);
  openssl({"pkey", "-in", "ann.key", "-pubout", "-outform", "DER", "-out", "public.der"});
  const std::string sum = openssl({"dgst", "-sha256", "-r", "public.der"}).substr(0, 64);
  EXPECT_EQ(identity(read_text_file(folder / "ann.pem"))->key, "sha256:" + sum);
}

TEST_F(Certificates, of_an_authority_that_has_expired_are_of_no_use) {
  make_ca(folder / "old", -1);
  make_ca(folder / "new", 10);
  refuses<DataError>([&] { load_authority(folder / "old/ca.pem"); }, "has expired on");
  const std::string both = read_text_file(folder / "old/ca.pem") + read_text_file(folder / "new/ca.pem");
  write_file_atomically(folder / "both.pem", both);
  EXPECT_EQ(load_authority(folder / "both.pem"), both) << "as an authority is replaced";
}

}  // namespace
}  // namespace signvote
