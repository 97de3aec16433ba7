#include "engine/group.h"

#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>

namespace signvote {

void Group::abort(int code) const { std::_Exit(code); }

void on_all_ranks(const Group& group, const std::function<void()>& work) {
  if (group.size() == 1) return work();
  constexpr char kUsage = 'u';
  std::string mine;  // the error's kind, then its text
  try {
    work();
  } catch (const std::exception& error) {
    mine = dynamic_cast<const ConfigError*>(&error) != nullptr ? kUsage : 'e';
    if (!group.leads()) mine += fmt::format("rank {}: ", group.rank());
    mine += describe_current_exception();
  }
  const std::string first = group.first_problem(mine);
  if (!first.empty()) throw SharedError(first.substr(1), first.front() == kUsage);
}

std::string describe_current_exception() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return "out of memory; take fewer workers, a smaller --micro-batch or fewer --threads";
  } catch (const std::filesystem::filesystem_error& error) {
    return fmt::format("cannot look at '{}': {}", error.path1().string(), error.code().message());
  } catch (const std::exception& error) {
    const std::string what = error.what();
    return what.substr(0, what.find('\n'));  // libtorch's errors go on with a stack trace
  }
}

}  // namespace signvote
