// What the tests of sessions share: certificates, a desk that remembers, and waiting that ends.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/files.h"
#include "certs/authority.h"
#include "certs/certificates.h"
#include "engine/grpc/protocol.h"
#include "engine/grpc/vote.pb.h"
#include "engine/grpc/vote_client.h"
#include "engine/grpc/vote_server.h"
#include "temporary_folder.h"

namespace signvote {

/// Only something that hangs takes so long.
inline constexpr std::chrono::seconds kHanging{120};
inline constexpr double kConnectSeconds = 120;
inline constexpr std::size_t kLargest = 1000;

/// Waits for what another thread does, without a word on how long it may take unless it hangs.
inline bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kHanging;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// Two authorities, each with a server and workers.
struct TestCertificates {
  TestCertificates() {
    for (const char* who : {"ours", "foreign"}) {
      make_ca(folder / who, 10);
      make_server_certificate(folder / who, {"localhost", "127.0.0.1"}, 10);
      make_worker_certificate(folder / who, "ann", 10);
    }
    for (const char* name : {"bob", "carol"}) make_worker_certificate(folder / "ours", name, 10);
    make_worker_certificate(folder / "ours", "expired", -1);
  }

  /// Unchecked, for there are bad ones.
  KeyPair pair(const std::string& who, const std::string& name) const {
    return {read_text_file(folder / who / (name + ".pem")), read_text_file(folder / who / (name + ".key"))};
  }
  std::string authority(const std::string& who) const { return load_authority(folder / who / "ca.pem"); }

  TemporaryFolder folder;
};

inline const TestCertificates& certificates() {
  static const TestCertificates all;
  return all;
}

inline VoteServerOptions server_options() {
  VoteServerOptions options;
  options.listen = "127.0.0.1:0";
  options.keys = certificates().pair("ours", "server");
  options.client_authority = certificates().authority("ours");
  options.largest_message = kLargest;
  options.workers = 10;
  options.hello_seconds = 60;
  return options;
}

inline VoteClientOptions client_options(const VoteServer& server, const std::string& name = "ann") {
  return {"127.0.0.1:" + std::to_string(server.port()), certificates().pair("ours", name),
          certificates().authority("ours"), 0};
}

inline v1::FromWorker hello(const std::string& name = "") {
  v1::FromWorker message;
  message.mutable_hello()->set_protocol(kProtocol);
  message.mutable_hello()->set_name(name);
  return message;
}

inline v1::FromWorker ballot(std::uint64_t round, const std::string& bytes = "+-") {
  v1::FromWorker message;
  message.mutable_ballot()->set_round(round);
  message.mutable_ballot()->set_message(bytes);
  message.mutable_ballot()->set_batch(4);
  message.mutable_ballot()->set_loss(8);
  return message;
}

inline grpc::ByteBuffer serialised(const v1::ToWorker& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

inline grpc::ByteBuffer verdict(std::uint64_t open_round, const std::string& bytes = "-+") {
  v1::ToWorker message;
  message.mutable_verdict()->set_open_round(open_round);
  message.mutable_verdict()->set_message(bytes);
  return serialised(message);
}

/// Lets everybody in with a welcome, and hands each what `give` put there for it.
class FakeDesk : public Desk {
 public:
  struct Refused {
    std::string peer;
    Refusal refusal;
  };

  std::optional<Refusal> admit(const Identity& who) override {
    const std::lock_guard lock(mutex_);
    admitted_.push_back(who);
    const auto turned_away = in_the_handshake.find(who.name);
    return turned_away == in_the_handshake.end() ? std::nullopt : std::optional(turned_away->second);
  }

  std::variant<std::unique_ptr<Session>, Refusal> join(const Identity& who, const std::string& peer,
                                                       const v1::Hello&) override {
    const std::string& name = who.name;
    const std::lock_guard lock(mutex_);
    if (auto turned_away = at_the_door.find(name); turned_away != at_the_door.end())
      return turned_away->second;
    peers_.push_back(peer);
    to_be_ended_.erase(name);  // that was the session before
    v1::ToWorker welcome;
    welcome.mutable_welcome()->set_config("for " + name);
    outbox_[name].emplace_front(serialised(welcome));
    ++sessions_;
    changed_.notify_all();
    return std::make_unique<FakeSession>(*this, name);
  }

  void refused(const std::string& peer, const Refusal& refusal) override {
    const std::lock_guard lock(mutex_);
    refused_.push_back({peer, refusal});
    changed_.notify_all();
  }

  /// The session that this worker has now becomes unwanted.
  void end(const std::string& name, const Refusal& why) {
    const std::lock_guard lock(mutex_);
    to_be_ended_[name] = why;
  }

  void give(const std::string& name, Session::Next next) {
    const std::lock_guard lock(mutex_);
    outbox_[name].push_back(std::move(next));
  }

  bool wait_for(const std::function<bool()>& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kHanging, condition);
  }
  bool wait_for_sessions(int count) {
    return wait_for([&] { return sessions_ == count; });
  }
  bool wait_for_refusals(std::size_t count) {
    return wait_for([&] { return refused_.size() >= count; });
  }
  bool wait_for_ballots(std::size_t count) {
    return wait_for([&] { return ballots_.size() >= count; });
  }

  std::vector<Refused> refusals() {
    const std::lock_guard lock(mutex_);
    return refused_;
  }
  std::vector<std::string> peers() {
    const std::lock_guard lock(mutex_);
    return peers_;
  }
  int handed_out() {
    const std::lock_guard lock(mutex_);
    return handed_out_;
  }

  /// Who was asked for in a handshake, refused or not.
  std::vector<Identity> seen_in_handshakes() {
    const std::lock_guard lock(mutex_);
    return admitted_;
  }

  // By name; set before anybody comes.
  std::map<std::string, Refusal> in_the_handshake;
  std::map<std::string, Refusal> at_the_door;
  std::function<std::optional<Refusal>(const std::string& name, const v1::Ballot&)>
      on_ballot;                      // under the lock
  std::function<void()> on_hand_out;  // likewise, with every message

 private:
  class FakeSession : public Session {
   public:
    FakeSession(FakeDesk& desk, std::string name) : desk_(desk), name_(std::move(name)) {}
    ~FakeSession() override {
      const std::lock_guard lock(desk_.mutex_);
      --desk_.sessions_;
      desk_.changed_.notify_all();
    }
    std::optional<Refusal> ballot(v1::Ballot& ballot) override {
      const std::lock_guard lock(desk_.mutex_);
      desk_.ballots_.emplace_back(name_, ballot.round());
      desk_.changed_.notify_all();
      return desk_.on_ballot ? desk_.on_ballot(name_, ballot) : std::nullopt;
    }
    Next next() override {
      const std::lock_guard lock(desk_.mutex_);
      auto& box = desk_.outbox_[name_];
      if (box.empty()) return Nothing{};
      Next next = std::move(box.front());
      box.pop_front();
      ++desk_.handed_out_;
      if (desk_.on_hand_out) desk_.on_hand_out();
      desk_.changed_.notify_all();
      return next;
    }
    std::optional<Refusal> unwanted() override {
      const std::lock_guard lock(desk_.mutex_);
      const auto found = desk_.to_be_ended_.find(name_);
      return found == desk_.to_be_ended_.end() ? std::nullopt : std::optional(found->second);
    }

   private:
    FakeDesk& desk_;
    const std::string name_;
  };

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::deque<Session::Next>> outbox_;
  std::vector<std::pair<std::string, std::uint64_t>> ballots_;
  std::map<std::string, Refusal> to_be_ended_;
  std::vector<Refused> refused_;
  std::vector<std::string> peers_;
  std::vector<Identity> admitted_;
  int sessions_ = 0;
  int handed_out_ = 0;

 public:
  /// For wait_for and on_hand_out, which hold the lock.
  int handed_out_locked() const { return handed_out_; }
  /// For on_ballot, which holds the lock.
  void give_locked(const std::string& name, Session::Next next) { outbox_[name].push_back(std::move(next)); }
};

/// A worker that has said hello and was welcomed.
class TestWorker {
 public:
  explicit TestWorker(const VoteServer& server, const std::string& name = "ann")
      : TestWorker(client_options(server, name), name) {}
  TestWorker(const VoteClientOptions& options, const std::string& name) : client_(options) {
    if (!client_.begin(kConnectSeconds) || !client_.send(hello(name)) || !client_.receive(last_))
      throw std::runtime_error("no session: " + client_.end().text);
  }
  VoteClient& operator*() { return client_; }
  VoteClient* operator->() { return &client_; }
  /// What was received last: at first, the welcome.
  const v1::ToWorker& last() const { return last_; }
  bool receive() { return client_.receive(last_); }

 private:
  VoteClient client_;
  v1::ToWorker last_;
};

}  // namespace signvote
