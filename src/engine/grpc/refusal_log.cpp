#include "engine/grpc/refusal_log.h"

#include <fmt/format.h>

#include <utility>

namespace signvote {

RefusalLog::RefusalLog(std::function<void(const std::string&)> log, AuditLog& audit)
    : log_(std::move(log)), audit_(audit) {}

void RefusalLog::refused(const std::string& peer, const Refusal& refusal, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  Reason& reason = reasons_[refusal.reason];
  if (now - reason.began >= kMinute) {
    tell_left_out(refusal.reason, reason);
    reason = {now, 0, 0};
  }
  if (reason.lines == kLines) {
    ++reason.left_out;
    return;
  }
  ++reason.lines;
  log_(fmt::format("refused {}: {} ({})", peer.empty() ? "somebody" : peer, refusal.text, refusal.reason));
  audit_.refused(peer, refusal.reason, refusal.text);
}

void RefusalLog::look(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  for (auto& [name, reason] : reasons_)
    if (now - reason.began >= kMinute) tell_left_out(name, reason);
}

void RefusalLog::tell_left_out(const std::string& name, Reason& reason) {
  const std::uint64_t count = std::exchange(reason.left_out, 0);
  if (count == 0) return;
  log_(fmt::format("refused {} more within a minute ({})", count, name));
  audit_.more_refused(name, count);
}

}  // namespace signvote
