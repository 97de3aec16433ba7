// A worker of a run on a server elsewhere, for any training loop:
//
//   WorkerSession session(options);
//   std::vector<float> x(session.join().parameters);
//   while (true) switch (session.next(x)) {
//     case WorkerSession::Event::vote:      // x is the model of session.round()
//       if (pack(gradient(x), ballot)) session.abstain();
//       else session.vote(ballot, samples, loss);
//       break;
//     case WorkerSession::Event::stepped:   // a verdict came, and x has moved by it
//       break;
//     default: return;                      // finished, or stopped
//   }
//
// It outlives cuts of the network and restarts of the server: it joins again, and fetches what it
// missed. One thread uses a session; only stop() may be called from others. All but stop() throw
// EngineError where the server does not want this worker, or was away for too long.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "signvote/sign_vector.h"

namespace signvote {

struct WorkerSessionOptions {
  std::string connect;      // HOST:PORT
  std::string certificate;  // PEM, as are key and authority; all empty: without TLS, on loopback only
  std::string key;
  std::string authority;  // who signs the server's certificate
  /// Called before every attempt to connect: may replace these three, and returns true if it has. May be
  /// empty.
  std::function<bool(WorkerSessionOptions&)> renew;
  std::string name;                             // who this is, without TLS; else the certificate says it
  std::string program;                          // its name and version, for the server's log
  double give_up_seconds = 600;                 // without a session, after which it throws
  std::function<void(const std::string&)> log;  // is told what happens, one line each; may be empty
};

/// What the server says of the run.
struct JoinedRun {
  std::string settings;  // its config.toml
  std::uint64_t run_id = 0;
  std::uint32_t worker = 0;      // this worker's slot in the vote, and its share of the data
  std::uint64_t parameters = 0;  // N
  std::uint64_t rounds = 0;      // of the whole run; a server that is started again may have more
};

class WorkerSession {
 public:
  /// Does not connect yet. Throws ConfigError for an address that makes no sense, or one off loopback
  /// without TLS.
  explicit WorkerSession(WorkerSessionOptions options);
  ~WorkerSession();

  /// Waits for the server's welcome. After stop() the run it returns is empty. Once it has returned,
  /// it returns the same run.
  const JoinedRun& join();

  enum class Event {
    vote,      // round() is open: call vote() or abstain()
    stepped,   // a verdict came; the parameters moved by it, and round() is one more
    finished,  // the run has had its last round
    stopped,   // stop() was called
  };
  /// Waits for what comes next. The session writes the model into `parameters` and steps them: they are
  /// the same N floats in every call, and nobody else changes them.
  [[nodiscard]] Event next(std::span<float> parameters);

  /// The rounds stepped in the model: the round to vote in.
  std::uint64_t round() const;

  /// Answers the round that next() told of: with the signs of a gradient, the number of its samples and
  /// the sum of their losses; or without a usable gradient. What cannot be sent is sent again after the
  /// session was joined again, if the round is still open then: next() asks for it.
  void vote(SignView ballot, std::uint32_t samples, double loss);
  void abstain();

  /// Before one of these: tells a server that knows no network, and so cannot test the model, how good it was
  /// in this worker's own test. Goes with the answer. The server writes it down with the worker's name.
  /// REQUIRES: an accuracy from 0 to 1, a finite loss, at least one of them.
  void report(std::optional<double> accuracy, std::optional<double> loss);

  /// From any thread, but not from a signal handler: makes the call that waits, and all later ones, return.
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace signvote
