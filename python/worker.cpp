// The Python module signvote._worker: a worker of a server, for any training loop in Python. It is apart from
// signvote._core because it needs gRPC. Waiting and packing are done without the interpreter lock.
#include <fmt/format.h>
#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "foreign_array.h"
#include "signvote/error.h"
#include "signvote/sign_vector.h"
#include "signvote/version.h"
#include "signvote/worker_session.h"

namespace signvote::python {
namespace {

namespace py = pybind11;
using Unlocked = py::gil_scoped_release;

std::string read_pem(const char* what, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file || text.empty()) throw DataError(fmt::format("{} is '{}', which cannot be read", what, path));
  return text;
}

class Worker {
 public:
  Worker(const std::string& address, const std::optional<std::string>& ca,
         const std::optional<std::string>& cert, const std::optional<std::string>& key,
         const std::string& name, double give_up, py::object log)
      : log_(std::move(log)), session_(options(address, ca, cert, key, name, give_up)) {}

  py::array_t<float> join() {
    waits([this] { run_ = session_.join(); });
    if (!values_) {
      values_ = py::array_t<float>(static_cast<py::ssize_t>(run_.parameters));
      std::fill_n(values_->mutable_data(), run_.parameters, 0.0F);
      advance();  // the model comes with the first thing that happens
    }
    return *values_;
  }

  /// The number of the next open round; StopIteration if there is none any more.
  std::uint64_t next() {
    join();
    if (event_ == Event::vote && asked_) {  // the loop's body did not answer
      session_.abstain();
      event_ = Event::stepped;
    }
    if (event_ == Event::stepped) advance();
    if (event_ != Event::vote) throw py::stop_iteration();
    asked_ = true;
    return session_.round();
  }

  void vote(const py::object& gradient, std::uint32_t samples, double loss) {
    using Type = ForeignArray::Type;
    check_asked();
    if (samples == 0) throw py::value_error("samples is 0; a gradient is of at least one, or call abstain()");
    const ForeignArray array(gradient, "the gradient");
    const Type type = array.type();
    if (type != Type::float32 && type != Type::float64 && type != Type::bfloat16)
      array.refuse_type("float32, float64 or bfloat16");
    if (array.size() != run_.parameters)
      array.refuse(fmt::format("has {} coordinates; the model has {}", array.size(), run_.parameters));
    event_ = Event::stepped;
    const Unlocked unlocked;
    const auto bad = type == Type::float32   ? pack(array.values<float>(), ballot_)
                     : type == Type::float64 ? pack(array.values<double>(), ballot_)
                                             : pack(array.values<BFloat16>(), ballot_);
    if (bad)
      session_.abstain();
    else
      session_.vote(ballot_, samples, loss);
  }

  void abstain() {
    check_asked();
    event_ = Event::stepped;
    const Unlocked unlocked;
    session_.abstain();
  }

  void report(std::optional<double> accuracy, std::optional<double> loss) {
    check_asked();
    if (!accuracy && !loss) throw py::value_error("there is nothing to report: give an accuracy or a loss");
    if (accuracy && !(*accuracy >= 0 && *accuracy <= 1))
      throw py::value_error(fmt::format("accuracy is {}; it must be from 0 to 1", *accuracy));
    if (loss && !std::isfinite(*loss))
      throw py::value_error(fmt::format("loss is {}; it must be a finite number", *loss));
    session_.report(accuracy, loss);
  }

  void stop() {
    const Unlocked unlocked;
    session_.stop();
  }

  const JoinedRun& run() const { return run_; }
  std::uint64_t round() const { return session_.round(); }
  bool finished() const { return event_ == Event::finished; }

 private:
  using Event = WorkerSession::Event;

  WorkerSessionOptions options(const std::string& address, const std::optional<std::string>& ca,
                               const std::optional<std::string>& cert, const std::optional<std::string>& key,
                               const std::string& name, double give_up) {
    if (ca.has_value() != cert.has_value() || ca.has_value() != key.has_value())
      throw ConfigError("ca, cert and key go together: give all three, or none on this machine's loopback");
    if (ca.has_value() != name.empty())
      throw ConfigError("name is for a worker without a certificate, which tells it; give one of them");
    WorkerSessionOptions result;
    result.connect = address;
    if (ca) {
      result.authority = read_pem("ca", *ca);
      result.certificate = read_pem("cert", *cert);
      result.key = read_pem("key", *key);
    }
    result.name = name;
    result.program = fmt::format("signvote {} (Python)", SIGNVOTE_VERSION);
    result.give_up_seconds = give_up;
    if (!log_.is_none())
      result.log = [this](const std::string& line) {  // from the thread that waits, without the lock
        const py::gil_scoped_acquire locked;
        log_(line);
      };
    return result;
  }

  void check_asked() const {
    if (event_ != Event::vote || !asked_)
      throw py::value_error("there is no open round to vote in; take one from the worker first");
  }

  /// Waits until a round is open, or the run is over. The parameters step meanwhile.
  void advance() {
    const std::span<float> values(values_->mutable_data(), static_cast<std::size_t>(values_->size()));
    waits([&] {
      do event_ = session_.next(values);
      while (event_ == Event::stepped);
    });
    asked_ = false;
  }

  /// Runs `wait` in a thread of its own, so that this one can look for signals: Ctrl-C stops the session.
  void waits(const std::function<void()>& wait) {
    std::mutex mutex;
    std::condition_variable ended;
    bool done = false;
    std::exception_ptr failure;
    std::optional<py::error_already_set> interrupted;
    {
      const Unlocked unlocked;
      std::thread thread([&] {
        try {
          wait();
        } catch (...) {
          failure = std::current_exception();
        }
        const std::lock_guard lock(mutex);
        done = true;
        ended.notify_one();
      });
      std::unique_lock lock(mutex);
      while (!ended.wait_for(lock, std::chrono::milliseconds(100), [&] { return done; })) {
        lock.unlock();
        if (!interrupted) {
          const py::gil_scoped_acquire locked;
          if (PyErr_CheckSignals() != 0) interrupted.emplace();
        }
        if (interrupted) session_.stop();
        lock.lock();
      }
      lock.unlock();
      thread.join();
    }
    if (interrupted) throw py::error_already_set(*interrupted);
    if (failure) std::rethrow_exception(failure);
  }

  py::object log_;
  WorkerSession session_;
  JoinedRun run_;
  std::optional<py::array_t<float>> values_;
  SignVector ballot_;
  Event event_ = Event::stepped;
  bool asked_ = false;  // the open round was given to the caller
};

/// What C++ throws becomes what signvote._core raises, which are other types of the same names.
void translate_errors() {
  py::register_local_exception_translator([](std::exception_ptr thrown) {
    const auto raise = [](const char* name, const std::exception& error) {
      PyErr_SetString(py::module_::import("signvote._core").attr(name).ptr(), error.what());
    };
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const ConfigError& error) {
      raise("ConfigError", error);
    } catch (const DataError& error) {
      raise("DataError", error);
    } catch (const EngineError& error) {
      raise("EngineError", error);
    }
  });
}

}  // namespace

PYBIND11_MODULE(_worker, m) {
  m.doc() = "A worker of a signvote server. Use signvote.Worker.";
  translate_errors();
  py::class_<Worker>(m, "Worker",
                     R"(A worker of a server, for any training loop.

    with signvote.Worker("localhost:7000", ca="ca.pem", cert="worker-0.pem", key="worker-0.key") as worker:
        x = worker.join()                # the model: a float32 array that is stepped in place
        for round in worker:             # each open round; x is its model
            worker.vote(gradient(x), samples=32, loss=total)

It outlives cuts of the network and restarts of the server: it joins again, and fetches what it missed. One
thread uses a worker; only stop() may be called from others. Ctrl-C works while it waits. Raises ConfigError
for what makes no sense, DataError for a file that cannot be read, and EngineError where the server does not
want this worker or was away for `give_up` seconds. `log` is called with one line at a time.
)")
      .def(py::init<const std::string&, const std::optional<std::string>&, const std::optional<std::string>&,
                    const std::optional<std::string>&, const std::string&, double, py::object>(),
           py::arg("address"), py::kw_only(), py::arg("ca") = py::none(), py::arg("cert") = py::none(),
           py::arg("key") = py::none(), py::arg("name") = "", py::arg("give_up") = 600.0,
           py::arg("log") = py::none())
      .def("join", &Worker::join,
           "Waits for the server's welcome and its model. Returns the model's parameters, a float32 array "
           "that\n"
           "the worker steps in place; nobody else may change it. Later calls return the same array.")
      .def(
          "vote", &Worker::vote, py::arg("gradient"), py::kw_only(), py::arg("samples"), py::arg("loss"),
          "Answers the open round with the signs of a gradient: a contiguous array of float32, float64 or\n"
          "bfloat16 as signvote.pack takes it. `samples` is the number of its samples and `loss` the sum of\n"
          "their losses. A gradient with a NaN or an infinity abstains.")
      .def("abstain", &Worker::abstain,
           "Answers the open round without a usable gradient, as does a body of the loop that does not vote.")
      .def("report", &Worker::report, py::kw_only(), py::arg("accuracy") = py::none(),
           py::arg("loss") = py::none(),
           "Before the vote: tells how good the model of this round is by a test of your own. The server "
           "writes "
           "it\n"
           "down with this worker's name. Only for a server of parameters alone, which can test nothing "
           "itself.")
      .def("stop", &Worker::stop, "Ends the session, from any thread: the loop ends, as do all later calls.")
      .def("__iter__", [](py::object self) { return self; })
      .def("__next__", &Worker::next)
      .def("__enter__", [](py::object self) { return self; })
      .def("__exit__", [](Worker& self, const py::args&) { self.stop(); })
      .def_property_readonly(
          "slot", [](const Worker& self) { return self.run().worker; }, "This worker's number in the vote.")
      .def_property_readonly(
          "parameters", [](const Worker& self) { return self.run().parameters; },
          "How many parameters the model has.")
      .def_property_readonly(
          "rounds", [](const Worker& self) { return self.run().rounds; }, "The rounds of the whole run.")
      .def_property_readonly(
          "settings", [](const Worker& self) { return self.run().settings; },
          "The run's settings, as the text of its config.toml.")
      .def_property_readonly("round", &Worker::round, "How many rounds the model was stepped by.")
      .def_property_readonly("finished", &Worker::finished, "True if the run has had its last round.");
}

}  // namespace signvote::python
