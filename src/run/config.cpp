#include "run/config.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <numeric>
#include <thread>
#include <utility>

#include "base/files.h"
#include "base/sha256.h"
#include "base/text.h"
#include "learn/dataset.h"
#include "learn/model_names.h"
#include "learn/partition.h"
#include "run/attack.h"
#include "run/schedule.h"
#include "signvote/error.h"

namespace signvote {
namespace {

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

}  // namespace

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
  const std::vector<std::uint32_t> sizes = config.batch_sizes();
  if (config.workers && *config.workers != sizes.size())
    throw ConfigError(fmt::format("--workers is {} but the batches {} are those of {}; leave one of them out",
                                  *config.workers, config.batches, counted(sizes.size(), "worker")));
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
    throw ConfigError(fmt::format("--attack is '{}', but there {} only {}", config.attack,
                                  *config.workers == 1 ? "is" : "are", counted(*config.workers, "worker")));
  check_schedule(config);
  if (config.out.empty()) config.out = default_out(config);
}

std::optional<std::string> first_change(const TrainConfig& there, const TrainConfig& wanted) {
  const auto shown = [](const std::string& value) { return value.empty() ? "(none)" : value; };
  for (const TrainOption& option : train_options())
    if (const std::string old = option.get(there), now = option.get(wanted);
        option.fixes_result && old != now)
      return fmt::format("{} = {}, not {}", option.name, shown(old), shown(now));
  return std::nullopt;
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
