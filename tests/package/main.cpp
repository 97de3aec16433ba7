// Three workers vote on four coordinates, using public headers alone.
#include <signvote/ballot_box.h>
#include <signvote/error.h>
#include <signvote/parallel.h>
#include <signvote/sign_vector.h>
#include <signvote/tally.h>
#include <signvote/version.h>
#include <signvote/wire.h>

#include <cstdio>
#include <optional>
#include <vector>

int main() {
  const std::vector<std::vector<float>> gradients = {{1, -2, 0, 3}, {2, -1, 1, -3}, {-1, -1, 1, 0}};
  std::vector<signvote::SignVector> ballots(3);
  std::vector<std::optional<signvote::SignView>> cast;
  for (std::size_t m = 0; m < 3; ++m) {
    if (signvote::pack(gradients[m], ballots[m])) return 1;
    cast.push_back(ballots[m]);
  }
  signvote::Tally tally({signvote::Method::it, 3, 0, 4});
  signvote::SignVector verdict;
  tally.decide(cast, verdict);
  std::vector<std::byte> bytes;
  signvote::encode({signvote::MessageKind::verdict, 1, 0, 0, 4}, verdict, bytes);
  std::vector<float> x(4);
  signvote::step(x, verdict, 0.5F);
  std::printf("signvote " SIGNVOTE_VERSION ", %zu bytes: %g %g %g %g\n", bytes.size(), x[0], x[1], x[2],
              x[3]);
  return x == std::vector<float>{-0.5F, 0.5F, -0.5F, 0} ? 0 : 1;
}
