// The errors that end a run. A late, lost or malformed ballot does not throw: it is counted and
// reported, and the run goes on. Each error's message is one line that says what is wrong, where, and
// what to do.
#pragma once

#include <stdexcept>
#include <string>

namespace signvote {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The user asked for something that makes no sense: a flag, a key, a combination. Exit code 2.
class ConfigError : public Error {
 public:
  using Error::Error;
};

/// A file or a byte string is missing, damaged, or not what it claims to be. Exit code 1.
class DataError : public Error {
 public:
  using Error::Error;
};

/// Workers and tally cannot reach each other any more. Exit code 1.
class EngineError : public Error {
 public:
  using Error::Error;
};

}  // namespace signvote
