// What MPI ranks send to each other, as bytes. Nothing here calls MPI. docs/clusters.md is the
// specification.
//
// Every message begins with a preamble that says what it is about and ends with a checksum of all before
// it. A ballot message has the ballots of a rank's workers, each cut to the coordinates of the rank that
// it goes to; a verdict message has a rank's part of the verdict, and what its tally pools. The signs are
// bodies as in ballot/body.h, one for each ballot, so that each worker's can be encoded as soon as it has
// voted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ballot/body.h"
#include "engine/engine.h"
#include "signvote/sign_vector.h"

namespace signvote::mpi {

constexpr int kBallotTag = 1;
constexpr int kVerdictTag = 2;

/// A message is sent in pieces of this many bytes; the first piece that is shorter, maybe empty, is its
/// last. Open MPI sends messages below 64 KB by TCP without asking the receiver first. Longer ones wait for
/// its answer, several times over: at 100 Mbit/s and N = 10^7 a round then took 290 ms instead of 200.
constexpr std::size_t kPieceBytes = 60 * 1024;

/// The coordinates of a rank: whole words of a ballot, except at the model's end. Empty for some ranks if
/// there are more ranks than words.
struct Shard {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  std::uint64_t size() const { return end - begin; }
};

/// A rank's share of a model of `size` coordinates. All shares are equal to within a word.
Shard shard_of(std::uint64_t size, std::uint32_t ranks, std::uint32_t rank);

inline SignView slice(SignView whole, const Shard& shard) { return whole.slice(shard.begin, shard.size()); }

/// Which message this is. The sender and the receiver must agree on it.
struct MessageId {
  std::uint64_t run_id = 0;
  std::uint64_t round = 0;
  std::uint32_t sender = 0;  // a rank
};

/// The largest size in bytes that such a message can have.
std::size_t most_ballot_bytes(const Shard& to, std::size_t workers);
std::size_t most_verdict_bytes(const Shard& from, std::size_t pooled);

/// One worker's ballot on one rank's coordinates, as it is sent.
struct EncodedSlice {
  BodyLayout layout;
  std::vector<std::byte> bytes;
};

inline void encode_slice(SignView signs, EncodedSlice& out) { out.layout = write_body(signs, out.bytes, 0); }

/// What a rank sends about one of its workers.
struct SentBallot {
  BatchLoss loss;
  const EncodedSlice* slice = nullptr;  // null: the worker is absent
};

/// What a rank receives about one worker.
struct ReceivedBallot {
  BatchLoss loss;
  bool present = false;
  SignVector signs;  // if present
};

/// What a rank says of itself with its ballots.
struct RankWord {
  bool stop = false;         // it was asked to stop
  std::uint64_t digest = 0;  // of its parameters before the round; 0 in rounds without one
};

/// `ballots` are those of all workers that the sender hosts, in their order.
void encode_ballots(const MessageId& id, const RankWord& word, std::span<const SentBallot> ballots,
                    std::vector<std::byte>& out);

/// Reads what encode_ballots wrote. The bytes may come from anybody. Returns false if something is wrong;
/// `problem` then says what in one line. REQUIRES: as many `ballots` as the sender hosts workers.
[[nodiscard]] bool decode_ballots(std::span<const std::byte> bytes, const MessageId& id, const Shard& to,
                                  RankWord& word, std::span<ReceivedBallot> ballots, std::string& problem);

/// `pooled` is as Tally::pooled gives it. `traffic` is what the sender has sent before this message; this
/// adds the message itself to it, as often as it is sent.
void encode_verdict(const MessageId& id, const EncodedSlice& slice, std::span<const std::int64_t> pooled,
                    std::uint32_t copies, Traffic& traffic, std::vector<std::byte>& out);

/// Reads a shard's slice into the verdict on all coordinates, what its tally pools, and the sender's traffic.
/// Like decode_ballots in all else. REQUIRES: as many `pooled` as the sender has.
[[nodiscard]] bool decode_verdict(std::span<const std::byte> bytes, const MessageId& id, const Shard& from,
                                  SignVector& verdict, std::span<std::int64_t> pooled, Traffic& traffic,
                                  std::string& problem);

}  // namespace signvote::mpi
