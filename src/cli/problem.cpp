#include "cli/problem.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "base/text.h"
#include "signvote/error.h"

namespace signvote::cli {

Problem current_problem() {
  const std::string text = describe_current_exception();
  try {
    throw;
  } catch (const ConfigError&) {
    return {2, text};
  } catch (const std::exception&) {
    return {1, text};
  }
}

void say(const std::string& problem) {
  fmt::print(stderr, "signvote: {}\n", problem);
  std::fflush(stderr);
}

}  // namespace signvote::cli
