#include "engine/grpc/allow_list.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <set>
#include <utility>

#include "base/files.h"
#include "signvote/error.h"

namespace signvote {

AllowList::AllowList(std::optional<std::filesystem::path> file, std::uint32_t workers)
    : file_(std::move(file)), workers_(workers) {
  if (!file_)
    for (std::uint32_t m = 0; m < workers; ++m) workers_by_name_[fmt::format("worker-{}", m)] = m;
  else
    reload();
}

std::optional<std::uint32_t> AllowList::find(const std::string& name) const {
  const auto found = workers_by_name_.find(name);
  if (found == workers_by_name_.end()) return std::nullopt;
  return found->second;
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

  std::map<std::string, std::uint32_t> by_name;
  std::set<std::uint32_t> taken;
  try {
    for (const auto& [key, value] : toml::parse(*text, file_->string())) {
      const auto where = fmt::format("{}:{}", file_->string(), value.source().begin.line);
      const auto worker = value.value_exact<std::int64_t>();
      if (!worker || *worker < 0 || *worker >= workers_)
        throw ConfigError(fmt::format("{}: '{}' must be the number of a worker, from 0 to {}", where,
                                      std::string(key.str()), workers_ - 1));
      if (!taken.insert(static_cast<std::uint32_t>(*worker)).second)
        throw ConfigError(fmt::format("{}: worker {} is given to two names", where, *worker));
      by_name[std::string(key.str())] = static_cast<std::uint32_t>(*worker);
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
