// Settings as a TOML file, and the settings of a run's folder.
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/files.h"
#include "learn/dataset.h"
#include "run/config.h"
#include "run/foreign_words.h"
#include "signvote/error.h"

namespace signvote {
namespace {

// Of a string or a number.
std::string toml_text(const toml::node& value) {
  if (const auto* text = value.as_string()) return text->get();
  if (const auto* whole = value.as_integer()) return fmt::format("{}", whole->get());
  return fmt::format("{}", value.as_floating_point()->get());
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

// A key of a settings file, and where it stands there.
struct GivenKey {
  GivenOption given;
  std::string where;
};

void set(const GivenKey& key, TrainConfig& config) {
  const auto& [option, value] = key.given;
  try {
    option->set(config, value);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}: {}: {}", key.where, option->name, error.what()));
  }
}

/// All keys of a file, in its order. Their values make sense, each by itself.
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
  TrainConfig trial;
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
    set(keys.back(), trial);
  }
  return keys;
}

}  // namespace

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

void read_config(const std::filesystem::path& file, TrainConfig& config) {
  const std::string model = std::exchange(config.model, "");
  const std::string parameters = std::exchange(config.parameters, "");
  const std::vector<GivenKey> keys = keys_of(read_text_file(file), file.string());
  std::vector<GivenOption> given;
  for (const GivenKey& key : keys) given.push_back(key.given);
  make_room(given, config);
  for (const GivenKey& key : keys) set(key, config);
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
  for (const GivenKey& key : keys_of(text, file)) set(key, config);
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

}  // namespace signvote
