#include "cli/compute/hooks.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <csignal>
#include <memory>

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

}  // namespace

TrainHooks ShownProgress::hooks() {
  TrainHooks hooks;
  hooks.stop = catch_interrupts();
  hooks.warn = [this](const std::string& line) { progress_.note(line); };
  hooks.progress = [this](const ProgressState& state) { progress_.update(state); };
  return hooks;
}

TrainHooks logging_hooks() {
  auto logger =
      std::make_shared<spdlog::logger>("signvote", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %v");
  logger->flush_on(spdlog::level::info);
  TrainHooks hooks;
  hooks.stop = catch_interrupts();
  hooks.warn = [logger](const std::string& line) { logger->info("{}", without_controls(line)); };
  hooks.progress = [logger](const ProgressState& state) {
    if (!state.evaluated && state.done != state.total) return;
    logger->info("round {} of {}{}{}", state.done, state.total,
                 state.test_accuracy ? fmt::format(", accuracy {:.2f} %", 100 * *state.test_accuracy) : "",
                 state.train_loss ? fmt::format(", loss {:.4f}", *state.train_loss) : "");
  };
  return hooks;
}

}  // namespace signvote::cli
