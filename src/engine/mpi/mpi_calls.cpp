#include "engine/mpi/mpi_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <thread>

#include "signvote/error.h"

namespace signvote::mpi {

void check(int code, const std::string& doing) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) length = 0;
  throw EngineError(fmt::format("MPI failed {}: {} (code {})", doing,
                                std::string_view(text.data(), static_cast<std::size_t>(length)), code));
}

void BackOff::pause() {
  using std::chrono::microseconds;
  const auto share = std::chrono::duration_cast<microseconds>(waited() / 8);
  // A sleep takes 50 us longer than asked for (the system's timer slack), so a short one is not worth it.
  if (share < microseconds(20))
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(std::min(share, microseconds(200)));
}

void wait(MPI_Request& request, const std::string& doing, const std::function<void(const BackOff&)>& idle) {
  BackOff back_off;
  for (int done = 0;;) {
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), doing);
    if (done != 0) return;
    if (idle) idle(back_off);
    back_off.pause();
  }
}

}  // namespace signvote::mpi
