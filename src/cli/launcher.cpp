#include "cli/launcher.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "base/numbers.h"

namespace signvote::cli {
namespace {

/// What a process was started with; empty if that cannot be seen.
std::vector<std::string> words_of(const std::string& process) {
  std::ifstream file("/proc/" + process + "/cmdline");
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

/// A word as it can be pasted into a shell.
std::string shell_word(const std::string& word) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("_-+=./,:@%").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!word.empty() && std::ranges::all_of(word, is_plain)) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

/// What starts this program again, with its launcher: {"mpirun", "-n", "3", "signvote"}.
std::vector<std::string> words_before(const std::string& program) {
  if (launched_ranks() == 1) return {program};
  // mpirun on this machine is the parent: what it was told of hosts and cores is said again.
  std::vector<std::string> launcher = words_of(std::to_string(::getppid()));
  if (const auto end = std::ranges::find(launcher, program); end != launcher.end()) {
    launcher.erase(end + 1, launcher.end());
    return launcher;
  }
  const std::string ranks = std::to_string(launched_ranks());
  if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) return {"mpirun", "-n", ranks, program};
  return {"srun", "--mpi=pmix", "-n", ranks, program};
}

}  // namespace

int launched_ranks() {
  // Open MPI's mpirun, and Slurm's srun with PMIx or PMI2.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"})
    if (const char* text = std::getenv(name); text != nullptr) return parse_number<int>(text).value_or(1);
  return 1;
}

std::string typed_command() {
  std::vector<std::string> arguments = words_of("self");
  if (!arguments.empty()) arguments.erase(arguments.begin());
  return typed_command_with(arguments);
}

std::string typed_command_with(const std::vector<std::string>& arguments) {
  const std::vector<std::string> own = words_of("self");
  std::vector<std::string> words = words_before(own.empty() ? "signvote" : own.front());
  words.insert(words.end(), arguments.begin(), arguments.end());
  for (std::string& word : words) word = shell_word(word);
  return fmt::format("{}", fmt::join(words, " "));
}

}  // namespace signvote::cli
