// Three workers vote on four coordinates, and one of them always says the opposite of what it knows. Nobody
// tells the tally. It finds out by counting how often each worker loses the vote, and from then on it takes
// the liar's ballots the other way round.
#include <signvote/sign_vector.h>
#include <signvote/tally.h>

#include <array>
#include <cstdio>
#include <vector>

using Gradient = std::array<float, 4>;

// One round: each worker's gradient becomes a ballot, and the tally decides.
signvote::SignVector vote(signvote::Tally& tally, const std::vector<Gradient>& gradients) {
  std::vector<signvote::SignVector> ballots(gradients.size());
  std::vector<const signvote::SignVector*> cast;  // a null pointer would be a worker that is absent
  for (std::size_t m = 0; m < gradients.size(); ++m) {
    // A gradient with a NaN in it makes no ballot.
    cast.push_back(signvote::pack(gradients[m], ballots[m]) ? nullptr : &ballots[m]);
  }
  signvote::SignVector verdict;
  tally.decide(cast, verdict);
  return verdict;
}

void print(const char* label, const signvote::SignVector& signs) {
  std::printf("%-38s", label);
  for (std::size_t n = 0; n < signs.size(); ++n) std::printf("  %c", "-0+"[signs[n] + 1]);
  std::printf("\n");
}

int main() {
  signvote::Tally tally({.method = signvote::Method::it,
                         .workers = 3,
                         .begin = 0,
                         .end = Gradient{}.size(),
                         .initial_rounds = 10});

  // For ten rounds every ballot counts the same. Two honest workers outvote the liar.
  const Gradient honest = {0.3F, -1.2F, 0.7F, -0.1F};
  const Gradient lie = {-0.3F, 1.2F, -0.7F, 0.1F};
  signvote::SignVector verdict;
  for (int round = 0; round < 10; ++round) verdict = vote(tally, {honest, honest, lie});
  print("the majority, while it learns", verdict);

  // Now the honest workers do not know the last two coordinates: a gradient of zero abstains. The liar is
  // alone there, and the verdict is the opposite of what it says.
  const Gradient half = {0.3F, -1.2F, 0, 0};
  verdict = vote(tally, {half, half, lie});
  print("the weighted vote, with only the liar", verdict);
  for (std::uint32_t m = 0; m < 3; ++m)
    std::printf("worker %u lost %.0f %% of its votes\n", m,
                100.0 * static_cast<double>(tally.total_half_errors(m)) /
                    (2.0 * tally.rounds_of(m) * static_cast<double>(tally.size())));

  // Every replica of the model now takes the same step, x <- x - 0.01 * verdict.
  std::vector<float> model(tally.size());
  signvote::step(model, verdict, 0.01F);
  std::printf("the model after a step                ");
  for (const float x : model) std::printf(" %+.2f", x);
  std::printf("\n");
  return model == std::vector<float>{-0.01F, 0.01F, -0.01F, 0.01F} ? 0 : 1;
}
