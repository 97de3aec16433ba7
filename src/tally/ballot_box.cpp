#include "signvote/ballot_box.h"

#include <fmt/format.h>

#include <algorithm>

#include "signvote/wire.h"

namespace signvote {

BallotBox::BallotBox(Tally& tally, std::uint64_t run_id)
    : tally_(tally), run_id_(run_id), ballots_(tally.options().workers), cast_(tally.options().workers) {}

bool BallotBox::cast(std::uint32_t worker, std::span<const std::byte> bytes, std::string& problem) {
  if (worker >= ballots_.size()) {
    problem = fmt::format("worker {} of a run with {} workers", worker, ballots_.size());
    return false;
  }
  if (cast_[worker] != 0) {
    problem = fmt::format("worker {} has voted in round {} already", worker, round());
    return false;
  }
  const MessageHeader expected{MessageKind::ballot, run_id_, round(), worker, tally_.size()};
  if (!decode(bytes, expected, ballots_[worker], problem)) return false;
  cast_[worker] = 1;
  return true;
}

std::span<const std::byte> BallotBox::close() {
  std::vector<std::optional<SignView>> ballots(ballots_.size());
  for (std::size_t m = 0; m < ballots.size(); ++m)
    if (cast_[m] != 0) ballots[m] = ballots_[m];
  const std::uint64_t decided = round();
  tally_.decide(ballots, verdict_);
  encode({MessageKind::verdict, run_id_, decided, 0, verdict_.size()}, verdict_, verdict_bytes_);
  std::ranges::fill(cast_, std::uint8_t{0});
  return verdict_bytes_;
}

}  // namespace signvote
