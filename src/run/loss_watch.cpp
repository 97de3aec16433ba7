#include "run/loss_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace signvote {

std::optional<std::string> LossWatch::add(std::uint64_t round, double loss) {
  if (!std::isfinite(loss)) return std::nullopt;
  constexpr double kKeep = 0.9;
  smooth_ = first_ ? kKeep * smooth_ + (1 - kKeep) * loss : loss;
  if (!first_ || smooth_ < best_) {
    best_ = smooth_;
    best_round_ = round;
  }
  if (!first_) first_ = loss;
  const bool far = smooth_ > best_ + std::max(best_, 0.1 * *first_);
  far_rounds_ = far ? far_rounds_ + 1 : 0;
  if (told_ || far_rounds_ < kLong) return std::nullopt;
  told_ = true;
  return fmt::format(
      "round {}: the loss is {:.3g} and has been far above its best ({:.3g} at round {}) for {} rounds; try "
      "a smaller --step, --step-schedule cosine, or --sign-of momentum:0.9",
      round, smooth_, best_, best_round_, kLong);
}

}  // namespace signvote
