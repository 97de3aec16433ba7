// Numbers over the rounds of a run, in a bounded number of rows however long the run is: when there is no
// room left, each two neighbours become one, and from then on so do new rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace signvote {

class History {
 public:
  /// What two neighbours become: their mean (of the numbers that are there), or the later of them.
  enum class Merge { mean, later };

  /// Keeps at most `capacity` rows of so many numbers. REQUIRES: capacity is at least 2.
  History(std::size_t columns, std::size_t capacity, Merge merge);

  /// Adds a row that belongs to a round, which is not before the last one's. NaN: no number. The last row
  /// may be one that is still being filled, whose numbers change then.
  void add(std::uint64_t round, const std::vector<double>& numbers);

  std::size_t size() const { return rounds_.size(); }
  bool empty() const { return rounds_.empty(); }
  /// The last round that a row is made of.
  std::uint64_t round(std::size_t row) const { return rounds_[row]; }
  double number(std::size_t row, std::size_t column) const { return numbers_[row * columns_ + column]; }
  /// Grows each time that rows were merged, so that what was read of them before is no longer so.
  std::uint64_t thinned() const { return thinned_; }

 private:
  void merge_into(std::size_t row, std::uint64_t round, const double* numbers, double weight,
                  double more_weight);
  void halve();

  std::size_t columns_;
  std::size_t capacity_;
  Merge merge_;
  std::size_t stride_ = 1;  // added rows that make one
  std::size_t filled_ = 0;  // of them, those that the last row has; 0: there is none
  std::uint64_t thinned_ = 0;
  std::vector<std::uint64_t> rounds_;
  std::vector<double> numbers_;
};

}  // namespace signvote
