#include "learn/download.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>

#include "signvote/error.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;
using Say = std::function<void(const std::string&)>;

constexpr long kConnectSeconds = 5;
constexpr long kStalledBytes = 100;  // a second; a transfer that is slower for kStalledSeconds is given up
constexpr long kStalledSeconds = 30;
constexpr int kTransfers = 5;  // attempts at one file; each continues where the last one broke off
constexpr std::uintmax_t kLargeBytes = 20'000'000;

std::uintmax_t size_of(const fs::path& path) {
  std::error_code missing;
  const std::uintmax_t size = fs::file_size(path, missing);
  return missing ? 0 : size;
}

struct Progress {
  const std::string& url;
  const Say& say;
  std::uintmax_t have;  // bytes from before this transfer
  std::uintmax_t most;  // with those
  bool too_large = false;
  int told = 0;  // tenths that `say` was told of
  std::exception_ptr failure{};
};

int tell(void* context, curl_off_t total, curl_off_t now, curl_off_t, curl_off_t) noexcept {
  auto& progress = *static_cast<Progress*>(context);
  const std::uintmax_t whole = progress.have + static_cast<std::uintmax_t>(total);
  // What a server says of the size need not be true, nor need it say anything.
  progress.too_large = std::max(whole, progress.have + static_cast<std::uintmax_t>(now)) > progress.most;
  if (progress.too_large) return 1;
  if (total <= 0 || whole < kLargeBytes) return 0;
  const auto tenth = static_cast<int>((progress.have + static_cast<std::uintmax_t>(now)) * 10 / whole);
  if (tenth <= progress.told) return 0;
  progress.told = tenth;
  try {
    progress.say(fmt::format("{}: {} % of {} MB", progress.url, tenth * 10, whole / 1'000'000));
    return 0;
  } catch (...) {  // because an exception must not pass through libcurl
    progress.failure = std::current_exception();
    return 1;
  }
}

/// Makes one transfer and appends it to the `have` bytes of `part`. `reason` says why it failed.
CURLcode transfer(const std::string& url, const fs::path& part, std::uintmax_t have, std::uintmax_t most,
                  const Say& say, std::string& reason) {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl(curl_easy_init(), curl_easy_cleanup);
  if (ready != CURLE_OK || !curl) throw DataError("libcurl cannot start");
  const std::unique_ptr<std::FILE, decltype(&std::fclose)> file(std::fopen(part.c_str(), "abe"), std::fclose);
  if (!file) throw DataError(fmt::format("cannot write '{}': {}", part.string(), std::strerror(errno)));
  Progress progress{.url = url, .say = say, .have = have, .most = most};
  std::array<char, CURL_ERROR_SIZE> text{};
  const auto set = [&](CURLoption option, auto value) { curl_easy_setopt(curl.get(), option, value); };
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_REDIR_PROTOCOLS_STR, url.starts_with("https:") ? "https" : "http,https");
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, 10L);
  if (const char* authorities = std::getenv("SSL_CERT_FILE")) set(CURLOPT_CAINFO, authorities);
  set(CURLOPT_FAILONERROR, 1L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  set(CURLOPT_LOW_SPEED_LIMIT, kStalledBytes);
  set(CURLOPT_LOW_SPEED_TIME, kStalledSeconds);
  set(CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(have));
  set(CURLOPT_ERRORBUFFER, text.data());
  set(CURLOPT_WRITEDATA, file.get());
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFODATA, &progress);
  set(CURLOPT_XFERINFOFUNCTION, &tell);
  CURLcode outcome = curl_easy_perform(curl.get());
  if (progress.failure) std::rethrow_exception(progress.failure);
  if (progress.too_large) {
    std::error_code ignored;
    fs::remove(part, ignored);
    throw DataError(fmt::format("has more than {} bytes, so it is not the file that was looked for", most));
  }
  if (std::fflush(file.get()) != 0 && outcome == CURLE_OK) outcome = CURLE_WRITE_ERROR;
  reason = text[0] != '\0' ? text.data() : curl_easy_strerror(outcome);
  return outcome;
}

}  // namespace

void download(const std::string& url, const fs::path& part, std::uintmax_t most_bytes, const Say& say,
              const std::function<void(const fs::path&)>& check) {
  std::error_code ignored;
  if (size_of(part) > most_bytes) fs::remove(part, ignored);
  for (int count = 1;; ++count) {
    const std::uintmax_t have = size_of(part);
    std::string reason;
    const CURLcode outcome = transfer(url, part, have, most_bytes, say, reason);
    if (outcome == CURLE_OK) {  // also if nothing was missing, because libcurl accepts the status 416
      try {
        return check(part);
      } catch (const DataError&) {
        fs::remove(part, ignored);
        if (have == 0) throw;  // otherwise its beginning may come from another version of the file
      }
    } else if (outcome == CURLE_RANGE_ERROR && have > 0) {
      fs::remove(part, ignored);  // this server sends only whole files
    } else {
      const std::uintmax_t now = size_of(part);
      if (now == 0) fs::remove(part, ignored);
      if (now <= have || count >= kTransfers) throw DataError(reason);
    }
  }
}

}  // namespace signvote
