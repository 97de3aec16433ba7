// How a program that runs as several ranks ends.
#pragma once

#include <functional>

#include "engine/group.h"

namespace signvote::cli {

/// Runs `work` in all processes of a group and returns its exit code. An error that all of them know of is
/// said once, by the leader, before any of them ends; any other error ends the whole job. In a group of one,
/// errors are the caller's.
int end_together(const Group& group, const std::function<int()>& work);

}  // namespace signvote::cli
