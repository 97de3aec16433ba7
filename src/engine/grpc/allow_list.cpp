#include "engine/grpc/allow_list.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <set>
#include <string_view>
#include <utility>

#include "base/files.h"
#include "signvote/error.h"

namespace signvote {
namespace {

constexpr std::string_view kKeyPrefix = "sha256:";

/// Of the form that Identity::key has.
bool is_key(std::string_view text) {
  return text.starts_with(kKeyPrefix) && text.size() == kKeyPrefix.size() + 64 &&
         text.find_first_not_of("0123456789abcdef", kKeyPrefix.size()) == std::string_view::npos;
}

/// NUMBER or { worker = NUMBER, key = "sha256:..." }; none if it is neither.
std::optional<AllowedWorker> parse_entry(const toml::node& value, std::uint32_t workers) {
  const toml::table* table = value.as_table();
  const toml::node* number = table != nullptr ? table->get("worker") : &value;
  const auto worker = number != nullptr ? number->value_exact<std::int64_t>() : std::nullopt;
  if (!worker || *worker < 0 || *worker >= workers) return std::nullopt;
  AllowedWorker entry{static_cast<std::uint32_t>(*worker), ""};
  if (table == nullptr) return entry;
  entry.key = (*table)["key"].value_exact<std::string>().value_or("");
  if (table->size() != 2 || !is_key(entry.key)) return std::nullopt;
  return entry;
}

}  // namespace

AllowList::AllowList(std::optional<std::filesystem::path> file, std::uint32_t workers)
    : file_(std::move(file)), workers_(workers) {
  if (!file_)
    for (std::uint32_t m = 0; m < workers; ++m) workers_by_name_[fmt::format("worker-{}", m)] = {m, ""};
  else
    reload();
}

std::optional<std::uint32_t> AllowList::find(const std::string& name) const {
  const auto found = workers_by_name_.find(name);
  if (found == workers_by_name_.end()) return std::nullopt;
  return found->second.worker;
}

bool AllowList::reload() {
  if (!file_) return false;
  std::optional<std::string> text;
  std::string problem;
  try {
    text = read_text_file(*file_);
  } catch (const DataError& error) {
    problem = error.what();
  }
  // The text is compared and not the file's time, because two changes can come within one tick of its
  // clock.
  if (looked_ && text == text_) return false;
  looked_ = true;
  text_ = text;
  if (!text) throw ConfigError(problem);

  std::map<std::string, AllowedWorker> by_name;
  std::set<std::uint32_t> taken;
  try {
    for (const auto& [key, value] : toml::parse(*text, file_->string())) {
      const auto where = fmt::format("{}:{}", file_->string(), value.source().begin.line);
      const auto entry = parse_entry(value, workers_);
      if (!entry)
        throw ConfigError(
            fmt::format("{}: '{}' must be the number of a worker, from 0 to {}, or with a key as signvote "
                        "certs prints it: {{ worker = NUMBER, key = \"sha256:...\" }}",
                        where, std::string(key.str()), workers_ - 1));
      if (!taken.insert(entry->worker).second)
        throw ConfigError(fmt::format("{}: worker {} is given to two names", where, entry->worker));
      by_name[std::string(key.str())] = *entry;
    }
  } catch (const toml::parse_error& error) {
    throw ConfigError(
        fmt::format("{}:{}: {}", file_->string(), error.source().begin.line, error.description()));
  }
  // An editor may empty a file before it writes it anew. That must not send all workers away.
  if (by_name.empty())
    throw ConfigError(fmt::format("{}: names nobody; write NAME = WORKER, a line each", file_->string()));
  const bool other = by_name != workers_by_name_;
  workers_by_name_ = std::move(by_name);
  return other;
}

}  // namespace signvote
