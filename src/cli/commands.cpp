#include "cli/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "base/files.h"
#include "base/sha256.h"
#include "learn/dataset.h"
#include "learn/evaluate.h"
#include "learn/model_file.h"
#include "report/progress.h"
#include "engine/group.h"
#include "run/mpi.h"
#include "run/record.h"
#include "run/train.h"
#include "signvote/error.h"

namespace signvote::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::atomic<bool> interrupted = false;  // the one thing a signal handler can reach

void remark(const std::string& line) { fmt::print(stderr, "{}\n", line); }

/// Runs `work` with its progress on stderr and Ctrl-C turned into a request to stop.
auto with_progress(const auto& work) {
  catch_interrupts();
  Progress progress(stderr);
  TrainHooks hooks;
  hooks.stop = &interrupted;
  hooks.warn = [&progress](const std::string& line) { progress.note(line); };
  hooks.progress = [&progress](const ProgressState& state) { progress.update(state); };
  return work(hooks);
}

Dataset load(const TrainConfig& config) { return load_dataset(config.dataset, config.data_folder()); }

/// Ranks that do not agree on when to test, save and end would wait for each other for ever.
void compare_settings(const TrainConfig& config, const Group& group) {
  std::string mine;
  for (const TrainOption& option : train_options())
    if (option.name != "data" && option.name != "threads" && option.name != "out")
      mine += fmt::format("{} = '{}'\n", option.name, option.get(config));
  std::istringstream lines(mine);
  std::istringstream lines_of_rank0(group.of_leader(mine));
  on_all_ranks(group, [&] {
    for (std::string line, expected; std::getline(lines, line) && std::getline(lines_of_rank0, expected);)
      if (line != expected)
        throw ConfigError(
            fmt::format("has other settings than rank 0: {} and not {}; only --data and --threads may differ",
                        line, expected));
  });
}

int train_in_group(const TrainConfig& config, bool resume, const Group& group, const EnginePlan& plan) {
  Dataset dataset;
  on_all_ranks(group, [&] {
    const json summary = resume ? read_summary(config.out) : json();
    if (!summary.is_null() && summary.value("rounds", std::uint64_t{0}) == config.rounds)
      throw ConfigError(
          fmt::format("'{}' has finished its {} rounds; give --rounds with a larger number to go on",
                      config.out, config.rounds));
    dataset = load(config);
    check_batches(config, dataset);
  });
  compare_settings(config, group);
  on_all_ranks(group, [&] {  // when nothing is wrong on any: a run that cannot begin leaves no folder
    if (!resume && group.leads()) create_run(config);
  });
  const TrainResult result = with_progress([&](TrainHooks hooks) {
    hooks.started = [&config, &group] {
      remark(fmt::format("{}: {} on {} with {} workers{} (batches {}), {} rounds", config.out,
                         config.method == "it" ? "IT-signSGD" : "signSGD-MV", config.dataset, *config.workers,
                         group.size() > 1 ? fmt::format(" on {} ranks", group.size()) : "",
                         config.batches, config.rounds));
    };
    return train(config, dataset, hooks, plan, group);
  });
  if (!result.finished) {
    if (group.leads())
      remark(fmt::format("stopped and saved after round {} of {}; go on with: signvote train --resume '{}'",
                         result.rounds, config.rounds, config.out));
    return kInterrupted;
  }
  if (group.leads()) fmt::print("{}run folder      {}\n", format_summary(read_summary(config.out)), config.out);
  return 0;
}

}  // namespace

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

void say(const std::string& problem) {
  fmt::print(stderr, "signvote: {}\n", problem);
  std::fflush(stderr);
}

int launched_ranks() {
  const char* text = std::getenv("OMPI_COMM_WORLD_SIZE");
  return text != nullptr ? std::atoi(text) : 1;
}

const std::atomic<bool>& stop_requested() { return interrupted; }

int run_train(TrainConfig config, bool resume) {
  if (config.engine == "grpc")
    throw ConfigError(
        "--engine grpc is started in parts, see: signvote server --help, signvote worker --help");
  if (config.engine != "mpi" && launched_ranks() > 1)
    throw ConfigError(
        fmt::format("{} processes were started as one job, but --engine is {}; add --engine mpi",
                    launched_ranks(), config.engine));
  if (config.engine != "mpi") return train_in_group(config, resume, Group(), local_engine(config));
  const MpiSession session;
  try {
    EnginePlan plan;
    on_all_ranks(session, [&] { plan = mpi_engine(config, session, [] { return interrupted.load(); }, remark); });
    return train_in_group(config, resume, session, plan);
  } catch (const SharedError& error) {
    if (session.leads()) say(error.what());
    session.first_problem("");  // all meet again: whoever ends before rank 0 has said it may end rank 0 too
    return error.is_usage ? 2 : 1;
  } catch (const std::exception&) {
    say(fmt::format("rank {}: {}", session.rank(), describe_current_exception()));
    session.abort(1);
  }
}

int run_figure1(const Figure1Options& options) {
  const Dataset dataset = load(options.base);
  const bool finished =
      with_progress([&](const TrainHooks& hooks) { return reproduce_figure1(options, dataset, hooks); });
  if (!finished) {
    remark("stopped and saved; the same command goes on from here");
    return kInterrupted;
  }
  fmt::print("{}\npicture  {}\nnumbers  {}\n", format_figure1(read_summary(options.out)),
             (options.out / "figure1.png").string(), (options.out / "figure1.csv").string());
  return 0;
}

int run_fetch(FetchOptions options) {
  if (options.into.empty()) options.into = dataset_cache_folder(options.name);
  options.say = remark;
  const bool fetched = fetch_dataset(options);
  fmt::print("{} is {}in {}\n", options.name, fetched ? "" : "already ", options.into.string());
  return 0;
}

int run_eval(const EvalOptions& options) {
  TrainConfig config;
  fs::path file = options.model;
  if (fs::is_directory(options.model)) {
    config = load_run(options.model);
    file = options.model / "model.pt";
    if (!fs::exists(file))
      throw DataError(fmt::format(
          "'{0}' has no model.pt: the run is not finished; go on with: signvote train --resume '{0}'",
          options.model.string()));
  } else {
    const ModelKind kind = identify_model(file);
    config.model = kind.model;
    config.dataset = kind.dataset;
  }
  if (!options.data.empty()) config.data = options.data;
  const Dataset dataset = load(config);
  use_one_torch_thread();
  ThreadPool pool(config.thread_count(), use_one_torch_thread);
  Replicas replicas(config.model, dataset.train, dataset.classes, 0, pool.size());
  for (std::size_t i = 0; i < replicas.count(); ++i) load_model(replicas.net(i), file);
  const Evaluation evaluation = evaluate(dataset, replicas, pool);
  const std::string sha256 = sha256_hex(std::as_bytes(replicas.parameters()));
  if (options.json) {
    json rows = json::array();
    for (std::size_t i = 0; i < evaluation.classes; ++i)
      rows.push_back(std::vector<std::uint64_t>(
          evaluation.confusion.begin() + static_cast<std::ptrdiff_t>(i * evaluation.classes),
          evaluation.confusion.begin() + static_cast<std::ptrdiff_t>((i + 1) * evaluation.classes)));
    fmt::print("{}\n", nlohmann::ordered_json{{"model", config.model},
                                              {"dataset", config.dataset},
                                              {"samples", evaluation.samples},
                                              {"test_accuracy", evaluation.accuracy()},
                                              {"test_loss", evaluation.loss},
                                              {"model_sha256", sha256},
                                              {"confusion", rows}}
                           .dump(2));
    return 0;
  }
  fmt::print(
      "{} on {}'s test set: accuracy {:.2f} % ({} of {}), loss {:.4f}\nmodel sha256 {}\n\ntrue \\ "
      "predicted\n    ",
      config.model, config.dataset, 100 * evaluation.accuracy(), evaluation.correct(), evaluation.samples,
      evaluation.loss, sha256);
  for (std::size_t j = 0; j < evaluation.classes; ++j) fmt::print("{:>6}", j);
  for (std::size_t i = 0; i < evaluation.classes; ++i) {
    fmt::print("\n{:>4}", i);
    for (std::size_t j = 0; j < evaluation.classes; ++j)
      fmt::print("{:>6}", evaluation.confusion[i * evaluation.classes + j]);
  }
  fmt::print("\n");
  return 0;
}

}  // namespace signvote::cli
