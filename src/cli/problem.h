// Errors as the user sees them: one line and an exit code.
#pragma once

#include <string>

namespace signvote::cli {

struct Problem {
  int exit_code = 1;
  std::string text;
};

/// Describes the current exception. REQUIRES: it is a std::exception.
Problem current_problem();

void say(const std::string& problem);

}  // namespace signvote::cli
