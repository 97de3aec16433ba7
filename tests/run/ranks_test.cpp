// An error on any rank: rank 0 has said it, once, before any of them ends. Started by mpirun with the name of
// a file that takes rank 0's stderr.
#include "run/ranks.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <new>
#include <string>

#include "base/files.h"

using namespace signvote;

namespace {

std::uint64_t said = 0;  // bytes of the file so far
bool failed = false;

/// `work` is called with the rank. It ends in SaidByRank0 on all, with this exit code, after this line.
void expect_said(const MpiSession& session, const std::filesystem::path& file, int code,
                 const std::string& line, const std::function<void(std::uint32_t)>& work) {
  int got = 0;
  try {
    end_all_on_error(&session, [&] { on_all_ranks(&session, [&] { work(session.rank()); }); });
  } catch (const SaidByRank0& error) {
    got = error.exit_code;
  }
  const std::string text = read_text_file(file).substr(said);
  said += text.size();
  if (got == code && text == line) return;
  failed = true;
  fmt::print("rank {}: {} and '{}' instead of {} and '{}'\n", session.rank(), got, text, code, line);
}

}  // namespace

int main(int, char** argv) {
  const std::filesystem::path file = argv[1];
  const MpiSession session;
  if (session.rank() == 0 && std::freopen(file.c_str(), "w", stderr) == nullptr) session.abort(1);
  session.first_problem("");  // the file is there, and empty
  const std::uint32_t last = session.ranks() - 1;
  const auto expect = [&](int code, const std::string& line, const std::function<void(std::uint32_t)>& work) {
    expect_said(session, file, code, line, work);
  };
  expect(0, "", [](std::uint32_t) {});
  expect(1, "signvote: rank 1: no data\n", [](std::uint32_t rank) {
    if (rank >= 1) throw DataError("no data");
  });
  expect(2, fmt::format("signvote: rank {}: no sense\n", last), [last](std::uint32_t rank) {
    if (rank == last) throw ConfigError("no sense");
  });
  expect(2, "signvote: no sense\n", [](std::uint32_t) { throw ConfigError("no sense"); });
  // As they read in a program that is alone.
  expect(1,
         "signvote: rank 1: out of memory; take fewer workers, a smaller --micro-batch or fewer --threads\n",
         [](std::uint32_t rank) {
           if (rank == 1) throw std::bad_alloc();
         });
  expect(1, "signvote: rank 1: cannot look at '/nowhere': No such file or directory\n",
         [](std::uint32_t rank) {
           if (rank == 1) static_cast<void>(std::filesystem::directory_iterator("/nowhere"));
         });
  expect(1, "signvote: one line\n", [](std::uint32_t) { throw std::runtime_error("one line\nof many"); });
  // Everybody gets what rank 0 has to say.
  for (const std::uint32_t length : {0U, 1U, 100'000U})
    if (session.of_rank0(std::string(session.rank() == 0 ? length : 7, 'x')) != std::string(length, 'x')) {
      failed = true;
      fmt::print("rank {}: other than {} bytes of rank 0\n", session.rank(), length);
    }
  return failed ? 1 : 0;
}
