#include "cli/compute/ranks.h"

#include <fmt/format.h>

#include <cstdlib>
#include <exception>

#include "cli/problem.h"

namespace signvote::cli {

int end_together(const Group& group, const std::function<int()>& work) {
  try {
    return work();
  } catch (const SharedError& error) {
    if (group.leads()) say(error.what());
    group.first_problem("");  // all meet, because a rank that ends may end the leader before it has said it
    return error.is_usage ? 2 : 1;
  } catch (const std::exception&) {
    if (group.size() == 1) throw;
    const Problem problem = current_problem();
    say(fmt::format("rank {}: {}", group.rank(), problem.text));
    group.abort(problem.exit_code);
    std::abort();  // not reached, which g++ does not see of a virtual function
  }
}

}  // namespace signvote::cli
