#include "cli/compute/hooks.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>

#include "base/line_queue.h"
#include "base/text.h"

namespace signvote::cli {
namespace {

std::atomic<bool> interrupted = false;  // global, because a signal handler reaches nothing else

const std::atomic<bool>* catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  return &interrupted;
}

/// With the time before it.
std::string log_line(const std::string& text) {
  using namespace std::chrono;
  const auto now = floor<milliseconds>(system_clock::now());
  return fmt::format("{:%F %T}.{:03} {}\n", fmt::localtime(system_clock::to_time_t(now)),
                     now.time_since_epoch().count() % 1000, text);
}

}  // namespace

TrainHooks ShownProgress::hooks() {
  TrainHooks hooks;
  hooks.stop = catch_interrupts();
  hooks.warn = [this](const std::string& line) { progress_.note(line); };
  hooks.progress = [this](const ProgressState& state) { progress_.update(state); };
  return hooks;
}

TrainHooks logging_hooks() {
  // A run must not wait until somebody reads its log, nor end when nobody ever will: write() then says so.
  ::signal(SIGPIPE, SIG_IGN);
  const auto queue = std::make_shared<LineQueue>(
      [](const std::string& line, const std::function<bool()>& hurry) {
        write_patiently(STDERR_FILENO, line, hurry);
      },
      [](std::uint64_t lost) {
        return log_line(fmt::format("{} lines of this log were lost, because nobody read it", lost));
      });
  TrainHooks hooks;
  hooks.stop = catch_interrupts();
  hooks.warn = [queue](const std::string& line) { queue->push(log_line(without_controls(line))); };
  hooks.progress = [queue](const ProgressState& state) {
    if (!state.evaluated && state.done != state.total) return;
    queue->push(log_line(
        fmt::format("round {} of {}{}{}{}", state.done, state.total,
                    state.test_accuracy ? fmt::format(", accuracy {:.2f} %", 100 * *state.test_accuracy) : "",
                    state.test_loss ? fmt::format(", test loss {:.4f}", *state.test_loss) : "",
                    state.train_loss ? fmt::format(", loss {:.4f}", *state.train_loss) : "")));
  };
  return hooks;
}

}  // namespace signvote::cli
