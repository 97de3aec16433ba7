// The processes that share a run: one, or the ranks of a cluster's job. What one of them cannot do, none
// may go on without: they agree on errors, and end together.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "signvote/error.h"

namespace signvote {

/// A group of one; MpiSession is one of many. Every process calls the same members in the same order.
class Group {
 public:
  Group() = default;
  virtual ~Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  std::uint32_t rank() const { return rank_; }
  std::uint32_t size() const { return size_; }
  bool leads() const { return rank_ == 0; }

  /// Every process says what is wrong with it (nothing: an empty text). Returns the text of the lowest
  /// rank that has one, in all of them.
  virtual std::string first_problem(const std::string& mine) const { return mine; }

  /// Rank 0's text, in all processes.
  virtual std::string of_leader(const std::string& mine) const { return mine; }

  /// Ends all processes at once with this exit code, without unwinding.
  [[noreturn]] virtual void abort(int code) const;

 protected:
  std::uint32_t rank_ = 0;
  std::uint32_t size_ = 1;
};

/// An error of one process of a group that all of them know of, in the words of the lowest rank that has
/// it: whoever tells the user does so once.
class SharedError : public Error {
 public:
  SharedError(const std::string& what, bool usage) : Error(what), is_usage(usage) {}
  const bool is_usage;  // it was a ConfigError
};

/// Runs `work` in every process. If it throws in any, this throws in all: SharedError, or in a group of
/// one the error itself.
void on_all_ranks(const Group& group, const std::function<void()>& work);

}  // namespace signvote
