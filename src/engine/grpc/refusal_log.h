// What the log and the audit log say of those who are refused. Strangers can be refused thousands of times a
// second, and must not fill the disk or hide what matters: each reason has a few lines a minute, and then one
// that says how many more there were.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "engine/grpc/audit_log.h"
#include "engine/grpc/vote_server.h"

namespace signvote {

class RefusalLog {
 public:
  static constexpr int kLines = 5;
  static constexpr std::chrono::seconds kMinute{60};

  /// `audit` must outlive this.
  RefusalLog(std::function<void(const std::string&)> log, AuditLog& audit);

  // Any thread may call these.
  void refused(const std::string& peer, const Refusal& refusal, Clock::time_point now);
  /// To be called now and then: tells of those that were left out in a minute that is over.
  void look(Clock::time_point now);

 private:
  struct Reason {
    Clock::time_point began{};  // its minute
    int lines = 0;              // in that minute
    std::uint64_t left_out = 0;
  };
  void tell_left_out(const std::string& name, Reason& reason);

  const std::function<void(const std::string&)> log_;
  AuditLog& audit_;
  std::mutex mutex_;
  std::map<std::string, Reason> reasons_;
};

}  // namespace signvote
