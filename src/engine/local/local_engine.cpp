#include "engine/local/local_engine.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

#include "engine/checkpoint.h"
#include "signvote/wire.h"

namespace signvote {

LocalEngine::LocalEngine(const TallyOptions& options, std::uint64_t run_id, std::filesystem::path folder,
                         ParallelFor parallel)
    : tally_(options, std::move(parallel)),
      run_id_(run_id),
      folder_(std::move(folder)),
      hosted_(options.workers),
      votes_(options.workers),
      messages_(options.workers),
      losses_(options.workers) {
  std::iota(hosted_.begin(), hosted_.end(), 0U);
}

void LocalEngine::open(const RunState&, const std::function<void(const RunState&)>& saved,
                       const std::function<void(const Outcome&)>&) {
  const auto state = load_checkpoint(folder_, hosted_);
  if (!state) return;
  saved(*state);
  restore_tally(*state, folder_, tally_);
  shards_ = state->shards;
  saved_round_ = state->progress.rounds;
}

void LocalEngine::start() { remove_parts(folder_, shards_, saved_round_); }

void LocalEngine::send_ballot(std::uint32_t worker, const SignVector* ballot, const BatchLoss& loss) {
  losses_[worker] = loss;
  if (ballot == nullptr) return;
  assert(ballot->size() == tally_.size());
  std::vector<std::byte>& message = messages_[worker];
  encode({MessageKind::ballot, run_id_, tally_.rounds(), worker, ballot->size()}, *ballot, message);
  votes_[worker] = *ballot;
  ballots_ += 1;
  ballot_bytes_ += message.size();
}

Outcome LocalEngine::receive_verdict(bool stop) {
  Outcome outcome;
  outcome.stop = stop;
  outcome.losses = std::exchange(losses_, std::vector<BatchLoss>(losses_.size()));
  outcome.present =
      static_cast<std::uint32_t>(std::ranges::count_if(votes_, &std::optional<SignView>::has_value));
  if (outcome.present == 0) return outcome;
  const MessageHeader header{MessageKind::verdict, run_id_, tally_.rounds(), 0, tally_.size()};
  tally_.decide(votes_, verdict_);
  std::ranges::fill(votes_, std::nullopt);
  encode(header, verdict_, verdict_message_);
  verdicts_ += 1;
  verdict_bytes_ += verdict_message_.size();
  outcome.verdict = &verdict_;
  return outcome;
}

void LocalEngine::save(RunState state) {
  save_memories(state, folder_);
  save_checkpoint(std::move(state), tally_, folder_);
}

}  // namespace signvote
