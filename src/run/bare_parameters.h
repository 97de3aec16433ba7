// A model of which only the parameters are known: what it computes, and on what data, is the business of the
// workers of a server. It hosts none, and cannot be tested.
#pragma once

#include "learn/parameters_file.h"
#include "run/config.h"
#include "run/schedule.h"
#include "run/trainee.h"

namespace signvote {

/// The file that the settings name. Throws DataError if it is another one by now, or cannot be used.
ParametersFile load_parameters(const TrainConfig& config);

class BareParameters final : public Trainee {
 public:
  explicit BareParameters(const TrainConfig& config);

  std::span<float> parameters() override { return file_.values; }
  ThreadPool& pool() override { return pool_; }
  void step(std::uint64_t round, const SignVector& verdict) override;
  std::optional<Evaluation> test() override { return std::nullopt; }
  void write_model(const std::filesystem::path& stem) override;
  std::vector<std::pair<std::string, std::size_t>> layers() const override { return file_.layers(); }
  void describe(nlohmann::ordered_json& summary) const override;

 private:
  Schedule step_of_;
  std::string sha256_;
  ThreadPool pool_;
  ParametersFile file_;
};

/// Keeps a copy of the file of first parameters in the run's folder, if there is one and no copy yet.
void keep_parameters_file(const TrainConfig& config);

}  // namespace signvote
