#include "report/history.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace signvote {

History::History(std::size_t columns, std::size_t capacity, Merge merge)
    : columns_(columns), capacity_(capacity), merge_(merge) {
  assert(capacity >= 2);
}

void History::add(std::uint64_t round, const std::vector<double>& numbers) {
  assert(numbers.size() == columns_ && (empty() || round >= rounds_.back()));
  if (filled_ == stride_ && size() == capacity_) halve();
  if (empty() || filled_ == stride_) {
    rounds_.push_back(round);
    numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
    filled_ = 1;
    return;
  }
  merge_into(size() - 1, round, numbers.data(), static_cast<double>(filled_), 1);
  ++filled_;
}

void History::merge_into(std::size_t row, std::uint64_t round, const double* numbers, double weight,
                         double more_weight) {
  rounds_[row] = round;
  for (std::size_t i = 0; i < columns_; ++i) {
    double& number = numbers_[row * columns_ + i];
    if (std::isnan(numbers[i])) continue;
    number = std::isnan(number) || merge_ == Merge::later
                 ? numbers[i]
                 : (number * weight + numbers[i] * more_weight) / (weight + more_weight);
  }
}

void History::halve() {
  const std::size_t pairs = size() / 2;
  for (std::size_t row = 0; row < pairs; ++row) {
    const std::vector<double> second(
        numbers_.begin() + static_cast<std::ptrdiff_t>((2 * row + 1) * columns_),
        numbers_.begin() + static_cast<std::ptrdiff_t>((2 * row + 2) * columns_));
    std::copy_n(numbers_.begin() + static_cast<std::ptrdiff_t>(2 * row * columns_), columns_,
                numbers_.begin() + static_cast<std::ptrdiff_t>(row * columns_));
    merge_into(row, rounds_[2 * row + 1], second.data(), 1, 1);
  }
  filled_ = 2 * stride_;
  if (size() % 2 == 1) {  // the last has no neighbour yet
    std::copy_n(numbers_.begin() + static_cast<std::ptrdiff_t>(2 * pairs * columns_), columns_,
                numbers_.begin() + static_cast<std::ptrdiff_t>(pairs * columns_));
    rounds_[pairs] = rounds_.back();
    filled_ = stride_;
  }
  rounds_.resize(pairs + size() % 2);
  numbers_.resize(rounds_.size() * columns_);
  stride_ *= 2;
  ++thinned_;
}

}  // namespace signvote
