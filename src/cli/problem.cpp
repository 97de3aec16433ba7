#include "cli/problem.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>

#include "signvote/error.h"

namespace signvote::cli {

Problem current_problem() {
  try {
    throw;
  } catch (const ConfigError& error) {
    return {2, error.what()};
  } catch (const std::bad_alloc&) {
    return {1, "out of memory; take fewer workers, a smaller --micro-batch or fewer --threads"};
  } catch (const std::filesystem::filesystem_error& error) {
    return {1, fmt::format("cannot look at '{}': {}", error.path1().string(), error.code().message())};
  } catch (const std::exception& error) {
    const std::string what = error.what();  // libtorch adds a stack trace on further lines
    return {1, what.substr(0, what.find('\n'))};
  }
}

void say(const std::string& problem) {
  fmt::print(stderr, "signvote: {}\n", problem);
  std::fflush(stderr);
}

}  // namespace signvote::cli
