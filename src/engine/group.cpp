#include "engine/group.h"

#include <fmt/format.h>

#include <cstdlib>
#include <exception>

#include "base/text.h"

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

}  // namespace signvote
