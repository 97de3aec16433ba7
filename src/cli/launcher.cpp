#include "cli/launcher.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <vector>

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

}  // namespace

int launched_ranks() {
  // Open MPI's mpirun, and Slurm's srun with PMIx or PMI2.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"})
    if (const char* text = std::getenv(name); text != nullptr) return parse_number<int>(text).value_or(1);
  return 1;
}

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

std::string program_as_typed() {
  const std::vector<std::string> own = words_of("self");
  const std::string program = own.empty() ? "signvote" : own.front();
  if (launched_ranks() == 1) return shell_word(program);
  // mpirun on this machine is the parent: what it was told of hosts and cores is said again.
  const std::vector<std::string> launcher = words_of(std::to_string(::getppid()));
  if (const auto end = std::ranges::find(launcher, program); end != launcher.end()) {
    std::string command;
    for (auto word = launcher.begin(); word <= end; ++word)
      command += (command.empty() ? "" : " ") + shell_word(*word);
    return command;
  }
  return fmt::format("{} -n {} {}", std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr ? "mpirun" : "srun",
                     launched_ranks(), shell_word(program));
}

}  // namespace signvote::cli
