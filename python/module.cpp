// The Python module signvote._core: the C++ library's names for Python, and no logic of its own. What a C++
// caller must promise (REQUIRES), a Python caller is checked for. Kernels run without the interpreter lock.
#include <fmt/format.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "foreign_array.h"
#include "signvote/ballot_box.h"
#include "signvote/error.h"
#include "signvote/sign_vector.h"
#include "signvote/tally.h"
#include "signvote/version.h"
#include "signvote/wire.h"

namespace signvote::python {
namespace {

namespace py = pybind11;
using Unlocked = py::gil_scoped_release;

constexpr std::array<std::pair<const char*, Method>, 4> kMethods{
    {{"mv", Method::mv}, {"it", Method::it}, {"shrink", Method::shrink}, {"agree", Method::agree}}};
constexpr std::array<std::pair<const char*, MessageKind>, 2> kKinds{
    {{"ballot", MessageKind::ballot}, {"verdict", MessageKind::verdict}}};

auto named(const auto& table, const char* what, const std::string& name) {
  std::string names;
  for (const auto& [known, value] : table) {
    if (known == name) return value;
    names += fmt::format("{}'{}'", names.empty() ? "" : " or ", known);
  }
  throw ConfigError(fmt::format("{} is '{}'; it must be {}", what, name, names));
}

const char* name_of(const auto& table, auto value) {
  return std::ranges::find(table, value, [](const auto& row) { return row.second; })->first;
}

py::bytes to_bytes(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <typename T>
py::array_t<T> to_numpy(const std::vector<T>& values) {
  return py::array_t<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

/// A NumPy array on a plane's own memory; it keeps `signs` alive. That memory never moves, because nothing
/// here resizes a SignVector that Python has.
py::array_t<std::uint64_t> plane(const py::object& signs, std::span<std::uint64_t> words) {
  return py::array_t<std::uint64_t>(static_cast<py::ssize_t>(words.size()), words.data(), signs);
}

std::size_t checked_index(const SignVector& signs, py::ssize_t i) {
  const auto n = static_cast<py::ssize_t>(signs.size());
  if (i < -n || i >= n) throw py::index_error(fmt::format("coordinate {} of {}", i, n));
  return static_cast<std::size_t>(i < 0 ? i + n : i);
}

void check_size(const char* what, std::size_t size, std::size_t wanted) {
  if (size != wanted)
    throw py::value_error(fmt::format("{} has {} coordinates; it must have {}", what, size, wanted));
}

SignVector from_signs(const py::object& signs) {
  const ForeignArray array(signs, "the array of signs");
  if (array.type() != ForeignArray::Type::int8) array.refuse_type("int8");
  const auto values = array.values<std::int8_t>();
  SignVector out(values.size());
  std::size_t i = 0;
  {
    const Unlocked unlocked;
    for (; i < values.size() && values[i] >= -1 && values[i] <= 1; ++i) out.set(i, values[i]);
  }
  if (i < values.size()) array.refuse(fmt::format("has {} at {}; signs are -1, 0 and 1", values[i], i));
  return out;
}

py::array_t<std::int8_t> to_signs(const SignVector& signs) {
  py::array_t<std::int8_t> out(static_cast<py::ssize_t>(signs.size()));
  std::int8_t* values = out.mutable_data();
  const Unlocked unlocked;
  for (std::size_t i = 0; i < signs.size(); ++i) values[i] = static_cast<std::int8_t>(signs[i]);
  return out;
}

/// `out`, or a new one if it is None.
py::object vector_to_fill(const py::object& out, const char* what, std::size_t size) {
  if (out.is_none()) return py::cast(SignVector(size));
  check_size(what, out.cast<const SignVector&>().size(), size);
  return out;
}

/// Signs vote * m + (1 - vote) * g, and moves the momentum m on.
py::object pack_with_momentum(const py::object& gradient, const py::object& momentum, Betas betas,
                              const py::object& out) {
  for (const float beta : {betas.vote, betas.momentum})
    if (!(beta >= 0 && beta < 1))
      throw ConfigError(fmt::format("a beta is {}; it must be at least 0 and below 1", beta));
  const ForeignArray array(gradient, "the gradient");
  const ForeignArray kept(momentum, "the momentum");
  if (array.type() != ForeignArray::Type::float32) array.refuse_type("float32, if there is a momentum");
  if (kept.type() != ForeignArray::Type::float32) kept.refuse_type("float32");
  const std::span<float> m = kept.writable_values<float>();
  check_size("the momentum", m.size(), array.size());
  py::object filled = vector_to_fill(out, "out", array.size());
  auto& signs = filled.cast<SignVector&>();
  std::optional<std::size_t> bad;
  {
    const Unlocked unlocked;
    bad = pack(array.values<float>(), m, betas, signs);
  }
  return bad ? py::none() : filled;
}

py::object pack_array(const py::object& gradient, const py::object& out, const py::object& momentum,
                      std::pair<float, float> betas) {
  if (!momentum.is_none())
    return pack_with_momentum(gradient, momentum, {.vote = betas.first, .momentum = betas.second}, out);
  using Type = ForeignArray::Type;
  const ForeignArray array(gradient, "the gradient");
  const Type type = array.type();
  if (type != Type::float32 && type != Type::float64 && type != Type::bfloat16)
    array.refuse_type("float32, float64 or bfloat16");
  py::object filled = vector_to_fill(out, "out", array.size());
  auto& signs = filled.cast<SignVector&>();
  std::optional<std::size_t> bad;
  {
    const Unlocked unlocked;
    bad = type == Type::float32   ? pack(array.values<float>(), signs)
          : type == Type::float64 ? pack(array.values<double>(), signs)
                                  : pack(array.values<BFloat16>(), signs);
  }
  return bad ? py::none() : filled;
}

void step_array(const py::object& parameters, const SignVector& verdict, float delta) {
  const ForeignArray array(parameters, "the array of parameters");
  if (array.type() != ForeignArray::Type::float32) array.refuse_type("float32");
  const std::span<float> values = array.writable_values<float>();
  check_size("the array of parameters", values.size(), verdict.size());
  const Unlocked unlocked;
  step(values, verdict, delta);
}

py::bytes encode_message(const MessageHeader& header, const SignVector& signs) {
  check_size("the header", header.size, signs.size());
  if (header.kind == MessageKind::verdict && header.worker != 0)
    throw py::value_error("a verdict is of no worker: the header's worker must be 0");
  std::vector<std::byte> message;
  {
    const Unlocked unlocked;
    encode(header, signs, message);
  }
  return to_bytes(message);
}

MessageHeader header_of_message(const py::object& message) {
  MessageHeader header;
  std::string problem;
  if (!decode_header(ForeignArray(message, "the message").bytes(), header, problem)) throw DataError(problem);
  return header;
}

SignVector decode_message(const py::object& message, const MessageHeader& expected) {
  const ForeignArray array(message, "the message");
  SignVector signs;
  std::string problem;
  const Unlocked unlocked;
  if (!decode(array.bytes(), expected, signs, problem)) throw DataError(problem);
  return signs;
}

void check_worker(const Tally& tally, std::uint32_t worker) {
  if (worker >= tally.options().workers)
    throw py::index_error(fmt::format("worker {} of {}", worker, tally.options().workers));
}

py::object decide(Tally& tally, const std::vector<const SignVector*>& ballots, const py::object& out) {
  if (ballots.size() != tally.options().workers)
    throw py::value_error(fmt::format("{} ballots for {} workers; an absent worker's is None", ballots.size(),
                                      tally.options().workers));
  py::object filled = vector_to_fill(out, "out", tally.size());
  auto& verdict = filled.cast<SignVector&>();
  std::vector<std::optional<SignView>> views(ballots.size());
  for (std::size_t m = 0; m < ballots.size(); ++m) {
    if (ballots[m] == nullptr) continue;
    check_size("a ballot", ballots[m]->size(), tally.size());
    if (ballots[m] == &verdict) throw py::value_error("out is one of the ballots");
    views[m] = *ballots[m];
  }
  const Unlocked unlocked;
  tally.decide(views, verdict);
  return filled;
}

py::bytes snapshot(const Tally& tally) {
  std::vector<std::byte> bytes;
  {
    const Unlocked unlocked;
    bytes = tally.snapshot();
  }
  return to_bytes(bytes);
}

void restore(Tally& tally, const py::object& snapshots) {
  std::vector<py::object> parts;
  if (PyObject_CheckBuffer(snapshots.ptr()) != 0)
    parts.push_back(snapshots);
  else
    for (const py::handle part : snapshots) parts.push_back(py::reinterpret_borrow<py::object>(part));
  std::vector<std::unique_ptr<ForeignArray>> arrays;
  std::vector<std::span<const std::byte>> bytes;
  for (const py::object& part : parts) {
    arrays.push_back(std::make_unique<ForeignArray>(part, "the snapshot"));
    bytes.push_back(arrays.back()->bytes());
  }
  const Unlocked unlocked;
  tally.restore(bytes);
}

Tally make_tally(std::uint32_t workers, std::uint64_t end, std::uint64_t begin, const std::string& method,
                 std::optional<std::uint32_t> initial_rounds, double clip,
                 std::optional<std::uint32_t> prior_rounds, std::optional<double> forget) {
  const Method known = named(kMethods, "method", method);
  return Tally({.method = known,
                .workers = workers,
                .begin = begin,
                .end = end,
                .initial_rounds = initial_rounds.value_or(default_initial_rounds(known)),
                .clip = clip,
                .prior_rounds = prior_rounds.value_or(default_prior_rounds(known)),
                .forget = forget});
}

/// A C++ caller does not change the number of workers under a box; a Python caller might.
class CheckedBallotBox {
 public:
  CheckedBallotBox(Tally& tally, std::uint64_t run_id)
      : tally_(tally), workers_(tally.options().workers), box_(tally, run_id) {}

  std::uint64_t round() const { return box_.round(); }
  const SignVector& verdict() const { return box_.verdict(); }

  void cast(std::uint32_t worker, const py::object& message) {
    check();
    const ForeignArray array(message, "the message");
    std::string problem;
    const Unlocked unlocked;
    if (!box_.cast(worker, array.bytes(), problem)) throw DataError(problem);
  }

  py::bytes close() {
    check();
    std::span<const std::byte> message;
    {
      const Unlocked unlocked;
      message = box_.close();
    }
    return to_bytes(message);
  }

 private:
  void check() const {
    if (tally_.options().workers != workers_)
      throw py::value_error(
          "the tally has another number of workers since this box was made; make a new one");
  }

  Tally& tally_;
  std::uint32_t workers_;
  BallotBox box_;
};

void define_errors(py::module_& m) {
  // Kept by the module; py::register_exception translates what C++ throws, the last one registered first.
  const py::object error = py::register_exception<Error>(m, "Error");
  py::register_exception<ConfigError>(m, "ConfigError", py::make_tuple(error, py::handle(PyExc_ValueError)));
  py::register_exception<DataError>(m, "DataError", error);
  py::register_exception<EngineError>(m, "EngineError", error);
  m.attr("Error").attr("__doc__") = "What signvote raises: ConfigError, DataError or EngineError.";
  m.attr("ConfigError").attr("__doc__") = "What was asked for makes no sense. It is a ValueError too.";
  m.attr("DataError").attr("__doc__") = "Bytes are damaged, or are not what they claim to be.";
  m.attr("EngineError").attr("__doc__") = "Workers and tally cannot reach each other any more.";
}

void define_sign_vector(py::module_& m) {
  py::class_<SignVector>(m, "SignVector",
                         R"(A sign or an abstention for each coordinate: a ballot, or a verdict.

It has a fixed size. Two bit planes hold it, coordinate i in bit i % 64 of word i // 64: `present` is 1
where there is a sign, `negative` where that sign is minus.

>>> signs = SignVector(5)          # all abstain
>>> signs[0], signs[3] = 1, -1
>>> signs.to_signs()
array([ 1,  0,  0, -1,  0], dtype=int8)
>>> len(signs), signs.count_present()
(5, 2)
>>> signs.present
array([9], dtype=uint64)
)")
      .def(py::init<std::size_t>(), py::arg("size") = 0)
      .def_static("from_signs", &from_signs, py::arg("signs"),
                  R"(From an int8 array of -1, 0 (abstains) and 1.

>>> import numpy
>>> SignVector.from_signs(numpy.array([1, 0, -1], dtype="int8"))[2]
-1
)")
      .def("to_signs", &to_signs, "As an int8 array of -1, 0 and 1, which is a copy.")
      .def("count_present", &SignVector::count_present, "How many coordinates do not abstain.")
      .def_property_readonly("size", &SignVector::size, "The number of coordinates.")
      .def_property_readonly(
          "present", [](const py::object& self) { return plane(self, self.cast<SignVector&>().present()); },
          "The plane's own memory as a uint64 array, not a copy. Who writes to it keeps the form: a bit of\n"
          "`negative` is 0 wherever that of `present` is, and bits past the last coordinate are 0 in both.")
      .def_property_readonly(
          "negative", [](const py::object& self) { return plane(self, self.cast<SignVector&>().negative()); },
          "The plane's own memory as a uint64 array, not a copy. See `present`.")
      .def("__len__", &SignVector::size)
      .def("__getitem__", [](const SignVector& self, py::ssize_t i) { return self[checked_index(self, i)]; })
      .def("__setitem__",
           [](SignVector& self, py::ssize_t i, int sign) {
             if (sign < -1 || sign > 1) throw py::value_error("a sign is -1, 0 (abstains) or 1");
             self.set(checked_index(self, i), sign);
           })
      .def("__eq__", [](const SignVector& self, const SignVector& other) { return self == other; })
      .def("__eq__", [](const SignVector&, const py::object&) { return false; })
      .def("__repr__",
           [](const SignVector& self) {
             return fmt::format("<SignVector of {} coordinates, {} abstain>", self.size(),
                                self.size() - self.count_present());
           })
      .def(py::pickle(
          [](const SignVector& self) { return encode_message({.size = self.size()}, self); },
          [](const py::bytes& message) { return decode_message(message, header_of_message(message)); }));
  m.attr("SignVector").attr("__hash__") = py::none();  // because it can change

  m.def("pack", &pack_array, py::arg("gradient"), py::arg("out") = py::none(), py::kw_only(),
        py::arg("momentum") = py::none(), py::arg("betas") = std::pair(0.9F, 0.9F),
        R"(The signs of a gradient, as a ballot.

A gradient of exactly zero abstains. `gradient` is a contiguous array of float32, float64 or bfloat16, of any
shape and any library that has the buffer protocol or DLPack, on the CPU. None if a value is NaN or infinite:
a worker with such a gradient is absent, which None means to Tally.decide too. `out`, a SignVector of the
gradient's size, is filled and returned if it is given.

>>> import numpy
>>> pack(numpy.array([0.5, 0.0, -2.0])).to_signs()
array([ 1,  0, -1], dtype=int8)
>>> pack(numpy.array([0.5, numpy.nan])) is None
True

With `momentum`, a float32 array m that begins as zeros, v * m + (1 - v) * g is signed, and then m becomes
b * m + (1 - b) * g, where betas = (v, b): with both equal the momentum is signed (Signum), with (0.9, 0.99) it is
Lion's vote. A gradient with NaN or infinity leaves m as it is.

>>> g, m = numpy.float32([1, -1]), numpy.float32([-8, -8])
>>> pack(g, momentum=m, betas=(0.5, 0.5)).to_signs(), m
(array([-1, -1], dtype=int8), array([-3.5, -4.5], dtype=float32))
)");
  m.def("step", &step_array, py::arg("parameters"), py::arg("verdict"), py::arg("delta"),
        R"(Steps parameters against a verdict, in place: x <- x - delta * U. Abstentions leave x as it is.

>>> import numpy
>>> x = numpy.zeros(3, dtype="float32")
>>> step(x, pack(numpy.array([0.5, 0.0, -2.0])), 0.25)
>>> x
array([-0.25,  0.  ,  0.25], dtype=float32)
)");
}

void define_wire(py::module_& m) {
  py::class_<MessageHeader>(m, "MessageHeader",
                            R"(What a message is about: a worker's ballot, or a verdict (of worker 0).

>>> MessageHeader(kind="ballot", run_id=7, round=3, worker=1, size=582026)
MessageHeader(kind='ballot', run_id=7, round=3, worker=1, size=582026)
)")
      .def(py::init([](const std::string& kind, std::uint64_t run_id, std::uint64_t round,
                       std::uint32_t worker, std::uint64_t size) {
             return MessageHeader{named(kKinds, "kind", kind), run_id, round, worker, size};
           }),
           py::kw_only(), py::arg("kind") = "ballot", py::arg("run_id") = 0, py::arg("round") = 0,
           py::arg("worker") = 0, py::arg("size") = 0)
      .def_property_readonly("kind", [](const MessageHeader& h) { return name_of(kKinds, h.kind); })
      .def_readonly("run_id", &MessageHeader::run_id)
      .def_readonly("round", &MessageHeader::round)
      .def_readonly("worker", &MessageHeader::worker)
      .def_readonly("size", &MessageHeader::size)
      .def("__eq__", [](const MessageHeader& self, const MessageHeader& other) { return self == other; })
      .def("__eq__", [](const MessageHeader&, const py::object&) { return false; })
      .def("__repr__", [](const MessageHeader& h) {
        return fmt::format("MessageHeader(kind='{}', run_id={}, round={}, worker={}, size={})",
                           name_of(kKinds, h.kind), h.run_id, h.round, h.worker, h.size);
      });
  m.attr("MessageHeader").attr("__hash__") = py::none();
  m.def("encode", &encode_message, py::arg("header"), py::arg("signs"),
        R"(A ballot or a verdict as bytes, about one bit for each coordinate that does not abstain.

>>> import numpy
>>> signs = pack(numpy.ones(8000, dtype="float32"))
>>> header = MessageHeader(round=3, worker=1, size=8000)
>>> message = encode(header, signs)
>>> len(message)
1064
>>> decode(message, header) == signs
True
)");
  m.def("decode", &decode_message, py::arg("message"), py::arg("expected"),
        R"(The signs in a message, whose header must say exactly what `expected` says.

The bytes may come from anybody. What is damaged or unexpected raises DataError.
)");
  m.def("decode_header", &header_of_message, py::arg("message"),
        R"(The header of a message alone; its checksum is not verified. Raises DataError.

>>> decode_header(encode(MessageHeader(round=3, size=100), SignVector(100))).round
3
)");
}

void define_tally(py::module_& m) {
  py::class_<Tally>(m, "Tally",
                    R"(Turns the ballots of a round into a verdict, and learns each worker's reliability.

It decides the coordinates [begin, end) of a model by one of these methods:

mv      a plain majority
it      votes weighted by the error rate of each worker at each coordinate, the paper's rule
shrink  the same, each rate pulled to the worker's mean over all coordinates
agree   one weight for each worker, from how often each two workers agree

A worker's votes are weighted after `initial_rounds` of its rounds (by default 100 for it, 3 for shrink, 5 for
agree), by log-likelihood ratios within +-clip. `prior_rounds` and `forget` are the program's --prior-rounds and
--forget. With shrink and agree, tallies of parts of a model must be told what all of them have learnt after every
round: see `pooled`. One thread at a time may use a tally.

>>> import numpy
>>> gradients = numpy.array([[1.0, 0.2, -3.0], [2.0, 0.1, 5.0], [4.0, -1.0, -1.0]])
>>> tally = Tally(workers=3, end=3)
>>> tally.decide([pack(g) for g in gradients]).to_signs()
array([ 1,  1, -1], dtype=int8)
>>> tally.half_errors(1)                # worker 1 was wrong about the last one: two half-errors
array([0, 0, 2], dtype=uint16)
)")
      .def(py::init(&make_tally), py::kw_only(), py::arg("workers"), py::arg("end"), py::arg("begin") = 0,
           py::arg("method") = "it", py::arg("initial_rounds") = py::none(),
           py::arg("clip") = TallyOptions{}.clip, py::arg("prior_rounds") = py::none(),
           py::arg("forget") = py::none())
      .def("decide", &decide, py::arg("ballots"), py::arg("out") = py::none(),
           R"(Decides one round: ballots[m] is worker m's SignVector, or None if it is absent.

Returns the verdict, in `out` if it is given: a SignVector of the tally's size that is none of the ballots.
)")
      .def(
          "forget",
          [](Tally& self, std::uint32_t worker) {
            check_worker(self, worker);
            self.forget(worker);
          },
          py::arg("worker"), "Drops what was learnt of a worker, as if it had never voted.")
      .def(
          "set_workers",
          [](Tally& self, std::uint32_t workers) {
            const Unlocked unlocked;
            self.set_workers(workers);
          },
          py::arg("workers"),
          "Changes the number of workers: those past it are dropped, new ones have never voted.")
      .def_property_readonly("method",
                             [](const Tally& self) { return name_of(kMethods, self.options().method); })
      .def_property_readonly("workers", [](const Tally& self) { return self.options().workers; })
      .def_property_readonly("begin", [](const Tally& self) { return self.options().begin; })
      .def_property_readonly("end", [](const Tally& self) { return self.options().end; })
      .def_property_readonly("initial_rounds",
                             [](const Tally& self) { return self.options().initial_rounds; })
      .def_property_readonly("clip", [](const Tally& self) { return self.options().clip; })
      .def_property_readonly("size", &Tally::size, "end - begin.")
      .def_property_readonly("rounds", &Tally::rounds, "Rounds decided so far.")
      .def_property_readonly("weighted", &Tally::weighted, "Whether weights are in force by now.")
      .def(
          "rounds_of",
          [](const Tally& self, std::uint32_t worker) {
            check_worker(self, worker);
            return self.rounds_of(worker);
          },
          py::arg("worker"), "The rounds in which a worker took part.")
      .def(
          "half_errors",
          [](const Tally& self, std::uint32_t worker) {
            check_worker(self, worker);
            return to_numpy(self.half_errors(worker));
          },
          py::arg("worker"), "A worker's half-errors by coordinate, as a uint16 array; empty for \"mv\".")
      .def(
          "total_half_errors", [](const Tally& self) { return to_numpy(self.total_half_errors()); },
          "The sum of each worker's half-errors, as an int64 array; empty for \"mv\".")
      .def(
          "worker_weights", [](const Tally& self) { return to_numpy(self.worker_weights()); },
          "Each worker's weight in the next round, for \"agree\"; empty for methods with other weights.")
      .def(
          "pooled", [](const Tally& self) { return to_numpy(self.pooled()); },
          R"(What the last round has taught of the workers, as int64 numbers; empty for "mv" and "it".

Tallies that decide parts of one model add theirs up after every round, and are all told the sums.

>>> parts = [Tally(workers=3, end=64, method="agree"), Tally(workers=3, begin=64, end=100, method="agree")]
>>> sums = parts[0].pooled() + parts[1].pooled()
>>> for part in parts:
...     part.set_pooled(sums)
)")
      .def(
          "set_pooled",
          [](Tally& self, const py::object& sums) {
            const ForeignArray array(sums, "the array of sums");
            if (array.type() != ForeignArray::Type::int64) array.refuse_type("int64");
            const auto values = array.values<std::int64_t>();
            self.set_pooled({values.begin(), values.end()});
          },
          py::arg("sums"), "Tells the sums of `pooled` over all parts of the model, after every round.")
      .def("snapshot", &snapshot, R"(The whole state as bytes, from which `restore` goes on.

>>> tally = Tally(workers=3, end=1000)
>>> other = Tally(workers=3, end=1000)
>>> other.restore(tally.snapshot())
)")
      .def("restore", &restore, py::arg("snapshots"),
           R"(Takes over a snapshot, or several of one round that together cover [begin, end).

Snapshots that are damaged, or of a tally with other options, raise DataError, and nothing is changed.

>>> halves = [Tally(workers=3, end=640), Tally(workers=3, begin=640, end=1000)]
>>> whole = Tally(workers=3, end=1000)
>>> whole.restore([half.snapshot() for half in halves])
)")
      .def("__repr__",
           [](const Tally& self) {
             const TallyOptions& o = self.options();
             return fmt::format("<Tally '{}' of {} workers on [{}, {}) after {} rounds>",
                                name_of(kMethods, o.method), o.workers, o.begin, o.end, self.rounds());
           })
      .def(py::pickle(
          [](const Tally& self) {
            const TallyOptions& o = self.options();
            return py::make_tuple(o.workers, o.end, o.begin, name_of(kMethods, o.method), o.initial_rounds,
                                  o.clip, o.prior_rounds, o.forget, snapshot(self));
          },
          [](const py::tuple& state) {
            if (state.size() != 9) throw DataError("this is not a pickled Tally");
            Tally tally = make_tally(state[0].cast<std::uint32_t>(), state[1].cast<std::uint64_t>(),
                                     state[2].cast<std::uint64_t>(), state[3].cast<std::string>(),
                                     state[4].cast<std::uint32_t>(), state[5].cast<double>(),
                                     state[6].cast<std::uint32_t>(), state[7].cast<std::optional<double>>());
            restore(tally, state[8]);
            return tally;
          }));

  py::class_<CheckedBallotBox>(
      m, "BallotBox",
      R"(The tally as a server sees it: ballots go in as bytes, the verdict comes out as bytes.

>>> tally = Tally(workers=2, end=100)
>>> box = BallotBox(tally, run_id=7)
>>> ballot = encode(MessageHeader(run_id=7, round=0, worker=1, size=100), SignVector(100))
>>> box.cast(1, ballot)
>>> decode_header(box.close())
MessageHeader(kind='verdict', run_id=7, round=0, worker=0, size=100)
>>> box.round
1
)")
      .def(py::init<Tally&, std::uint64_t>(), py::keep_alive<1, 2>(), py::arg("tally"), py::arg("run_id"))
      .def("cast", &CheckedBallotBox::cast, py::arg("worker"), py::arg("message"),
           "Takes a worker's ballot for this round. Raises DataError, which says why, if it is refused:\n"
           "malformed, of another run, round or worker, or the worker's second.")
      .def("close", &CheckedBallotBox::close,
           "Decides the round by the ballots that were cast, begins the next, and returns the verdict's "
           "message.")
      .def_property_readonly("round", &CheckedBallotBox::round)
      .def_property_readonly(
          "verdict", [](const CheckedBallotBox& self) { return SignVector(self.verdict()); },
          "What the last close decided, as a copy.");
}

}  // namespace

PYBIND11_MODULE(_core, m) {
  py::options options;
  options.disable_function_signatures();  // the stubs have them, with types
  m.attr("__version__") = SIGNVOTE_VERSION;
  define_errors(m);
  define_sign_vector(m);
  define_wire(m);
  define_tally(m);
}

}  // namespace signvote::python
