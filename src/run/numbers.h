// A model of which only the parameters are known: what it computes, on what data, is the business of the
// workers of a server. It hosts none, and cannot be tested.
#pragma once

#include "learn/parameters_file.h"
#include "run/config.h"
#include "run/schedule.h"
#include "run/trainee.h"

namespace signvote {

class Numbers final : public Trainee {
 public:
  /// Throws DataError if the file is not the one that the settings name, or cannot be used.
  explicit Numbers(const TrainConfig& config);

  std::span<float> parameters() override { return file_.values; }
  ThreadPool& pool() override { return pool_; }
  void vote(std::uint64_t, const Vote&) override {}
  void step(std::uint64_t round, const SignVector& verdict) override;
  const std::vector<std::vector<float>>& memories() const override { return memories_; }
  void set_memories(std::vector<std::vector<float>>) override {}
  double ballot_seconds() const override { return 0; }
  std::optional<Evaluation> test() override { return std::nullopt; }
  void write_model(const std::filesystem::path& folder) override;
  void describe(nlohmann::ordered_json& summary) const override;

  /// Writes the parameters in the form in which they were given.
  void save(const std::filesystem::path& file) const;

 private:
  Schedule step_of_;
  std::string sha256_;
  ThreadPool pool_;
  ParametersFile file_;
  std::vector<std::vector<float>> memories_;  // by worker: of none
};

/// Keeps a copy of the file of first parameters in the run's folder, if there is one and no copy yet.
void keep_parameters_file(const TrainConfig& config);

}  // namespace signvote
