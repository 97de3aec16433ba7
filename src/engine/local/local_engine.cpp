#include "engine/local/local_engine.h"

#include <string>

namespace signvote {

void LocalEngine::send_ballot(std::uint32_t worker, std::span<const std::byte> bytes) {
  std::string problem;
  if (!box_.cast(worker, bytes, problem)) throw EngineError("a ballot was refused: " + problem);
  ballots_ += 1;
  ballot_bytes_ += bytes.size();
}

std::span<const std::byte> LocalEngine::receive_verdict() {
  const std::span<const std::byte> verdict = box_.close();
  verdicts_ += 1;
  verdict_bytes_ += verdict.size();
  return verdict;
}

}  // namespace signvote
