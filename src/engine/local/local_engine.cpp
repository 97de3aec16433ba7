#include "engine/local/local_engine.h"

#include <numeric>
#include <string>
#include <utility>

#include "signvote/error.h"
#include "signvote/wire.h"

namespace signvote {

LocalEngine::LocalEngine(const TallyOptions& options, std::uint64_t run_id, ParallelFor parallel_for)
    : tally_(options, std::move(parallel_for)),
      run_id_(run_id),
      box_(tally_, run_id),
      hosted_(options.workers),
      messages_(options.workers),
      losses_(options.workers) {
  std::iota(hosted_.begin(), hosted_.end(), 0U);
}

void LocalEngine::send_ballot(std::uint32_t worker, const SignVector* ballot, double loss) {
  losses_[worker] = loss;
  if (ballot == nullptr) return;
  std::vector<std::byte>& bytes = messages_[worker];
  encode({MessageKind::ballot, run_id_, box_.round(), worker, ballot->size()}, *ballot, bytes);
  std::string problem;
  if (!box_.cast(worker, bytes, problem)) throw EngineError("a ballot was refused: " + problem);
  present_ += 1;
  ballots_ += 1;
  ballot_bytes_ += bytes.size();
}

Outcome LocalEngine::receive_verdict(bool stop) {
  const MessageHeader expected{MessageKind::verdict, run_id_, box_.round(), 0, tally_.size()};
  const std::span<const std::byte> bytes = box_.close();
  std::string problem;
  if (!decode(bytes, expected, verdict_, problem))
    throw EngineError("the verdict cannot be read: " + problem);
  verdicts_ += 1;
  verdict_bytes_ += bytes.size();
  return {&verdict_, present_.exchange(0), std::exchange(losses_, std::vector<double>(losses_.size())), stop};
}

std::vector<std::int64_t> LocalEngine::total_half_errors() const { return tally_.total_half_errors(); }

}  // namespace signvote
