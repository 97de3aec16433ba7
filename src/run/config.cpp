#include "run/config.h"

#include <fmt/format.h>
#include <toml++/toml.h>
#include <xxhash.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>
#include <sstream>
#include <thread>
#include <utility>

#include "base/files.h"
#include "base/numbers.h"
#include "base/sha256.h"
#include "base/text.h"
#include "kernels/weight.h"
#include "learn/dataset.h"
#include "learn/model_names.h"
#include "learn/partition.h"
#include "run/attack.h"
#include "run/foreign_words.h"
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

/// "; did you mean mnist?" for "MNIST", nothing for what is like none of them.
std::string meant(std::string text, const std::vector<std::string>& known) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto near = nearest(text, known);
  return near ? fmt::format("; did you mean {}?", *near) : "";
}

/// Finds out what a data set that is given by its path is called.
void resolve_data(TrainConfig& config) {
  namespace fs = std::filesystem;
  if (config.dataset.empty() || config.model.empty())
    throw ConfigError("--dataset and --model must not be empty");
  if (!is_dataset_name(config.dataset) && config.data.empty()) {
    fs::path path = fs::absolute(config.dataset).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();  // DIR/
    std::error_code unreachable;                          // is neither
    const bool is_file = fs::is_regular_file(path, unreachable) && path.extension() == ".txt";
    if (!path.has_filename() || !(is_file || fs::is_directory(path, unreachable)))
      throw ConfigError(fmt::format("--dataset is '{}', which is neither {} nor a folder or a .txt file{}",
                                    config.dataset, fmt::join(kDatasetNames, ", "),
                                    meant(config.dataset, {kDatasetNames.begin(), kDatasetNames.end()})));
    config.data = path.string();
    config.dataset = path.filename().string();
    if (is_dataset_name(config.dataset)) config.dataset = "own-" + config.dataset;
  }
  if (!config.data.empty()) config.data = fs::absolute(config.data).string();
  const bool is_text = !is_dataset_name(config.dataset) && fs::path(config.dataset).extension() == ".txt";
  if (is_text && !config.context) config.context = 128;
  if (!is_text && config.context)
    throw ConfigError(
        fmt::format("--context is for a data set that is a text, which {} is not", config.dataset));
}

void resolve_model(TrainConfig& config) {
  if (!config.has_own_model()) {
    if (!config.model_file_sha256.empty())
      throw ConfigError(
          fmt::format("--model-file-sha256 is for a model file, which {} is not", config.model));
    return;
  }
  const std::filesystem::path path = std::filesystem::absolute(config.model);
  if (std::error_code unreachable; !std::filesystem::is_regular_file(path, unreachable))
    throw ConfigError(fmt::format(
        "--model is '{}', which is neither {} nor a file; write one with torch.jit.script(model).save{}",
        config.model, fmt::join(kModelNames, ", "),
        meant(config.model, {kModelNames.begin(), kModelNames.end()})));
  const std::string sha256 = sha256_hex(read_file(path));
  if (!config.model_file_sha256.empty() && config.model_file_sha256 != sha256)
    throw ConfigError(fmt::format("'{}' is not the model file of this run: its SHA-256 is {}, not {}",
                                  config.model, sha256, config.model_file_sha256));
  config.model = path.string();
  config.model_file_sha256 = sha256;
}

/// A run of parameters alone has no network, and nothing that is about one or about how workers use it.
void resolve_parameters(TrainConfig& config) {
  const TrainConfig fresh;
  for (const TrainOption& option : train_options()) {
    static constexpr std::array kNeedNetwork = {"dataset",  "data",   "model",   "partition",
                                                "absent",   "attack", "sign_of", "sparsity",
                                                "patience", "loss",   "context", "model_file_sha256"};
    const std::string value = option.get(config);
    if (std::ranges::find(kNeedNetwork, option.name) != kNeedNetwork.end() && !value.empty() &&
        value != option.get(fresh))
      throw ConfigError(fmt::format(
          "{} means nothing with --parameters, where only the workers know the model", flag(option.name)));
  }
  config.dataset.clear();
  config.model.clear();
  config.partition.clear();
  config.sign_of.clear();
  config.sparsity.clear();
  if (config.engine != "grpc")
    throw ConfigError("--parameters is for signvote server, whose workers know the model; take a --model");
  const std::filesystem::path path = std::filesystem::absolute(config.parameters);
  std::error_code unreachable;
  if (!std::filesystem::is_regular_file(path, unreachable) ||
      (path.extension() != ".npy" && path.extension() != ".pt"))
    throw ConfigError(
        fmt::format("--parameters is '{}', which is no .npy or .pt file; write one with "
                    "numpy.save, or torch.save of a state dict",
                    config.parameters));
  const std::string sha256 = sha256_hex(read_file(path));
  if (!config.parameters_sha256.empty() && config.parameters_sha256 != sha256)
    throw ConfigError(fmt::format("'{}' is not the file of this run's parameters: its SHA-256 is {}, not {}",
                                  config.parameters, sha256, config.parameters_sha256));
  config.parameters = path.string();
  config.parameters_sha256 = sha256;
}

// Of a string or a number.
std::string toml_text(const toml::node& value) {
  if (const auto* text = value.as_string()) return text->get();
  if (const auto* whole = value.as_integer()) return fmt::format("{}", whole->get());
  return fmt::format("{}", value.as_floating_point()->get());
}

/// runs/ and a name that tells this run from others: what is trained by which method, then the settings that
/// are not the method's defaults. REQUIRES: all of `config` but `out` is resolved.
std::string default_out(const TrainConfig& config) {
  TrainConfig plain;
  plain.method = config.method;
  plain.out = "any";
  resolve(plain);
  if (config.context) plain.context = 128;
  std::string batches = config.batches;
  for (int mode = 1; mode <= 4; ++mode)
    if (batches == batches_of_mode(mode)) batches = fmt::format("mode{}", mode);
  std::string name = fmt::format("{}-{}-{}-{}", config.dataset,
                                 std::filesystem::path(config.model).stem().string(), config.method, batches);
  for (const TrainOption& option : train_options()) {
    static constexpr std::array kNamed = {"dataset",    "model",   "method", "workers",
                                          "batch_mode", "batches", "seed",   "model_file_sha256"};
    const std::string value = option.get(config);
    const bool counts = option.fixes_result || option.name == "rounds";
    if (counts && std::ranges::find(kNamed, option.name) == kNamed.end() && value != option.get(plain))
      name += fmt::format("-{}-{}", option.name, value);
  }
  constexpr std::size_t kLongest = 150;  // file systems take 255
  if (name.size() > kLongest) name = fmt::format("{}-{:016x}", name.substr(0, kLongest), config.run_id());
  return "runs/" + as_file_name(fmt::format("{}-seed{}", name, config.seed));
}

/// What to say of a key that there is not.
std::string instead_of_key(const std::string& name) {
  std::vector<std::string> names;
  for (const TrainOption& known : train_options()) names.push_back(known.name);
  if (const ForeignWord* foreign = foreign_word(name)) {
    if (foreign->options.empty()) return foreign->remark;
    for (const std::string& option : foreign->options)
      if (std::ranges::find(names, option) != names.end())
        return fmt::format("it is called '{}' here{}{}", option, foreign->remark.empty() ? "" : ", ",
                           foreign->remark);
  }
  const auto near = nearest(name, names);
  return near ? fmt::format("did you mean '{}'?", *near) : "see signvote train --help";
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

Method TrainConfig::tally_method() const {
  if (method == "mv") return Method::mv;
  if (method == "it") return Method::it;
  if (method == "oracle" || method == "solo") return Method::fixed;
  if (method == "sgd") return Method::mv;  // its verdict is not used
  return method == "shrink" ? Method::shrink : Method::agree;
}

std::string TrainConfig::method_title() const {
  if (method == "mv") return "signSGD-MV";
  if (method == "it") return "IT-signSGD";
  if (method == "oracle") return "signSGD weighted by the batch sizes";
  if (method == "solo") return "signSGD of the largest batch alone";
  if (method == "sgd") return "SGD at full precision";
  return method == "shrink" ? "IT-signSGD with shrinkage" : "IT-signSGD by agreement";
}

TallyOptions TrainConfig::tally_options(std::uint64_t coordinates) const {
  TallyOptions options{tally_method(), *workers,      0,  coordinates, *initial_rounds,
                       clip,           *prior_rounds, {}, *forget};
  const std::vector<std::uint32_t> sizes = batch_sizes();
  if (method == "oracle")  // the noise of a mean of B gradients falls with the square root of B
    for (const std::uint32_t size : sizes) options.weights.push_back(std::sqrt(size));
  if (method == "solo") {
    options.weights.resize(sizes.size());
    options.weights[static_cast<std::size_t>(std::ranges::max_element(sizes) - sizes.begin())] = 1;
  }
  return options;
}

std::vector<std::uint32_t> TrainConfig::batch_sizes() const { return parse_batches(batches); }

Betas TrainConfig::betas() const { return parse_sign_of(sign_of); }

std::vector<Absence> TrainConfig::absences() const { return parse_absences(absent); }

std::size_t TrainConfig::thread_count() const {
  return threads != 0 ? threads : std::max(1U, std::thread::hardware_concurrency());
}

std::filesystem::path TrainConfig::data_folder() const {
  return data.empty() ? dataset_cache_folder(dataset) : std::filesystem::path(data);
}

Dataset TrainConfig::load_data() const { return load_dataset(dataset, data_folder(), context.value_or(0)); }

bool TrainConfig::has_own_model() const {
  return has_network() && std::ranges::find(kModelNames, model) == kModelNames.end();
}

std::string parameters_copy(const TrainConfig& config) {
  if (config.has_network()) return {};
  return "parameters" + std::filesystem::path(config.parameters).extension().string();
}

void make_room(const std::vector<GivenOption>& given, TrainConfig& config) {
  for (const auto& [option, text] : given) {
    const std::string& name = option->name;
    if (name == "batch_mode" || name == "batches" || name == "workers") {
      config.batch_mode.reset();
      config.batches.clear();
      config.workers.reset();
    }
    if (name == "model") config.model_file_sha256.clear();
    if (name == "parameters") config.parameters_sha256.clear();
    if (name == "method" && text != config.method) {
      config.initial_rounds.reset();
      config.prior_rounds.reset();
      config.forget.reset();
      if ((text == "sgd") != config.full_precision()) config.step.reset();
    }
    if (name == "dataset" && !(is_dataset_name(text) && is_dataset_name(config.dataset))) {
      config.data.clear();
      config.context.reset();
    }
  }
}

std::uint64_t TrainConfig::run_id() const {
  std::string settings;
  for (const TrainOption& option : train_options())
    if (option.fixes_result) settings += option.name + "=" + option.get(*this) + "\n";
  return XXH3_64bits(settings.data(), settings.size());
}

void resolve(TrainConfig& config) {
  if (config.batch_mode && !config.batches.empty() && config.batches != batches_of_mode(*config.batch_mode))
    throw ConfigError("--batch-mode and --batches are both given; leave one of them out");
  if (config.batch_mode) config.batches = batches_of_mode(*config.batch_mode);
  config.batch_mode.reset();
  if (config.batches.empty()) config.batches = fmt::format("{}x64", config.workers.value_or(15));
  const std::vector<std::uint32_t> sizes = parse_batches(config.batches);
  if (config.workers && *config.workers != sizes.size())
    throw ConfigError(
        fmt::format("--workers is {} but the batches {} are those of {} workers; leave one of them out",
                    *config.workers, config.batches, sizes.size()));
  config.workers = static_cast<std::uint32_t>(sizes.size());
  if (!config.initial_rounds) config.initial_rounds = default_initial_rounds(config.tally_method());
  if (!config.prior_rounds) config.prior_rounds = default_prior_rounds(config.tally_method());
  if (!config.forget) config.forget = default_forget(config.tally_method());
  if (!config.step) config.step = config.full_precision() ? 0.5 : 4e-4;
  const bool weighs_workers =
      config.tally_method() == Method::agree || config.tally_method() == Method::fixed;
  if (weighs_workers && *config.workers > kMostWeighed)
    throw ConfigError(fmt::format("--method {} takes up to {} workers, not {}: choose --method shrink",
                                  config.method, kMostWeighed, *config.workers));
  try {
    const Tally checked(config.tally_options(0));  // forget, together with the method and the initial rounds
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("--method {}: {}", config.method, error.what()));
  }
  if (config.full_precision() && config.engine != "local")
    throw ConfigError("--method sgd is there to compare with, in one process; leave out --engine");
  if (config.full_precision() && !config.attack.empty())
    throw ConfigError("--attack is for methods that vote, which --method sgd does not");
  if (config.full_precision() && config.sparsity != TrainConfig{}.sparsity)
    throw ConfigError("--sparsity is for methods that vote, which --method sgd does not");
  if (config.has_network()) {
    if (!config.parameters_sha256.empty())
      throw ConfigError("--parameters-sha256 is for a file of --parameters, which is not given");
    check_partition_rule(config.partition);
    resolve_data(config);
    resolve_model(config);
  } else {
    resolve_parameters(config);
  }
  for (const Absence& absence : config.absences())
    if (absence.worker >= *config.workers)
      throw ConfigError(fmt::format("--absent names worker {}; there are {}, from 0 to {}", absence.worker,
                                    *config.workers, *config.workers - 1));
  if (Attack(config.attack).liars() > *config.workers)
    throw ConfigError(
        fmt::format("--attack is '{}', but there are only {} workers", config.attack, *config.workers));
  check_schedule(config);
  if (config.out.empty()) config.out = default_out(config);
}

TrainConfig load_run(const std::filesystem::path& folder) {
  if (std::filesystem::is_regular_file(folder))
    throw ConfigError(fmt::format("'{}' is a file; give the folder of the run", folder.string()));
  if (!std::filesystem::exists(folder / "config.toml"))
    throw ConfigError(fmt::format("'{}' holds no run: it has no config.toml", folder.string()));
  TrainConfig config;
  read_config(folder / "config.toml", config);
  config.out = folder.string();
  resolve(config);
  return config;
}

std::optional<std::string> first_change(const TrainConfig& there, const TrainConfig& wanted) {
  const auto shown = [](const std::string& value) { return value.empty() ? "(none)" : value; };
  for (const TrainOption& option : train_options())
    if (const std::string old = option.get(there), now = option.get(wanted);
        option.fixes_result && old != now)
      return fmt::format("{} = {}, not {}", option.name, shown(old), shown(now));
  return std::nullopt;
}

namespace {

// A key of a settings file, and where it stands there.
struct GivenKey {
  GivenOption given;
  std::string where;
};

std::vector<GivenKey> keys_of(const std::string& text, const std::string& file) {
  toml::table table;
  try {
    table = toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    throw ConfigError(fmt::format("{}:{}: {}", file, error.source().begin.line, error.description()));
  }
  // In the order of the file, because of several mistakes people mend the first one first.
  std::vector<std::pair<toml::source_position, std::pair<std::string, const toml::node*>>> lines;
  for (const auto& [key, value] : table)
    lines.push_back({value.source().begin, {std::string(key.str()), &value}});
  std::ranges::sort(lines, {},
                    [](const auto& line) { return std::pair(line.first.line, line.first.column); });
  std::vector<GivenKey> keys;
  for (const auto& [begin, entry] : lines) {
    const auto& [key, value] = entry;
    std::string name = key;
    std::ranges::replace(name, '-', '_');
    const auto where = fmt::format("{}:{}", file, begin.line);
    const auto& options = train_options();
    const auto option = std::ranges::find(options, name, &TrainOption::name);
    if (option == options.end())
      throw ConfigError(
          fmt::format("{}: unknown key '{}'; {}", where, key,
                      value->is_table() ? "settings stand outside of tables" : instead_of_key(name)));
    if (!value->is_string() && !value->is_number())
      throw ConfigError(fmt::format("{}: {}: must be a number or a string", where, name));
    keys.push_back({{&*option, toml_text(*value)}, where});
  }
  return keys;
}

void set(const std::vector<GivenKey>& keys, TrainConfig& config) {
  for (const auto& [given, where] : keys) {
    const auto& [option, value] = given;
    try {
      option->set(config, value);
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("{}: {}: {}", where, option->name, error.what()));
    }
  }
}

}  // namespace

void read_config(const std::filesystem::path& file, TrainConfig& config) {
  const std::string model = std::exchange(config.model, "");
  const std::string parameters = std::exchange(config.parameters, "");
  const std::vector<GivenKey> keys = keys_of(read_text_file(file), file.string());
  std::vector<GivenOption> given;
  for (const GivenKey& key : keys) given.push_back(key.given);
  make_room(given, config);
  set(keys, config);
  if (config.model.empty())
    config.model = model;
  else if (config.has_own_model())
    config.model = (file.parent_path() / config.model).string();
  if (config.parameters.empty())
    config.parameters = parameters;
  else
    config.parameters = (file.parent_path() / config.parameters).string();
}

void parse_config(const std::string& text, const std::string& file, TrainConfig& config) {
  set(keys_of(text, file), config);
}

std::string write_config(const TrainConfig& config) {
  std::string text = "# Repeat this run with: signvote train --config config.toml --out OTHER_FOLDER\n";
  for (const TrainOption& option : train_options()) {
    const std::string value = option.get(config);
    if (value.empty() || option.name == "out") continue;
    std::ostringstream out;
    if (option.text) out << toml::value<std::string>(value);
    text += fmt::format("{} = {}\n", option.name, option.text ? out.str() : value);
  }
  return text;
}

std::string settings_for_workers(TrainConfig config) {
  config.data.clear();
  return write_config(config);
}

std::optional<std::string> nearest(const std::string& word, const std::vector<std::string>& candidates) {
  const auto distance = [](const std::string& a, const std::string& b) {  // the Levenshtein distance
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j <= b.size(); ++j)
        diagonal =
            std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])}));
    }
    return row.back();
  };
  std::optional<std::string> best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates)
    if (const std::size_t d = distance(word, candidate); d < best_distance) {
      best = candidate;
      best_distance = d;
    }
  return best;
}

}  // namespace signvote
