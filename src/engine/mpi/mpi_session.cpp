#include "engine/mpi/mpi_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <vector>

#include "engine/mpi/mpi_calls.h"
#include "signvote/error.h"

namespace signvote {

MpiSession::MpiSession() {
  int provided = MPI_THREAD_SINGLE;
  mpi::check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "to start");
  if (provided < MPI_THREAD_FUNNELED)
    throw EngineError("this MPI does not allow a program with threads (MPI_THREAD_FUNNELED)");
  mpi::check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "to report its errors");
  int rank = 0;
  int ranks = 1;
  mpi::check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "to tell the rank");
  mpi::check(MPI_Comm_size(MPI_COMM_WORLD, &ranks), "to tell the number of ranks");
  rank_ = static_cast<std::uint32_t>(rank);
  size_ = static_cast<std::uint32_t>(ranks);
}

MpiSession::~MpiSession() {
  if (std::uncaught_exceptions() == 0) MPI_Finalize();
}

std::string MpiSession::first_problem(const std::string& mine) const {
  const std::string doing = "to compare the ranks' problems";
  const int has_one = mine.empty() ? 0 : 1;
  std::vector<int> have_one(size_);
  MPI_Request request = MPI_REQUEST_NULL;
  mpi::check(MPI_Iallgather(&has_one, 1, MPI_INT, have_one.data(), 1, MPI_INT, MPI_COMM_WORLD, &request),
             doing);
  mpi::wait(request, doing);
  const auto first = std::ranges::find(have_one, 1);
  if (first == have_one.end()) return {};
  return broadcast(mine, static_cast<std::uint32_t>(first - have_one.begin()));
}

std::string MpiSession::broadcast(const std::string& mine, std::uint32_t from) const {
  const std::string doing = fmt::format("to get a text from rank {}", from);
  const auto root = static_cast<int>(from);
  std::string text = mine;
  auto length = static_cast<int>(text.size());
  MPI_Request request = MPI_REQUEST_NULL;
  mpi::check(MPI_Ibcast(&length, 1, MPI_INT, root, MPI_COMM_WORLD, &request), doing);
  mpi::wait(request, doing);
  text.resize(static_cast<std::size_t>(length));
  mpi::check(MPI_Ibcast(text.data(), length, MPI_CHAR, root, MPI_COMM_WORLD, &request), doing);
  mpi::wait(request, doing);
  return text;
}

void MpiSession::abort(int code) const {
  MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);  // MPI_Abort does not return, but the compiler cannot know that
}

}  // namespace signvote
