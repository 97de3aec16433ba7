// The processes that share a run: one, or the ranks of a cluster's job. If one of them fails, all end: they
// tell each other about errors.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "signvote/error.h"

namespace signvote {

/// This is a group of one process; MpiSession is a group of many. Every process calls the same members in
/// the same order.
class Group {
 public:
  Group() = default;
  virtual ~Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  std::uint32_t rank() const { return rank_; }
  std::uint32_t size() const { return size_; }
  bool leads() const { return rank_ == 0; }

  /// Every process passes its problem, or an empty text. Returns, in all of them, the text of the lowest
  /// rank that has one.
  virtual std::string first_problem(const std::string& mine) const { return mine; }

  /// Returns rank 0's text in all processes.
  virtual std::string of_leader(const std::string& mine) const { return mine; }

  /// Ends all processes at once with this exit code, without unwinding.
  [[noreturn]] virtual void abort(int code) const;

 protected:
  std::uint32_t rank_ = 0;
  std::uint32_t size_ = 1;
};

/// An error of one process that all know of, with the same text, so that one of them can print it for all.
class SharedError : public Error {
 public:
  SharedError(const std::string& what, bool usage) : Error(what), is_usage(usage) {}
  const bool is_usage;  // it was a ConfigError
};

/// Runs `work` in every process. If it throws in any of them, this throws in all: a SharedError, or in a
/// group of one the error itself.
void on_all_ranks(const Group& group, const std::function<void()>& work);

}  // namespace signvote
