#include "engine/mpi/inbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "engine/mpi/messages.h"
#include "signvote/error.h"

namespace signvote::mpi {

void Inbox::expect_at_most(std::uint32_t from, std::size_t bytes) {
  letters_[from].most_bytes = bytes;
  letters_[from].bytes = std::make_unique_for_overwrite<std::byte[]>(bytes);
}

void Inbox::begin_round() {
  left_ = 0;
  for (Letter& letter : letters_) {
    letter.size = 0;
    letter.begun = letter.bytes == nullptr;
    if (!letter.begun) ++left_;
  }
}

bool Inbox::in_flight() const {
  return std::ranges::any_of(requests_, [](MPI_Request request) { return request != MPI_REQUEST_NULL; });
}

void Inbox::start() {
  for (std::uint32_t r = 0; r < letters_.size(); ++r)
    while (!letters_[r].begun && start_piece(r)) continue;
}

/// Returns false if no piece has arrived.
bool Inbox::start_piece(std::uint32_t from) {
  Letter& letter = letters_[from];
  const std::string doing = fmt::format("to receive from rank {}", from);
  int found = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  check(MPI_Improbe(static_cast<int>(from), tag_, MPI_COMM_WORLD, &found, &message, &status), doing);
  if (found == 0) return false;
  int bytes = 0;
  check(MPI_Get_count(&status, MPI_BYTE, &bytes), doing);
  const auto size = static_cast<std::size_t>(bytes);
  if (size > kPieceBytes || size > letter.most_bytes - letter.size)
    throw EngineError(fmt::format("rank {} sends {} bytes after {} where {} are the most that makes sense",
                                  from, size, letter.size, letter.most_bytes));
  check(MPI_Imrecv(letter.bytes.get() + letter.size, bytes, MPI_BYTE, &message,
                   &requests_.emplace_back(MPI_REQUEST_NULL)),
        doing);
  senders_.push_back(from);
  letter.size += size;
  letter.begun = size < kPieceBytes;
  ++letter.on_their_way;
  return true;
}

bool Inbox::poll(const Take& take) {
  start();
  if (requests_.empty()) return false;
  done_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int count = 0;
  const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, done_.data(),
                                statuses_.data());
  if (code != MPI_ERR_IN_STATUS) check(code, "to receive");
  if (count == MPI_UNDEFINED || count == 0) return false;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const std::uint32_t from = senders_[static_cast<std::size_t>(done_[i])];
    if (code == MPI_ERR_IN_STATUS)
      check(statuses_[i].MPI_ERROR, fmt::format("to receive from rank {}", from));
    Letter& letter = letters_[from];
    if (--letter.on_their_way > 0 || !letter.begun) continue;
    --left_;
    take(from, std::span<const std::byte>(letter.bytes.get(), letter.size));
  }
  if (!in_flight()) {
    requests_.clear();
    senders_.clear();
  }
  return true;
}

}  // namespace signvote::mpi
