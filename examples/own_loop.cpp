// A training loop of your own: a small network trained by hand (small_model.h), without a framework. It takes
// four lines of signvote: make a Tally, pack each gradient into a ballot, decide, step.
//
// The fifteen workers are unequal. Each round one of them computes its gradient from 200 samples, and the
// others from a single sample each, so that most ballots are mostly noise. The same loop runs with a plain
// majority of the ballots (signSGD-MV) and with weights that are learnt meanwhile (IT-signSGD).
#include <signvote/sign_vector.h>
#include <signvote/tally.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <vector>

#include "small_model.h"

double train(signvote::Method method, int rounds) {
  constexpr std::uint32_t kWorkers = 15;
  std::array<int, kWorkers> samples_per_round;
  samples_per_round.fill(1);
  samples_per_round[0] = 200;
  std::vector<Source> sources;
  for (std::uint32_t m = 0; m < kWorkers; ++m) sources.emplace_back(1000 + m);

  std::vector<float> model = initial_model();
  signvote::Tally tally({.method = method, .workers = kWorkers, .begin = 0, .end = kParameters});
  std::vector<signvote::SignVector> ballots(kWorkers);
  signvote::SignVector verdict;
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::optional<signvote::SignView>> cast(kWorkers);
    for (std::uint32_t m = 0; m < kWorkers; ++m) {
      std::vector<float> gradient(kParameters);
      for (int i = 0; i < samples_per_round[m]; ++i) add_gradient(model, sources[m].draw(), gradient);
      // pack returns a coordinate that is NaN or infinite, if there is one. Such a worker counts as absent.
      if (!signvote::pack(gradient, ballots[m])) cast[m] = ballots[m];
    }
    tally.decide(cast, verdict);
    signvote::step(model, verdict, 0.001F);
  }
  return accuracy(model);
}

int main() {
  constexpr int kRounds = 300;
  const double mv = train(signvote::Method::mv, kRounds);
  const double it = train(signvote::Method::it, kRounds);
  std::printf("accuracy after %d rounds: %.1f %% by plain majority, %.1f %% by weighted votes\n", kRounds,
              100 * mv, 100 * it);
  return it > mv ? 0 : 1;
}
