// Fetching from folders and from a real HTTP server on this machine, which can refuse ranges and break
// connections. The data set's folder must be complete or as it was, with nothing left beside it.
#include "learn/fetch.h"

#include <gtest/gtest.h>
#include <httplib.h>
#include <rapidcheck.h>
#include <stdlib.h>
#include <zlib.h>

#include <atomic>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include "base/files.h"
#include "base/process.h"
#include "base/sha256.h"
#include "certs/authority.h"
#include "learn/dataset.h"
#include "learn/download.h"
#include "signvote/error.h"
#include "temporary_folder.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;
using Files = std::map<std::string, std::string>;  // content by name

std::string noise(std::size_t size, unsigned seed) {
  std::string text;
  for (std::uint32_t state = seed; text.size() < size;) {
    state = state * 1664525 + 1013904223;
    text += static_cast<char>(state >> 24);
  }
  return text;
}

std::string word(std::uint32_t value) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(value >> shift);
  return bytes;
}

Files small_mnist(unsigned seed = 1) {
  Files files;
  for (const auto& [prefix, count] : {std::pair("train", 5U), std::pair("t10k", 3U)}) {
    files[prefix + std::string("-images-idx3-ubyte")] =
        word(0x803) + word(count) + word(28) + word(28) + noise(count * 784, seed + count);
    files[prefix + std::string("-labels-idx1-ubyte")] = word(0x801) + word(count) + std::string(count, '\7');
  }
  return files;
}

Files small_cifar10() {
  Files files;
  for (const char* file : kCifar10Files) files[file] = '\3' + noise(3072, 1) + '\4' + noise(3072, 2);
  return files;
}

std::string zipped(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

Files zipped(const Files& files) {
  Files result;
  for (const auto& [name, content] : files) result[name + ".gz"] = zipped(content);
  return result;
}

void write(const fs::path& folder, const Files& files) {
  fs::create_directories(folder);
  for (const auto& [name, content] : files) std::ofstream(folder / name, std::ios::binary) << content;
}

Files read(const fs::path& folder) {
  Files files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    files[entry.path().filename()] = read_text_file(entry.path());
  return files;
}

Files sha256_of(const Files& files) {
  Files hashes;
  for (const auto& [name, content] : files) hashes[name] = sha256_hex(std::as_bytes(std::span(content)));
  return hashes;
}

struct Outcome {
  bool fetched = false;
  std::string error;
  std::string said;  // all lines
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Outcome fetch(FetchOptions options) {
  Outcome outcome;
  options.say = [&](const std::string& line) {
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    outcome.said += line + "\n";
  };
  try {
    outcome.fetched = fetch_dataset(options);
  } catch (const DataError& error) {
    outcome.error = error.what();
    EXPECT_EQ(outcome.error.find('\n'), std::string::npos) << outcome.error;
  }
  return outcome;
}

Outcome fetch_from(const std::string& name, const fs::path& into, const fs::path& from,
                   const Files& sha256 = {}) {
  return fetch({.name = name, .into = into, .from = from, .mirror = {}, .say = {}, .sha256 = sha256});
}

TEST(FetchFrom, takes_mnist_plain_zipped_and_dotted) {
  const Files files = small_mnist();
  for (unsigned run = 0; run < 8; ++run) {  // so that each file is spelled each way
    const TemporaryFolder folder;
    unsigned spelling = run;
    for (const auto& [name, content] : files) {
      std::string spelled = name;
      if (spelling & 1) spelled[spelled.find("-idx")] = '.';
      if (spelling & 2)
        write(folder / "from", {{spelled + ".gz", zipped(content)}});
      else
        write(folder / "from", {{spelled, content}});
      ++spelling;
    }
    const bool official = run < 4;
    const Outcome outcome =
        fetch_from("mnist", folder / "mnist", folder / "from", official ? sha256_of(files) : Files());
    EXPECT_TRUE(outcome.fetched) << outcome.error;
    EXPECT_EQ(has(outcome.said, "not the official content"), !official) << outcome.said;
    EXPECT_EQ(read(folder / "mnist"), files);
    EXPECT_EQ(load_dataset("mnist", folder / "mnist").train.count(), 5U);
    EXPECT_EQ(folder.names(), (std::set<std::string>{"from", "mnist"}));
  }
}

TEST(FetchFrom, takes_cifar10_from_its_folder_or_the_archive) {
  const Files files = small_cifar10();
  for (const std::string form : {"flat", "folder", "archive"}) {
    const TemporaryFolder folder;
    write(folder / "a:b", {});  // tar must not take this for a host
    write(form == "flat" ? folder / "a:b" : folder / "a:b" / kCifar10Folder, files);
    if (form == "archive") {
      const ProcessResult tar =
          run_process({"tar", "-czf", "cifar-10-binary.tar.gz", kCifar10Folder}, folder / "a:b");
      ASSERT_EQ(tar.exit_code, 0) << tar.output;
      fs::remove_all(folder / "a:b" / kCifar10Folder);
    }
    const Outcome outcome = fetch_from("cifar10", folder / "deep/er/cifar10/", fs::relative(folder / "a:b"));
    EXPECT_TRUE(outcome.fetched) << form << outcome.error;
    EXPECT_TRUE(has(outcome.said, "not the official content")) << outcome.said;
    EXPECT_TRUE(has(outcome.said, "10 training and 2 test images")) << outcome.said;
    EXPECT_EQ(read(folder / "deep/er/cifar10"), files);
  }
}

TEST(FetchFrom, a_good_copy_is_left_alone) {
  const TemporaryFolder folder;
  write(folder / "mnist", small_mnist());
  const Outcome outcome = fetch_from("mnist", folder / "mnist", folder / "missing");
  EXPECT_FALSE(outcome.fetched);
  EXPECT_EQ(outcome.error, "");
  EXPECT_TRUE(has(outcome.said, "already")) << outcome.said;
  EXPECT_EQ(read(folder / "mnist"), small_mnist());
}

TEST(FetchFrom, a_damaged_copy_is_replaced_only_by_success) {
  for (const std::string victim : kMnistFiles)
    for (const bool missing : {false, true}) {
      const TemporaryFolder folder;
      const std::set<std::string> names = {"from", "mnist", "bad"};
      write(folder / "from", small_mnist(7));
      Files damaged = small_mnist();
      if (missing)
        damaged.erase(victim);
      else
        damaged[victim].pop_back();
      write(folder / "mnist", damaged);
      write(folder / "bad", small_mnist());
      write(folder / "bad", {{victim, "nonsense"}});

      const Outcome failed = fetch_from("mnist", folder / "mnist", folder / "bad");
      EXPECT_TRUE(has(failed.error, (folder / "bad" / victim).string())) << failed.error;
      EXPECT_TRUE(has(failed.said, missing ? "has no " + victim : victim + "' is truncated")) << failed.said;
      EXPECT_EQ(read(folder / "mnist"), damaged);
      EXPECT_EQ(folder.names(), names);

      EXPECT_TRUE(fetch_from("mnist", folder / "mnist", folder / "from").fetched);
      EXPECT_EQ(read(folder / "mnist"), small_mnist(7));
      EXPECT_EQ(folder.names(), names);
    }
}

TEST(FetchFrom, a_failure_leaves_nothing) {
  const TemporaryFolder folder;
  write(folder / "empty", {});
  write(folder / "file", {{"x", "y"}});
  Files truncated = zipped(small_mnist());
  truncated["t10k-images-idx3-ubyte.gz"].pop_back();  // of the checksum: the content is all there
  write(folder / "truncated", truncated);
  Files plain = zipped(small_mnist());
  plain["train-labels-idx1-ubyte.gz"] = "not zipped";
  write(folder / "plain", plain);
  write(folder / "archive", {{"cifar-10-binary.tar.gz", zipped("no tar")}});
  const std::set<std::string> before = folder.names();
  const auto failure = [&](const std::string& name, const std::string& from) {
    const Outcome outcome = fetch_from(name, folder / "target", folder / from);
    EXPECT_TRUE(has(outcome.error, "cannot fetch " + name + ": '" + (folder / from).string()))
        << outcome.error;
    EXPECT_TRUE(has(outcome.error, "`signvote data fetch " + name + " --from DIR`")) << outcome.error;
    EXPECT_EQ(folder.names(), before);
    return outcome.error;
  };
  EXPECT_TRUE(has(failure("mnist", "missing"), "not a folder"));
  EXPECT_TRUE(has(failure("mnist", "file/x"), "not a folder"));
  EXPECT_TRUE(has(failure("mnist", "empty"), "no train-images-idx3-ubyte there"));
  EXPECT_TRUE(has(failure("cifar10", "empty"), "no data_batch_1.bin there (nor cifar-10-binary.tar.gz)"));
  EXPECT_TRUE(has(failure("mnist", "truncated"), "t10k-images-idx3-ubyte.gz' is truncated"));
  EXPECT_TRUE(has(failure("mnist", "plain"), "train-labels-idx1-ubyte.gz' is damaged or no gzip file"));
  EXPECT_TRUE(has(failure("cifar10", "archive"), "cannot unpack"));
}

TEST(FetchFrom, never_replaces_other_files) {
  const TemporaryFolder folder;
  write(folder / "from", small_mnist());
  Files mixed = small_mnist();
  mixed["train-images-idx3-ubyte"].pop_back();
  mixed["diary.txt"] = "dear diary";
  write(folder / "home", mixed);
  const Outcome outcome = fetch_from("mnist", folder / "home", folder / "from");
  EXPECT_TRUE(has(outcome.error, "diary.txt")) << outcome.error;
  EXPECT_EQ(read(folder / "home"), mixed);
  EXPECT_TRUE(has(fetch_from("mnist", folder / "home/diary.txt", folder / "from").error, "not a folder"));
}

TEST(FetchFrom, what_a_killed_fetch_left_is_cleared) {
  const TemporaryFolder folder;
  write(folder / "from", small_mnist());
  write(folder / "mnist.fetching", {{"junk", "junk"}});
  write(folder / "mnist.fetching/new", {{"train-images-idx3-ubyte", "half"}});
  write_file_atomically(folder / "mnist.lock", std::string_view(""));
  write_file_atomically(folder / "mnist.train-images-idx3-ubyte.gz.part", std::string_view("half"));
  EXPECT_TRUE(fetch_from("mnist", folder / "mnist", folder / "from").fetched);
  EXPECT_EQ(folder.names(), (std::set<std::string>{"from", "mnist"}));
}

TEST(FetchFrom, many_at_once_take_turns) {
  const TemporaryFolder folder;
  write(folder / "from", small_mnist());
  std::vector<Outcome> outcomes(8);
  std::vector<std::thread> threads;
  for (Outcome& outcome : outcomes)
    threads.emplace_back([&] { outcome = fetch_from("mnist", folder / "mnist", folder / "from"); });
  for (std::thread& thread : threads) thread.join();
  int fetched = 0;
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.error, "");
    fetched += outcome.fetched ? 1 : 0;
  }
  EXPECT_EQ(fetched, 1);
  EXPECT_EQ(folder.names(), (std::set<std::string>{"from", "mnist"}));
}

TEST(Fetch, refuses_what_makes_no_sense) {
  const TemporaryFolder folder;
  const auto ignore = [](const std::string&) {};
  EXPECT_THROW(
      fetch_dataset({.name = "imagenet", .into = folder / "x", .from = {}, .mirror = {}, .say = ignore}),
      ConfigError);
  EXPECT_THROW(
      fetch_dataset({.name = "mnist", .into = folder / "x", .from = "a", .mirror = "b", .say = ignore}),
      ConfigError);
}

TEST(Fetch, cache_folder) {
  ::setenv("HOME", "/home/someone", 1);
  ::setenv("XDG_CACHE_HOME", "/var/cache/someone", 1);
  EXPECT_EQ(dataset_cache_folder("mnist"), "/var/cache/someone/signvote/mnist");
  ::setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(dataset_cache_folder("mnist"), "/home/someone/.cache/signvote/mnist");
  ::unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(dataset_cache_folder("cifar10"), "/home/someone/.cache/signvote/cifar10");
  ::unsetenv("HOME");
  EXPECT_THROW(dataset_cache_folder("mnist"), ConfigError);
}

// Serves `files` and notes each request as "NAME" or "NAME bytes=FROM-".
class Server {
 public:
  explicit Server(Files files) : files_(std::move(files)) {
    server_.Get("/data/(.*)", [this](const httplib::Request& request, httplib::Response& response) {
      const std::string name = request.matches[1];
      const std::lock_guard lock(mutex_);
      requests_.push_back(request.has_header("Range") ? name + " " + request.get_header_value("Range")
                                                      : name);
      // httplib itself would answer every range; the request it hands out is no constant.
      if (!ranges) const_cast<httplib::Request&>(request).ranges.clear();
      const auto file = files_.find(name);
      if (file == files_.end()) {
        response.status = 404;
      } else if (breaks > 0) {
        --breaks;
        response.set_content_provider(
            file->second.size(), "application/octet-stream",
            [&content = file->second, start = std::size_t{0}, this](std::size_t offset, std::size_t length,
                                                                    httplib::DataSink& sink) mutable {
              if (std::exchange(start, 1) != 0) return false;
              return sink.write(content.data() + offset, std::min(length, break_after));
            });
      } else {
        response.set_content(file->second, "application/octet-stream");
      }
    });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();  // stop() would miss a server yet to start
  }
  ~Server() {
    server_.stop();
    thread_.join();
  }

  std::string address() const { return "http://127.0.0.1:" + std::to_string(port_) + "/data"; }
  std::vector<std::string> requests() {
    const std::lock_guard lock(mutex_);
    return std::exchange(requests_, {});
  }

  std::atomic<bool> ranges = true;
  std::atomic<int> breaks = 0;  // so many answers break off after break_after bytes
  std::size_t break_after = 100;

 private:
  Files files_;
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
  std::mutex mutex_;
  std::vector<std::string> requests_;
};

Outcome fetch_mirror(const std::string& name, const fs::path& into, const std::string& url,
                     const Files& sha256) {
  return fetch({.name = name, .into = into, .from = {}, .mirror = url, .say = {}, .sha256 = sha256});
}

constexpr std::uintmax_t kLimit = 100'000'000;
const std::string kFirst = "train-images-idx3-ubyte.gz";
const std::set<std::string> kOnlyMnist = {"mnist"};

class FetchMirror : public testing::Test {
 protected:
  FetchMirror() { ::setenv("no_proxy", "127.0.0.1", 1); }

  Outcome run() { return fetch_mirror("mnist", folder / "mnist", server.address() + "/", sha256_of(files)); }
  fs::path part() const { return folder / ("mnist." + kFirst + ".part"); }
  void expect_success(const Outcome& outcome) {
    EXPECT_TRUE(outcome.fetched) << outcome.error;
    EXPECT_EQ(read(folder / "mnist"), files);
    EXPECT_EQ(folder.names(), kOnlyMnist);
  }

  Files files = small_mnist();
  Files served = zipped(files);
  TemporaryFolder folder;
  Server server{served};
};

TEST_F(FetchMirror, downloads_mnist) {
  expect_success(run());
  EXPECT_EQ(server.requests().size(), 4U);
  EXPECT_FALSE(run().fetched);
  EXPECT_EQ(server.requests().size(), 0U);
}

TEST_F(FetchMirror, downloads_cifar10) {
  write(folder / kCifar10Folder, small_cifar10());
  ASSERT_EQ(run_process({"tar", "-czf", "all.tar.gz", kCifar10Folder}, folder / ".").exit_code, 0);
  const Files archive = {{"cifar-10-binary.tar.gz", read_text_file(folder / "all.tar.gz")}};
  Server mirror(archive);
  EXPECT_TRUE(fetch_mirror("cifar10", folder / "cifar10", mirror.address(), sha256_of(archive)).fetched);
  EXPECT_EQ(read(folder / "cifar10"), small_cifar10());
}

TEST_F(FetchMirror, resumes_a_part) {
  write_file_atomically(part(), std::string_view(served[kFirst]).substr(0, 1000));
  expect_success(run());
  EXPECT_EQ(server.requests()[0], kFirst + " bytes=1000-");
}

TEST_F(FetchMirror, takes_a_part_that_is_complete) {
  write_file_atomically(part(), served[kFirst]);
  expect_success(run());
  EXPECT_EQ(server.requests().size(), 4U);
}

TEST_F(FetchMirror, starts_anew_if_the_part_is_wrong) {
  for (const std::size_t size : {std::size_t{1000}, served[kFirst].size(), std::size_t{100'000}}) {
    write_file_atomically(part(), noise(size, 99));
    expect_success(run());
    const std::vector<std::string> requests = server.requests();
    EXPECT_EQ(requests[0], kFirst + " bytes=" + std::to_string(size) + "-");
    EXPECT_EQ(requests[1], kFirst);
    fs::remove_all(folder / "mnist");
  }
}

TEST_F(FetchMirror, starts_anew_if_the_server_sends_only_whole_files) {
  server.ranges = false;
  write_file_atomically(part(), std::string_view(served[kFirst]).substr(0, 1000));
  expect_success(run());
  EXPECT_EQ(server.requests()[1], kFirst);
}

TEST_F(FetchMirror, goes_on_after_a_broken_connection) {
  server.breaks = 2;
  expect_success(run());
  const std::vector<std::string> requests = server.requests();
  EXPECT_EQ(requests[0], kFirst);
  EXPECT_EQ(requests[1], kFirst + " bytes=100-");
  EXPECT_EQ(requests[2], kFirst + " bytes=200-");
}

TEST_F(FetchMirror, keeps_the_part_of_a_download_that_fails) {
  server.breaks = 1000;
  const Outcome failed = run();
  EXPECT_TRUE(has(failed.error, server.address())) << failed.error;
  EXPECT_TRUE(has(failed.error, "--from DIR")) << failed.error;
  EXPECT_EQ(folder.names(), std::set<std::string>{part().filename()});
  const std::size_t have = fs::file_size(part());
  EXPECT_EQ(read_text_file(part()), served[kFirst].substr(0, have));
  server.requests();
  server.breaks = 0;
  expect_success(run());
  EXPECT_EQ(server.requests()[0], kFirst + " bytes=" + std::to_string(have) + "-");
}

TEST_F(FetchMirror, refuses_a_wrong_hash) {
  Files expected = sha256_of(files);
  expected["t10k-labels-idx1-ubyte"] = std::string(64, '0');
  const Outcome outcome = fetch_mirror("mnist", folder / "mnist", server.address(), expected);
  EXPECT_TRUE(has(outcome.error, "t10k-labels-idx1-ubyte.gz is not the expected file: its SHA-256 is wrong"))
      << outcome.error;
  EXPECT_FALSE(folder.names().contains("mnist"));
  EXPECT_FALSE(folder.names().contains("mnist.t10k-labels-idx1-ubyte.gz.part"));
  EXPECT_TRUE(has(fetch_mirror("mnist", folder / "mnist", server.address(), {}).error, "SHA-256 is wrong"));
}

TEST_F(FetchMirror, names_what_the_server_lacks) {
  const Outcome outcome = fetch_mirror("cifar10", folder / "cifar10", server.address(), {});
  EXPECT_TRUE(has(outcome.error, server.address() + ": ") && has(outcome.error, "404")) << outcome.error;
  EXPECT_TRUE(folder.names().empty());
}

TEST_F(FetchMirror, only_http_is_spoken) {
  write(folder / "served", served);
  const std::string url = "file://" + (folder / "served").string();
  EXPECT_NE(fetch_mirror("mnist", folder / "mnist", url, sha256_of(files)).error, "");
  EXPECT_EQ(folder.names(), std::set<std::string>{"served"});
}

/// Downloads it with nothing to check; returns why that failed.
std::string refusal(const std::string& url, const fs::path& part, std::uintmax_t most_bytes = kLimit) {
  try {
    download(
        url, part, most_bytes, [](const std::string&) {}, [](const fs::path&) {});
    return "";
  } catch (const DataError& error) {
    return error.what();
  }
}

/// Runs a server of httplib for as long as it lives.
struct Running {
  explicit Running(httplib::Server& served)
      : server(served),
        port(server.bind_to_any_port("127.0.0.1")),
        thread([this] { server.listen_after_bind(); }) {
    while (!server.is_running()) std::this_thread::yield();
  }
  ~Running() {
    server.stop();
    thread.join();
  }
  httplib::Server& server;
  int port;
  std::thread thread;
};

TEST_F(FetchMirror, what_is_too_large_is_not_kept) {
  Server mirror({{"file", noise(5000, 3)}});
  EXPECT_EQ(refusal(mirror.address() + "/file", folder / "part", 5000), "");
  fs::remove(folder / "part");
  EXPECT_TRUE(has(refusal(mirror.address() + "/file", folder / "part", 4999), "more than 4999 bytes"));
  EXPECT_TRUE(folder.names().empty());
  write(folder / ".", {{"part", noise(6000, 3)}});  // larger than the file may be: it starts anew
  EXPECT_EQ(refusal(mirror.address() + "/file", folder / "part", 5000), "");
  EXPECT_EQ(fs::file_size(folder / "part"), 5000U);
  fs::remove(folder / "part");

  httplib::Server endless;  // and says nothing of its size
  endless.Get("/file", [](const httplib::Request&, httplib::Response& response) {
    response.set_chunked_content_provider("text/plain", [](std::size_t, httplib::DataSink& sink) {
      const std::string more(10'000, 'x');
      return sink.write(more.data(), more.size());
    });
  });
  const Running running(endless);
  const std::string url = "http://127.0.0.1:" + std::to_string(running.port) + "/file";
  EXPECT_TRUE(has(refusal(url, folder / "part", 1'000'000), "more than 1000000 bytes"));
  EXPECT_TRUE(folder.names().empty());
}

TEST_F(FetchMirror, https_does_not_lead_to_http) {
  const TemporaryFolder certs;
  make_ca(certs / ".", 1);
  make_server_certificate(certs / ".", {"127.0.0.1"}, 1);
  httplib::SSLServer secure((certs / "server.pem").c_str(), (certs / "server.key").c_str());
  secure.Get("/file", [](const httplib::Request&, httplib::Response& response) {
    response.set_content("content", "text/plain");
  });
  secure.Get("/elsewhere", [this](const httplib::Request&, httplib::Response& response) {
    response.set_redirect(server.address() + "/" + kFirst);
  });
  secure.Get("/back",
             [](const httplib::Request&, httplib::Response& response) { response.set_redirect("/file"); });
  const Running running(secure);
  const std::string base = "https://127.0.0.1:" + std::to_string(running.port);
  EXPECT_NE(refusal(base + "/file", folder / "part"), "") << "nobody trusts this authority";
  ::setenv("SSL_CERT_FILE", (certs / "ca.pem").c_str(), 1);
  EXPECT_EQ(refusal(base + "/file", folder / "part"), "");
  fs::remove(folder / "part");
  EXPECT_EQ(refusal(base + "/back", folder / "part"), "");
  fs::remove(folder / "part");
  EXPECT_NE(refusal(base + "/elsewhere", folder / "part"), "");
  ::unsetenv("SSL_CERT_FILE");
  EXPECT_TRUE(server.requests().empty());
  EXPECT_TRUE(folder.names().empty());
}

TEST_F(FetchMirror, every_beginning_can_be_resumed) {
  const std::string content = noise(5000, 3);
  Server mirror({{"file", content}});
  EXPECT_TRUE(rc::check("a part of any length, of this file or another", [&] {
    const TemporaryFolder place;
    mirror.ranges = *rc::gen::arbitrary<bool>();
    mirror.breaks = *rc::gen::inRange(0, 3);
    const auto size = *rc::gen::inRange<std::size_t>(0, 6000);
    write(place / ".", {{"part", noise(size, *rc::gen::element(3U, 4U))}});
    download(
        mirror.address() + "/file", place / "part", kLimit, [](const std::string&) {},
        [&](const fs::path& path) {
          if (read_text_file(path) != content) throw DataError("wrong");
        });
    RC_ASSERT(read_text_file(place / "part") == content);
  }));
}

TEST_F(FetchMirror, tells_of_a_large_file) {
  const std::string content(21'000'000, 'x');
  Server mirror({{"large", content}});
  std::vector<std::string> said;
  download(
      mirror.address() + "/large", folder / "part", kLimit,
      [&](const std::string& line) { said.push_back(line); }, [](const fs::path&) {});
  ASSERT_FALSE(said.empty());
  EXPECT_LE(said.size(), 10U);
  EXPECT_TRUE(said.back().ends_with("100 % of 21 MB")) << said.back();
  fs::remove(folder / "part");
  struct Interrupt {};
  EXPECT_THROW(download(
                   mirror.address() + "/large", folder / "part", kLimit,
                   [](const std::string&) { throw Interrupt(); }, [](const fs::path&) {}),
               Interrupt);
}

}  // namespace
}  // namespace signvote
