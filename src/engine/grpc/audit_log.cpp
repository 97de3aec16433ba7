#include "engine/grpc/audit_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "signvote/error.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// `fields` with the time and the event before them.
std::string line_of(const char* event, const Json& fields) {
  using namespace std::chrono;
  const auto now = floor<milliseconds>(system_clock::now());
  Json line = {{"time", fmt::format("{:%FT%T}.{:03}Z", fmt::gmtime(system_clock::to_time_t(now)),
                                    now.time_since_epoch().count() % 1000)},
               {"event", event}};
  line.update(fields);
  // A name need not be UTF-8, and JSON is.
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

AuditLog::AuditLog(fs::path file, std::function<void(const std::string&)> log, std::size_t largest_bytes)
    : file_(std::move(file)),
      log_(std::move(log)),
      largest_(largest_bytes),
      queue_([this](const std::string& line, const std::function<bool()>&) { append(line); },
             [](std::uint64_t lost) {
               return line_of("lost", {{"lines", lost}});
             }) {
  open();  // before anything is pushed
}

void AuditLog::open() {
  std::error_code missing;
  const auto bytes = fs::file_size(file_, missing);
  lines_.emplace(file_, missing ? 0 : bytes);
}

void AuditLog::joined(const Identity& who, std::uint32_t worker, const std::string& peer,
                      const std::string& program) {
  queue_.push(line_of(
      "joined",
      {{"name", who.name}, {"worker", worker}, {"peer", peer}, {"key", who.key}, {"program", program}}));
}

void AuditLog::left(const Identity& who, std::uint32_t worker) {
  queue_.push(line_of("left", {{"name", who.name}, {"worker", worker}}));
}

void AuditLog::rounds_lost(const Identity& who, std::uint32_t worker, std::uint64_t held,
                           std::uint64_t known) {
  queue_.push(
      line_of("rounds_lost", {{"name", who.name}, {"worker", worker}, {"held", held}, {"known", known}}));
}

void AuditLog::refused(const std::string& peer, const std::string& reason, const std::string& text) {
  queue_.push(line_of("refused", {{"peer", peer}, {"reason", reason}, {"why", text}}));
}

void AuditLog::more_refused(const std::string& reason, std::uint64_t count) {
  queue_.push(line_of("more_refused", {{"reason", reason}, {"count", count}}));
}

void AuditLog::append(const std::string& line) {
  try {
    if (!lines_) open();  // which failed when the last one was full
    if (lines_->bytes() > 0 && lines_->bytes() + line.size() + 1 > largest_) {
      fs::rename(file_, file_.string() + ".1");
      open();
    }
    lines_->append(line);
    failed_ = false;
  } catch (const std::exception& error) {
    if (!std::exchange(failed_, true)) log_(fmt::format("the audit log is not written: {}", error.what()));
  }
}

}  // namespace signvote
