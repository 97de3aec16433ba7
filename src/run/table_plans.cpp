#include "run/table_plans.h"

#include <fmt/format.h>

#include <algorithm>

#include "run/config.h"
#include "signvote/error.h"

namespace signvote {

NamedSettings method_settings(const std::string& name) {
  TrainConfig config;
  if (name != kOwnDefaults) {
    const auto& options = train_options();
    std::ranges::find(options, std::string("method"), &TrainOption::name)->set(config, name);  // checks it
    std::string toml = fmt::format("method = '{}'\n", name);
    if (config.full_precision()) {  // a step for signs is none for gradients
      resolve(config);
      toml += fmt::format("step = {}\n", *config.step);
    }
    return {name, toml};
  }
  resolve(config);
  std::string toml;
  for (const TrainOption& option : train_options())
    for (const char* own : {"method", "sign_of", "step", "step_schedule", "warmup_rounds", "initial_rounds",
                            "prior_rounds", "forget"})
      if (option.name == own)
        toml += fmt::format(fmt::runtime(option.text ? "{} = '{}'\n" : "{} = {}\n"), own, option.get(config));
  return {name, toml};
}

const std::vector<TablePlan>& table_plans() {
  static const std::vector<NamedSettings> modes = {{"mode 1", "batch_mode = 1"},
                                                   {"mode 2", "batch_mode = 2"},
                                                   {"mode 3", "batch_mode = 3"},
                                                   {"mode 4", "batch_mode = 4"}};
  static const std::vector<TablePlan> plans = {
      {"modes",
       "The defaults beside other methods, in the paper's four modes",
       "rounds = 1000",
       modes,
       {method_settings("mv"), method_settings("it"), method_settings("agree"), method_settings("sgd")}},
      {"weights",
       "Ways to weigh votes, on momentum and on gradients",
       "rounds = 400",
       {{"mode 4 momentum", "batch_mode = 4"},
        {"mode 2 gradient", "batch_mode = 2\nsign_of = 'gradient'"},
        {"mode 3 gradient", "batch_mode = 3\nsign_of = 'gradient'"},
        {"mode 4 gradient", "batch_mode = 4\nsign_of = 'gradient'"}},
       {method_settings("mv"), method_settings("it"), method_settings("shrink"), method_settings("agree"),
        method_settings("oracle")}},
      {"attacks",
       "Workers that lie, 15 of batch 64",
       "rounds = 400\nbatch_mode = 1",
       {{"no attack", ""},
        {"flip:6", "attack = 'flip:6'"},
        {"late:3:100", "attack = 'late:3:100'"},
        {"noise:6:1", "attack = 'noise:6:1'"},
        {"noise:6:10", "attack = 'noise:6:10'"},
        {"zero:6", "attack = 'zero:6'"},
        {"collude:3", "attack = 'collude:3'"},
        {"collude:5", "attack = 'collude:5'"},
        {"collude:7", "attack = 'collude:7'"}},
       {method_settings("mv"), method_settings("agree")}},
      {"sparse",
       "Workers that vote on a share of the coordinates, mode 4",
       "rounds = 400\nbatch_mode = 4",
       {{"dense", ""},
        {"top 0.1", "sparsity = '0.1'"},
        {"top 0.01", "sparsity = '0.01'"},
        {"random 0.1", "sparsity = 'random:0.1'"}},
       {method_settings("mv"), method_settings("agree")}},
      {"noniid",
       "Workers with different classes",
       "rounds = 400\npartition = 'dirichlet:0.3'",
       {{"mode 1", "batch_mode = 1"}, {"mode 4", "batch_mode = 4"}},
       {method_settings("mv"), method_settings("agree"), method_settings("sgd")}},
      {"schedules",
       "Steps over the rounds, mode 4",
       "rounds = 400\nbatch_mode = 4",
       {{"constant 1e-3", "step_schedule = 'constant'\nstep = 1e-3"},
        {"constant 4e-4", "step_schedule = 'constant'"},
        {"linear 4e-4", "step_schedule = 'linear'"},
        {"cosine 4e-4", "step_schedule = 'cosine'"},
        {"wsd 4e-4", "step_schedule = 'wsd'"}},
       {method_settings("mv"), method_settings("agree")}},
  };
  return plans;
}

}  // namespace signvote
