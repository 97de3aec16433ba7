// The table of decoding errors, small.
#include "run/decoding.h"

#include <gtest/gtest.h>

#include <map>

#include "base/files.h"
#include "temporary_folder.h"

namespace signvote {
namespace {

const DecodingOptions kSmall{.coordinates = 3000, .rounds = {10, 40}, .measured = 10, .seed = 7};

void in_turn(std::size_t count, const std::function<void(std::size_t)>& body) {
  for (std::size_t i = 0; i < count; ++i) body(i);
}

std::vector<DecodingResult> measure(std::uint64_t until = 1000) {
  std::uint64_t seen = 0;
  return measure_decoding(kSmall, in_turn,
                          [&](const std::string&, std::uint64_t, std::uint64_t) { return ++seen < until; });
}

TEST(Decoding, compares_every_method_with_the_optimum) {
  const std::vector<DecodingResult> results = measure();
  ASSERT_EQ(results.size(), 6U * 2 * 5) << "channels, rounds, methods";
  std::map<std::string, double> late;
  for (const DecodingResult& result : results) {
    if (result.method == "optimum")
      EXPECT_EQ(result.over_optimum, 1) << result.channels;
    else
      EXPECT_GE(result.over_optimum, 0.97)
          << result.channels << ", " << result.method;  // on the same ballots
    if (result.channels == "12 at 0.40 and 3 liars at 0.80" && result.rounds == 40)
      late[result.method] = result.over_optimum;
  }
  EXPECT_EQ(late["it"], late["mv"]) << "its first 100 rounds are the majority's";
  EXPECT_LT(late["agree"], 1.05);
  EXPECT_GT(late["mv"], 3) << "liars cost a majority most";
}

TEST(Decoding, stops_when_it_is_told) { EXPECT_TRUE(measure(3).empty()); }

TEST(Decoding, writes_a_table) {
  const TemporaryFolder folder;
  write_decoding({{"two at 0.1", "optimum", 50, 0.01, 1}, {"two at 0.1", "mv", 50, 0.02, 2}}, kSmall,
                 folder.path());
  EXPECT_NE(read_text_file(folder.path() / "table.md").find("| two at 0.1 | 50 | 1.00 % | 2.000 |"),
            std::string::npos);
  EXPECT_EQ(
      read_text_file(folder.path() / "table.csv"),
      "channels,method,rounds,error,over_optimum\ntwo at 0.1,optimum,50,0.01,1\ntwo at 0.1,mv,50,0.02,2\n");
}

}  // namespace
}  // namespace signvote
