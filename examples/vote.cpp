// Three workers vote on four coordinates, and one of them always says the opposite of what it knows. Nobody
// tells the tally. It finds out by counting how often each worker contradicts the verdict, and from then on
// it takes the liar's ballots the other way round.
#include <signvote/sign_vector.h>
#include <signvote/tally.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <vector>

using Gradient = std::array<float, 4>;

void print(const char* who, const signvote::SignVector& signs) {
  std::printf("  %-8s", who);
  for (std::size_t n = 0; n < signs.size(); ++n) std::printf("  %c", "-0+"[signs[n] + 1]);
  std::printf("\n");
}

// One round: each worker's gradient becomes a ballot, and the tally decides.
signvote::SignVector vote(signvote::Tally& tally, const std::array<Gradient, 3>& gradients) {
  std::vector<signvote::SignVector> ballots(gradients.size());
  std::vector<std::optional<signvote::SignView>> cast(gradients.size());
  for (std::size_t m = 0; m < gradients.size(); ++m) {
    // pack returns a coordinate that is NaN or infinite, if there is one. Such a worker counts as absent.
    if (!signvote::pack(gradients[m], ballots[m])) cast[m] = ballots[m];
  }
  signvote::SignVector verdict;
  tally.decide(cast, verdict);

  std::printf("round %u\n", static_cast<unsigned>(tally.rounds()));
  print("honest", ballots[0]);
  print("honest", ballots[1]);
  print("liar", ballots[2]);
  print("verdict", verdict);
  return verdict;
}

int main() {
  signvote::Tally tally({.method = signvote::Method::it,
                         .workers = 3,
                         .begin = 0,
                         .end = Gradient{}.size(),
                         .initial_rounds = 3});

  // At first every ballot counts the same, and two honest workers outvote the liar.
  const Gradient honest = {0.3F, -1.2F, 0.7F, -0.1F};
  const Gradient lie = {-0.3F, 1.2F, -0.7F, 0.1F};
  for (int round = 0; round < 3; ++round) vote(tally, {honest, honest, lie});
  for (std::uint32_t m = 0; m < 3; ++m) {
    // A contradiction is two half-errors.
    const double half_errors = static_cast<double>(tally.total_half_errors(m));
    const double signs = static_cast<double>(tally.rounds_of(m)) * static_cast<double>(tally.size());
    std::printf("worker %u was wrong in %.0f %% of its signs\n", m, 100 * half_errors / (2 * signs));
  }

  // Now the honest workers do not know the last two coordinates: a gradient of zero abstains. Only the liar
  // votes there, and the verdict is the opposite of what it says.
  const Gradient half = {0.3F, -1.2F, 0, 0};
  const signvote::SignVector verdict = vote(tally, {half, half, lie});

  // Every replica of the model takes the same step, x <- x - 0.01 * verdict.
  std::vector<float> model(tally.size());
  signvote::step(model, verdict, 0.01F);
  return model == std::vector<float>{-0.01F, 0.01F, -0.01F, 0.01F} ? 0 : 1;
}
