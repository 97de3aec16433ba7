// A training run's settings. One table of options serves the command line, the TOML file and the run's own
// config.toml, so that every flag is a key and every key is a flag. Does not use torch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "learn/dataset.h"
#include "signvote/sign_vector.h"
#include "signvote/tally.h"

namespace signvote {

/// A worker that misses the rounds [first, last], counted from 0.
struct Absence {
  std::uint32_t worker = 0;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};

struct TrainConfig {
  std::string dataset = "mnist";  // a name; what is given as a path becomes its last part, and `data`
  std::string data;               // the data set's folder or text; empty: the cache's
  std::string model = "cnn";      // a name, or the path of a TorchScript file
  std::string method = "agree";
  std::optional<std::uint32_t> workers;
  std::optional<int> batch_mode;
  std::string batches;  // e.g. "14x4,904"; see resolve
  std::string partition = "iid";
  std::string absent;          // e.g. "2@5-9,0@12"; see absences
  std::string attack;          // e.g. "flip:6", for experiments; see attack.h
  std::string sparsity = "1";  // or "0.1" or "random:0.1"; see sparsity.h
  std::uint64_t rounds = 300;
  // docs/results.md says how the defaults of these, of the step and of the method were chosen.
  std::string sign_of = "momentum:0.9";  // or "gradient" or "lion:B1,B2"; see betas
  std::optional<double> step;            // resolve sets the method's default
  std::string step_schedule = "cosine";  // see schedule.h, also for the next two
  std::uint64_t warmup_rounds = 0;
  double weight_decay = 0;
  std::optional<std::uint32_t> initial_rounds;  // resolve sets the method's default
  double clip = 10;
  std::optional<std::uint32_t> prior_rounds;  // likewise
  std::optional<double> forget;               // likewise
  std::uint64_t eval_every = 25;
  std::uint64_t save_every = 50;
  std::uint64_t patience = 0;  // tests without a better one after which the run ends; 0: never
  std::uint64_t seed = 0;
  std::uint32_t threads = 0;  // 0: one per core
  std::uint32_t micro_batch = 64;
  std::string engine = "local";
  std::string out;
  std::string loss;                      // empty: the model's own, else cross-entropy
  std::optional<std::uint32_t> context;  // bytes of a sample, if the data set is a text
  std::string model_file_sha256;         // of the TorchScript file; empty until resolved
  // A server may train what it knows no network for. It then has no data set, model and partition, nor
  // anything else that is about them.
  std::string parameters;         // the path of the first parameters; empty: there is a network
  std::string parameters_sha256;  // of that file; empty until resolved

  Method tally_method() const;
  /// True for plain SGD, to compare with: the step is the mean of what workers would have signed, in floats.
  bool full_precision() const { return method == "sgd"; }
  /// The method as people call it.
  std::string method_title() const;
  /// The tally of a whole model. REQUIRES: this is resolved.
  TallyOptions tally_options(std::uint64_t coordinates) const;
  std::vector<std::uint32_t> batch_sizes() const;
  std::vector<Absence> absences() const;
  Betas betas() const;
  std::size_t thread_count() const;
  std::filesystem::path data_folder() const;
  Dataset load_data() const;
  bool has_own_model() const;
  /// False if the run has only parameters, and its workers know how to train them.
  bool has_network() const { return parameters.empty(); }
  /// A hash of every setting that changes the result. Messages carry it, so that runs are not mixed up.
  std::uint64_t run_id() const;
};

/// The copy of the user's model file in a run's folder. It stands for the file in config.toml and in the
/// settings of workers, because a path means something on one machine only.
inline constexpr const char* kModelCopy = "network.pt";

/// The same for the file of first parameters: "parameters.npy" or "parameters.pt"; empty if there is none.
std::string parameters_copy(const TrainConfig& config);

/// One setting: its flag is --name with dashes, its key is name with underscores.
struct TrainOption {
  std::string name;  // with underscores
  std::string help;
  bool text;                                                  // a string in TOML, not a number
  bool fixes_result;                                          // --resume cannot change it
  std::function<std::string(const TrainConfig&)> get;         // an empty text: not set
  std::function<void(TrainConfig&, const std::string&)> set;  // throws ConfigError
};
const std::vector<TrainOption>& train_options();

/// An option and the text it is to be set to.
using GivenOption = std::pair<const TrainOption*, std::string>;

/// Clears what `given` replaces, before it is set: batches by any option that says something of them, what is
/// known of a file by another one, the defaults of a method by another one.
void make_room(const std::vector<GivenOption>& given, TrainConfig& config);

/// "--initial-rounds" for the option "initial_rounds".
std::string flag(const std::string& option);

/// Applies the keys of a TOML file to what is there, as make_room says. A relative path of a model or
/// parameters file starts from the folder of the TOML file. Throws ConfigError with file and line for a
/// syntax error, an unknown key (with the nearest right one) or a value that makes no sense.
void read_config(const std::filesystem::path& file, TrainConfig& config);
/// Sets the keys of a TOML text, which errors call `file`, and leaves all else as it is.
void parse_config(const std::string& text, const std::string& file, TrainConfig& config);

/// The text of config.toml: everything needed to repeat the run. REQUIRES: config is resolved.
std::string write_config(const TrainConfig& config);

/// The same for a server's workers: without the paths of the server's machine, which are not their business.
std::string settings_for_workers(TrainConfig config);

/// Works out what follows from other settings (the batches from the mode, the workers from the batches, the
/// default folder, the hash of a model or parameters file) and checks what depends on several options. Throws
/// ConfigError, also if such a file is not the one with the hash in the settings.
void resolve(TrainConfig& config);

/// Reads the config.toml of the run in `folder` and sets `out` to that folder. Throws ConfigError if there
/// is no run.
TrainConfig load_run(const std::filesystem::path& folder);

/// The first setting that `wanted` would change in the run `there`, with both values: "seed = 3, not 4". Only
/// settings that change the result count. None if there is none. REQUIRES: both are resolved.
std::optional<std::string> first_change(const TrainConfig& there, const TrainConfig& wanted);

/// The paper's batch sizes, 960 samples a round. REQUIRES: 1 <= mode <= 4.
std::string batches_of_mode(int mode);

/// The candidate that is spelled most like `word`, if it is similar enough to be what was meant.
std::optional<std::string> nearest(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace signvote
