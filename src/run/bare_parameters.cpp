#include "run/bare_parameters.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/sha256.h"
#include "learn/model_file.h"
#include "signvote/error.h"

namespace signvote {
namespace {

std::vector<std::byte> read_parameters_file(const TrainConfig& config) {
  std::vector<std::byte> file = read_file(config.parameters);
  if (sha256_hex(file) != config.parameters_sha256)  // resolve has compared them, but that was earlier
    throw DataError(fmt::format("'{}' was changed while it was being read", config.parameters));
  return file;
}

}  // namespace

ParametersFile load_parameters(const TrainConfig& config) {
  return read_parameters(read_parameters_file(config), config.parameters);
}

BareParameters::BareParameters(const TrainConfig& config)
    : step_of_(config),
      sha256_(config.parameters_sha256),
      pool_(config.thread_count()),
      file_(load_parameters(config)) {}

void BareParameters::step(std::uint64_t round, const SignVector& verdict) {
  signvote::step(file_.values, verdict, step_of_(round));
}

void BareParameters::write_model(const std::filesystem::path& stem) {
  save_parameters(file_, stem.string() + (file_.is_npy() ? ".npy" : ".pt"));
}

void BareParameters::describe(nlohmann::ordered_json& summary) const {
  summary["parameters_sha256"] = sha256_;
}

void keep_parameters_file(const TrainConfig& config) {
  if (config.has_network()) return;
  const std::filesystem::path copy = std::filesystem::path(config.out) / parameters_copy(config);
  // A start that died may have left another run's.
  if (!std::filesystem::exists(copy) || sha256_hex(read_file(copy)) != config.parameters_sha256)
    write_file_atomically(copy, read_parameters_file(config));
}

}  // namespace signvote
