// The settings one by one: their names, what they are for, and which texts they take.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>
#include <utility>

#include "base/numbers.h"
#include "kernels/weight.h"
#include "learn/model_names.h"
#include "run/attack.h"
#include "run/config.h"
#include "run/schedule.h"
#include "run/sparsity.h"
#include "signvote/error.h"

namespace signvote {
namespace {

/// The text of option `name` as a number within [low, high].
template <class Number>
Number number(const std::string& name, const std::string& text, Number low, Number high) {
  const std::optional<Number> value = parse_number<Number>(text);
  if (!value || !(*value >= low && *value <= high))
    throw ConfigError(fmt::format("{} is '{}'; it must be a {} from {} to {}", flag(name), text,
                                  std::is_integral_v<Number> ? "whole number" : "number", low, high));
  return *value;
}

template <class Number>
TrainOption numeric(std::string name, std::string help, Number TrainConfig::*field, Number low, Number high,
                    bool fixes_result) {
  return {
      name,
      std::move(help),
      false,
      fixes_result,
      [field](const TrainConfig& config) { return fmt::format("{}", config.*field); },
      [=](TrainConfig& config, const std::string& text) { config.*field = number(name, text, low, high); }};
}

template <class Number>
TrainOption optional_numeric(std::string name, std::string help, std::optional<Number> TrainConfig::*field,
                             Number low, Number high) {
  return {
      name,
      std::move(help),
      false,
      true,
      [field](const TrainConfig& config) { return config.*field ? fmt::format("{}", *(config.*field)) : ""; },
      [=](TrainConfig& config, const std::string& text) { config.*field = number(name, text, low, high); }};
}

TrainOption textual(std::string name, std::string help, std::string TrainConfig::*field, bool fixes_result) {
  return {name,
          std::move(help),
          true,
          fixes_result,
          [field](const TrainConfig& config) { return config.*field; },
          [=](TrainConfig& config, const std::string& text) { config.*field = text; }};
}

TrainOption choice(std::string name, std::string help, std::string TrainConfig::*field,
                   std::vector<std::string> choices) {
  TrainOption option = textual(name, fmt::format("{}: {}", help, fmt::join(choices, ", ")), field, true);
  option.set = [=](TrainConfig& config, const std::string& text) {
    if (std::ranges::find(choices, text) == choices.end())
      throw ConfigError(fmt::format("{} is '{}'; take {}", flag(name), text, fmt::join(choices, ", ")));
    config.*field = text;
  };
  return option;
}

/// Parses "14x4,904": fourteen fours and one 904.
std::vector<std::uint32_t> parse_batches(const std::string& text) {
  std::vector<std::uint32_t> sizes;
  std::stringstream parts(text + ',');
  try {
    for (std::string part; std::getline(parts, part, ',');) {
      const std::size_t times = part.find('x');
      const bool repeated = times != std::string::npos;
      const auto repeat = repeated ? number<std::uint32_t>("batches", part.substr(0, times), 1, 65536) : 1;
      part.erase(0, repeated ? times + 1 : 0);
      sizes.insert(sizes.end(), repeat, number<std::uint32_t>("batches", part, 1, 100'000'000));
      if (sizes.size() > 65536) break;  // before a long text fills the memory
    }
  } catch (const ConfigError&) {
    throw ConfigError(fmt::format(
        "--batches is '{}'; write sizes like 14x4,904 (fourteen workers of 4, one of 904)", text));
  }
  if (sizes.size() > 65536) throw ConfigError("--batches names more than 65536 workers");
  return sizes;
}

/// An option whose text `parse` must accept.
TrainOption parsed(std::string name, std::string help, std::string TrainConfig::*field,
                   std::function<void(const std::string&)> parse) {
  TrainOption option = textual(std::move(name), std::move(help), field, true);
  option.set = [field, parse = std::move(parse)](TrainConfig& config, const std::string& text) {
    parse(text);
    config.*field = text;
  };
  return option;
}

/// Parses "2@5-9,0@12": worker 2 in rounds 5 to 9 and worker 0 in round 12, both counted from 1.
std::vector<Absence> parse_absences(const std::string& text) {
  std::vector<Absence> absences;
  if (text.empty()) return absences;
  std::stringstream parts(text + ',');
  try {
    for (std::string part; std::getline(parts, part, ',');) {
      const std::size_t at = part.find('@');
      if (at == std::string::npos) throw ConfigError("no @");
      const std::string rounds = part.substr(at + 1);
      const std::size_t dash = rounds.find('-');
      const auto round = [](const std::string& digits) {
        return number<std::uint64_t>("absent", digits, 1, 1'000'000'000);
      };
      const std::uint64_t first = round(rounds.substr(0, dash));
      const std::uint64_t last = dash == std::string::npos ? first : round(rounds.substr(dash + 1));
      if (last < first) throw ConfigError("backwards");
      absences.push_back(
          {number<std::uint32_t>("absent", part.substr(0, at), 0, 65535), first - 1, last - 1});
    }
  } catch (const ConfigError&) {
    throw ConfigError(fmt::format(
        "--absent is '{}'; write it like 2@5-9,0@12 (worker 2 misses rounds 5 to 9, worker 0 round 12)",
        text));
  }
  return absences;
}

/// Parses "gradient", "momentum:0.9" or "lion:0.9,0.99".
Betas parse_sign_of(const std::string& text) {
  try {
    const std::size_t colon = text.find(':');
    const std::string kind = text.substr(0, colon);
    if (text == "gradient") return {};
    if (colon == std::string::npos) throw ConfigError("no beta");
    const auto beta = [](const std::string& digits) {
      return static_cast<float>(number("sign_of", digits, 0.0, 0.9999));
    };
    const std::string betas = text.substr(colon + 1);
    const std::size_t comma = betas.find(',');
    if (kind == "momentum") return {beta(betas), beta(betas)};
    if (kind != "lion" || comma == std::string::npos) throw ConfigError("no such kind");
    return {beta(betas.substr(0, comma)), beta(betas.substr(comma + 1))};
  } catch (const ConfigError&) {
    throw ConfigError(fmt::format(
        "--sign-of is '{}'; take gradient, momentum:B or lion:B1,B2 with each B from 0 to 0.9999, "
        "e.g. momentum:0.9",
        text));
  }
}

}  // namespace

std::string batches_of_mode(int mode) {
  static const std::array<const char*, 4> modes = {"15x64", "9x4,6x154", "12x4,3x304", "14x4,904"};
  return modes.at(static_cast<std::size_t>(mode - 1));
}

const std::vector<TrainOption>& train_options() {
  using C = TrainConfig;
  constexpr std::uint64_t kMost = 1'000'000'000;
  TrainOption engine =
      choice("engine", "How workers and tally reach each other", &C::engine, {"local", "mpi", "grpc"});
  engine.fixes_result = false;  // all engines give the same bytes
  TrainOption model =
      textual("model",
              fmt::format("Network to train: {}, or your own: a file that torch.jit.script wrote",
                          fmt::join(kModelNames, ", ")),
              &C::model, true);
  model.get = [](const C& config) { return config.has_own_model() ? kModelCopy : config.model; };
  TrainOption parameters =
      textual("parameters",
              "Instead of a model: a file of the first parameters of a model that only the workers know, a "
              ".npy array or a state dict (see docs/python.md)",
              &C::parameters, true);
  parameters.get = parameters_copy;
  TrainOption out =
      textual("out",
              "Folder of the run (default: runs/ and a name made of the data set, the model, the method, the "
              "batches, what is not as by default, and the seed)",
              &C::out, false);
  out.set = [](C& config, const std::string& text) {
    if (text.empty()) throw ConfigError("--out is empty; name a folder, or leave it out");
    config.out = text;
  };
  static const std::vector<TrainOption> options = {
      textual("dataset",
              fmt::format(
                  "Data set: {}, or your own: a folder of .npy or .pt arrays, images or IDX files, or a .txt",
                  fmt::join(kDatasetNames, ", ")),
              &C::dataset, true),
      textual("data", "Folder of the data set's files (default: the cache that 'signvote data fetch' fills)",
              &C::data, false),
      model,
      choice("method",
             "Vote by learnt reliability (agree: learnt from how often workers agree; it: IT-signSGD, the "
             "paper's; shrink: it, learnt from all coordinates) or by plain majority (mv: signSGD-MV). To "
             "compare "
             "with: weights that are told the batches (oracle), the largest batch alone (solo), the mean of "
             "floats (sgd)",
             &C::method, {"agree", "it", "mv", "shrink", "oracle", "solo", "sgd"}),
      optional_numeric<std::uint32_t>("workers", "Number of workers (default: as many as batches, else 15)",
                                      &C::workers, 1, 65536),
      optional_numeric<int>("batch_mode",
                            "The paper's batch sizes for 15 workers: 1 (15x64), 2 (9x4,6x154), "
                            "3 (12x4,3x304), 4 (14x4,904)",
                            &C::batch_mode, 1, 4),
      parsed("batches", "Batch sizes, e.g. 14x4,904: fourteen workers of 4, one of 904 (default: 64 each)",
             &C::batches, parse_batches),
      textual("partition", "Who holds which samples: iid, shared, labels:K, dirichlet:A", &C::partition,
              true),
      parsed("absent",
             "Workers that miss rounds, e.g. 2@5-9,0@12: worker 2 misses 5 to 9, worker 0 misses 12",
             &C::absent, parse_absences),
      parsed(
          "attack",
          "For experiments, the first L workers lie: flip:L, flip:L:P (a share P of the signs), late:L:ROUND "
          "(from that round on), noise:L:SIGMA (noise on their gradients, 1 for as much as signal), zero:L, "
          "collude:L",
          &C::attack, [](const std::string& text) { return Attack{text}; }),
      parsed(
          "sign_of",
          "What workers sign: gradient, momentum:B (m = B m + (1 - B) g), or lion:B1,B2 (signs B1 m + (1 - "
          "B1) g, keeps m with B2)",
          &C::sign_of, parse_sign_of),
      parsed(
          "sparsity",
          "Share K of the coordinates that a worker votes on: those with the largest magnitudes of what it "
          "has not sent yet, or random:K",
          &C::sparsity, [](const std::string& text) { return Sparsity{text}; }),
      numeric<std::uint64_t>("rounds", "Rounds to train", &C::rounds, 1, kMost, false),
      optional_numeric("step",
                       "How far a parameter moves in a round (delta); the most, with a schedule (default: "
                       "4e-4; 0.5 for sgd, which multiplies the mean by it)",
                       &C::step, 1e-30, 1e30),
      choice("step_schedule", "How the step changes over the rounds, see docs/schedules.md",
             &C::step_schedule, {"constant", "cosine", "linear", "wsd"}),
      numeric<std::uint64_t>("warmup_rounds", "Rounds at the start in which the step rises to its full size",
                             &C::warmup_rounds, 0, kMost, true),
      numeric("weight_decay", "Decoupled weight decay L: in a round every parameter x loses step * L * x",
              &C::weight_decay, 0.0, 1e30, true),
      optional_numeric<std::uint32_t>("initial_rounds",
                                      "Rounds a worker takes part in before its LLRs are used (default: 100 "
                                      "for it, 5 for agree, 3 for shrink)",
                                      &C::initial_rounds, 1, 16383),
      numeric("clip", "The largest LLR, of either sign; larger ones are cut to it", &C::clip, kMinClip,
              kMaxClip, true),
      optional_numeric<std::uint32_t>(
          "prior_rounds",
          "With shrink: how many rounds of a coordinate's own counts weigh as much as the "
          "worker's mean over all coordinates; with agree: how many rounds of agreement "
          "weigh as much as the belief that all workers are equals (default: 3 for agree, "
          "else 30)",
          &C::prior_rounds, 1, 16383),
      optional_numeric("forget",
                       "Share of what was learnt of the workers that is forgotten each round; more follows "
                       "workers that change (default: 1/256 for agree, else 0)",
                       &C::forget, 0.0, 0.5),
      numeric<std::uint64_t>("eval_every",
                             "Rounds from one test to the next; the last round is always tested",
                             &C::eval_every, 1, kMost, false),
      numeric<std::uint64_t>("save_every",
                             "Rounds from one save to the next; --resume goes on from the last one",
                             &C::save_every, 1, kMost, false),
      numeric<std::uint64_t>(
          "patience", "Ends the run when so many tests in a row were not better than the best, 0 for never",
          &C::patience, 0, kMost, false),
      numeric<std::uint64_t>("seed", "Seed of all random numbers", &C::seed, 0, (1ULL << 63) - 1, true),
      numeric<std::uint32_t>("threads", "Threads, 0 for one per core; the result is the same with any number",
                             &C::threads, 0, 1024, false),
      numeric<std::uint32_t>("micro_batch",
                             "Samples that a thread takes at once; changes how sums are rounded",
                             &C::micro_batch, 1, 65536, true),
      engine,
      out,
      choice("loss", "What training makes small (default: the model's own method 'loss', else cross-entropy)",
             &C::loss, {"cross-entropy", "mse"}),
      optional_numeric<std::uint32_t>(
          "context", "Bytes of a sample, if the data set is a text (default: 128)", &C::context, 1, 65536),
      textual("model_file_sha256", "SHA-256 that a model file must have (default: any)",
              &C::model_file_sha256, true),
      parameters,
      textual("parameters_sha256", "SHA-256 that the file of parameters must have (default: any)",
              &C::parameters_sha256, true),
  };
  return options;
}

std::string flag(const std::string& option) {
  std::string text = "--" + option;
  std::ranges::replace(text, '_', '-');
  return text;
}

std::vector<std::uint32_t> TrainConfig::batch_sizes() const { return parse_batches(batches); }

Betas TrainConfig::betas() const { return parse_sign_of(sign_of); }

std::vector<Absence> TrainConfig::absences() const { return parse_absences(absent); }

}  // namespace signvote
