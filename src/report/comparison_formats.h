// A comparison of runs for people: a page that needs nothing but itself, Markdown, and CSV with a line for
// each run. Names and texts of runs come from anywhere and are escaped.
#pragma once

#include <array>
#include <string>

#include "report/comparison.h"

namespace signvote {

std::string comparison_html(const Comparison& comparison);
std::string comparison_markdown(const Comparison& comparison);
std::string comparison_csv(const Comparison& comparison);

/// What the formats say in the same words: of the columns on workers, and of repeating a run.
struct Explained {
  const char* word;
  const char* text;
};
inline constexpr std::array<Explained, 4> kAboutWorkers = {{
    {"p",
     "Its error rate: how often the vote found its signs wrong, as the run had learnt it by its last save."},
    {"weight",
     "ln((1 - p)/p), by which its ballot counts. It is 0 for one that guesses (p = 0.5), large for one "
     "that is nearly always right, and below 0 for one that is wrong more often than right, whose signs "
     "are then turned round."},
    {"say", "Its share of all weights: how much of the vote is its."},
    {"mark",
     "\"liar?\": wrong more often than right. \"guesses\": its weight is about 0. \"new\": too young for "
     "a weight. A mark is a hint, not a proof, because small batches and unusual data look like guessing "
     "too."},
}};
inline constexpr const char* kAboutRepeating =
    "The SHA-256 is a fingerprint of the model's parameters. On the same type of CPU, with the same "
    "libraries and this version of signvote, the command ends with the same fingerprint. Another "
    "fingerprint means another model.";

}  // namespace signvote
