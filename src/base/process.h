// Running another program without a shell, so that no file name is ever read as a command; and this one.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace signvote {

struct ProcessResult {
  int exit_code = 0;   // 128 + the signal's number if a signal ended it
  std::string output;  // standard output and standard error, as they came
};

/// Runs argv[0], found on the PATH, in `working_folder`, with `input` as its standard input, and
/// waits for its end. A failing program is a result, not an error; throws DataError if it cannot be
/// started. May be called by several threads at once. REQUIRES: argv is not empty.
ProcessResult run_process(const std::vector<std::string>& argv, const std::filesystem::path& working_folder,
                          std::string_view input = {});

/// As many open files as this process may have, where by default it has fewer.
void raise_file_limit();

}  // namespace signvote
