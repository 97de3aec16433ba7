// Words that people bring along from other programs, and what signvote has for them.
#pragma once

#include <string>
#include <vector>

namespace signvote {

struct ForeignWord {
  std::vector<std::string> words;    // as keys are written: "batch_size"
  std::vector<std::string> options;  // what it is called here; the first that a command has counts
  std::string remark;                // more about it, or instead of it; may be empty
};

/// What is known of a flag or key, however it is written ("--Batch-Size", "batch_size"); null if nothing is.
const ForeignWord* foreign_word(const std::string& word);

}  // namespace signvote
