// What MPI ranks say to each other, as bytes; of MPI itself nothing is known here. docs/clusters.md is the
// specification.
//
// Both messages are one wire message (wire.h) and a trailer with its own checksum. A ballot message has
// the ballots of a rank's workers, cut to the coordinates of the rank it goes to; a verdict message has a
// rank's part of the verdict.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "signvote/sign_vector.h"

namespace signvote::mpi {

constexpr int kBallotTag = 1;
constexpr int kVerdictTag = 2;

/// A message goes in pieces of so many bytes; the first one that is shorter, if only empty, is its last. Open
/// MPI sends what is below 64 KB by TCP without asking the receiver first. Longer ones wait for its answer,
/// several times over: at 100 Mbit/s and N = 10^7 a round then took 290 ms instead of 200.
constexpr std::size_t kPieceBytes = 60 * 1024;

/// The coordinates of a rank: whole words, so that slices are copies. Empty where ranks outnumber words.
struct Shard {
  std::uint64_t first_word = 0;
  std::uint64_t words = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  std::uint64_t size() const { return end - begin; }
};

/// Of a model of `size` coordinates, cut evenly.
Shard shard_of(std::uint64_t size, std::uint32_t ranks, std::uint32_t rank);

/// What a rank says of its workers, in the order it hosts them.
struct WorkersTrailer {
  bool stop = false;
  std::vector<std::uint8_t> present;
  std::vector<BatchLoss> losses;
};

/// What a rank says of its shard.
struct ShardTrailer {
  Traffic traffic;                   // what this rank has sent so far
  std::vector<std::int64_t> totals;  // half-errors by worker; empty for Method::mv
};

/// Which messages are exchanged: the same in the sender and the receiver.
struct RoundId {
  std::uint64_t run_id = 0;
  std::uint64_t round = 0;
};

/// The most bytes that a message can have.
std::size_t most_ballot_bytes(const Shard& to, std::size_t workers);
std::size_t most_verdict_bytes(const Shard& from, std::size_t totals);

/// `ballots` are those of the workers present; `joined` is only there to keep its memory.
/// `first_worker` stands for the sender in the header.
void encode_ballots(const RoundId& id, std::uint32_t first_worker, const Shard& to,
                    std::span<const SignVector* const> ballots, const WorkersTrailer& trailer,
                    SignVector& joined, std::vector<std::byte>& out);

/// Reads what `workers` workers sent to this shard: ballots[i], if trailer.present[i]. False: `problem`
/// says in one line what is wrong. Foreign bytes never crash it.
bool decode_ballots(std::span<const std::byte> bytes, const RoundId& id, std::uint32_t first_worker,
                    const Shard& to, std::span<SignVector* const> ballots, WorkersTrailer& trailer,
                    SignVector& joined, std::string& problem);

/// `trailer.traffic` is that before this message, which adds itself.
void encode_verdict(const RoundId& id, SignView slice, ShardTrailer& trailer, std::vector<std::byte>& out);

/// Reads a shard's slice. trailer.totals has as many as are expected.
bool decode_verdict(std::span<const std::byte> bytes, const RoundId& id, const Shard& from, SignVector& slice,
                    ShardTrailer& trailer, std::string& problem);

/// A shard's coordinates out of all, and back.
SignView slice(SignView whole, const Shard& shard);
void place_slice(SignView slice, const Shard& shard, SignVector& whole);

}  // namespace signvote::mpi
