// Runs other programs, without a shell, so that no file name is ever taken for a command. Also holds
// what concerns this process as a whole.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace signvote {

struct ProcessResult {
  int exit_code = 0;   // 128 + the signal's number if a signal ended it
  std::string output;  // standard output and standard error, in the order they were written
};

/// Runs argv[0], which is looked up on the PATH, in `working_folder`, with `input` as its standard
/// input, and waits until it ends. Throws DataError if the program cannot be started; if the program
/// fails, exit_code says so. Several threads may call this at once. REQUIRES: argv is not empty.
ProcessResult run_process(const std::vector<std::string>& argv, const std::filesystem::path& working_folder,
                          std::string_view input = {});

/// Allows this process to open as many files as its hard limit permits; the default is often fewer.
void raise_file_limit();

}  // namespace signvote
