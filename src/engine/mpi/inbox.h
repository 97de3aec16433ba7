// Receives one message a round from every other rank, in whatever order they arrive.
//
// Each piece of a message is probed before it is received, because Open MPI 4.1 writes a piece that is longer
// than its buffer (from some 64 KB on) past the buffer's end, instead of reporting an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/mpi/mpi_calls.h"

namespace signvote::mpi {

class Inbox {
 public:
  Inbox(std::uint32_t ranks, int tag) : tag_(tag), letters_(ranks) {}

  /// From now on rank `from` sends one message a round, of at most `bytes` bytes.
  void expect_at_most(std::uint32_t from, std::size_t bytes);

  void begin_round();

  /// Whether all messages of this round have been taken.
  bool complete() const { return left_ == 0; }

  /// Whether MPI may still write to this object's memory.
  bool in_flight() const;

  /// Begins to receive the pieces that have arrived. Throws EngineError if a rank sends more bytes than
  /// expected.
  void start();

  /// Calls take(rank, message) for every message that is complete by now. Returns whether any piece has been
  /// received.
  using Take = std::function<void(std::uint32_t from, std::span<const std::byte> message)>;
  bool poll(const Take& take);

 private:
  struct Letter {
    std::size_t most_bytes = 0;
    std::unique_ptr<std::byte[]> bytes;  // null if nothing is expected: from this rank itself
    std::size_t size = 0;                // of the pieces whose receiving has begun
    bool begun = true;                   // the last piece is being received, or was
    std::size_t on_their_way = 0;        // pieces that are being received
  };

  bool start_piece(std::uint32_t from);

  int tag_;
  std::vector<Letter> letters_;  // by rank
  std::size_t left_ = 0;         // messages not taken yet
  std::vector<MPI_Request> requests_;
  std::vector<std::uint32_t> senders_;  // by request
  std::vector<int> done_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace signvote::mpi
