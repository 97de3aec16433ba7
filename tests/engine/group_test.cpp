// An error in any process of a group: all of them have it, in the same words. Started by mpirun.
#include "engine/group.h"

#include <fmt/format.h>

#include <filesystem>
#include <new>
#include <string>

#include "engine/mpi/mpi_session.h"

using namespace signvote;

namespace {

bool failed = false;

/// `work` is called with the rank. It ends in SharedError on all; without one where `text` is empty.
void expect(const Group& group, bool usage, const std::string& text,
            const std::function<void(std::uint32_t)>& work) {
  std::string got;
  bool got_usage = false;
  try {
    on_all_ranks(group, [&] { work(group.rank()); });
  } catch (const SharedError& error) {
    got = error.what();
    got_usage = error.is_usage;
  }
  if (got == text && got_usage == usage) return;
  failed = true;
  fmt::print("rank {}: '{}' ({}) instead of '{}' ({})\n", group.rank(), got, got_usage, text, usage);
}

}  // namespace

int main() {
  const MpiSession session;
  const std::uint32_t last = session.size() - 1;
  expect(session, false, "", [](std::uint32_t) {});
  expect(session, false, "rank 1: no data", [](std::uint32_t rank) {
    if (rank >= 1) throw DataError("no data");
  });
  expect(session, true, fmt::format("rank {}: no sense", last), [last](std::uint32_t rank) {
    if (rank == last) throw ConfigError("no sense");
  });
  expect(session, true, "no sense", [](std::uint32_t) { throw ConfigError("no sense"); });
  // As they read in a program that is alone.
  expect(session, false,
         "rank 1: out of memory; take fewer workers, a smaller --micro-batch or fewer --threads",
         [](std::uint32_t rank) {
           if (rank == 1) throw std::bad_alloc();
         });
  expect(session, false, "rank 1: cannot look at '/nowhere': No such file or directory",
         [](std::uint32_t rank) {
           if (rank == 1) static_cast<void>(std::filesystem::directory_iterator("/nowhere"));
         });
  expect(session, false, "one line", [](std::uint32_t) { throw std::runtime_error("one line\nof many"); });
  // Everybody gets what rank 0 has to say.
  for (const std::uint32_t length : {0U, 1U, 100'000U})
    if (session.of_leader(std::string(session.leads() ? length : 7, 'x')) != std::string(length, 'x')) {
      failed = true;
      fmt::print("rank {}: other than {} bytes of rank 0\n", session.rank(), length);
    }
  return failed ? 1 : 0;
}
