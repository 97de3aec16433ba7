// Who holds which samples: what each rule promises, on random labels.
#include "learn/partition.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "signvote/error.h"

namespace signvote {
namespace {

using Labels = std::vector<std::int64_t>;
using Shares = std::vector<std::vector<std::uint32_t>>;

constexpr std::size_t kClasses = 10;
constexpr const char* kRules[] = {"iid",       "shared",        "labels:1",     "labels:3",
                                  "labels:10", "dirichlet:0.1", "dirichlet:100"};

Labels arbitrary_labels() {
  const auto count = *rc::gen::inRange<std::size_t>(0, 400);
  return *rc::gen::container<Labels>(count, rc::gen::inRange<std::int64_t>(0, kClasses));
}

std::size_t arbitrary_workers() { return *rc::gen::inRange<std::size_t>(1, 25); }

// Equally many of each label, in turn.
Labels even_labels(std::size_t count) {
  Labels labels(count);
  for (std::size_t i = 0; i < count; ++i) labels[i] = static_cast<std::int64_t>(i % kClasses);
  return labels;
}

std::set<int> labels_in(const std::vector<std::uint32_t>& share, const Labels& labels) {
  std::set<int> found;
  for (const std::uint32_t i : share) found.insert(labels.at(i));
  return found;
}

// All samples that somebody holds. Fails if one is held twice, or a share is not ascending.
std::set<std::uint32_t> disjoint_union(const Shares& shares, std::size_t samples) {
  std::set<std::uint32_t> all;
  for (const auto& share : shares) {
    RC_ASSERT(std::is_sorted(share.begin(), share.end()));
    for (const std::uint32_t i : share) {
      RC_ASSERT(i < samples);
      RC_ASSERT(all.insert(i).second);
    }
  }
  return all;
}

// In nats, of the labels a worker holds; the mean over the workers.
double mean_entropy(const Shares& shares, const Labels& labels) {
  double sum = 0;
  for (const auto& share : shares) {
    std::vector<double> counts(kClasses);
    for (const std::uint32_t i : share) ++counts[labels[i]];
    for (const double count : counts)
      if (count > 0)
        sum -=
            count / static_cast<double>(share.size()) * std::log(count / static_cast<double>(share.size()));
  }
  return sum / static_cast<double>(shares.size());
}

TEST(Partition, iid_is_disjoint_covers_all_and_is_even) {
  EXPECT_TRUE(rc::check("iid", [](std::uint64_t seed) {
    const Labels labels = arbitrary_labels();
    const std::size_t workers = arbitrary_workers();
    const Shares shares = partition("iid", labels.size(), labels, kClasses, workers, seed);
    RC_ASSERT(shares.size() == workers);
    RC_ASSERT(disjoint_union(shares, labels.size()).size() == labels.size());
    for (const auto& share : shares) {
      RC_ASSERT(share.size() >= labels.size() / workers);
      RC_ASSERT(share.size() <= (labels.size() + workers - 1) / workers);
    }
  }));
}

// A share of neighbours would hold few labels of a sorted data set.
TEST(Partition, iid_shuffles_first) {
  Labels labels = even_labels(3000);
  std::sort(labels.begin(), labels.end());
  for (const auto& share : partition("iid", labels.size(), labels, kClasses, 10, 1))
    EXPECT_EQ(labels_in(share, labels).size(), kClasses);
}

TEST(Partition, shared_gives_all_to_each) {
  EXPECT_TRUE(rc::check("shared", [](std::uint64_t seed) {
    const Labels labels = arbitrary_labels();
    const std::size_t workers = arbitrary_workers();
    const Shares shares = partition("shared", labels.size(), labels, kClasses, workers, seed);
    RC_ASSERT(shares.size() == workers);
    for (const auto& share : shares) {
      RC_ASSERT(share.size() == labels.size());
      for (std::uint32_t i = 0; i < share.size(); ++i) RC_ASSERT(share[i] == i);
    }
  }));
}

TEST(Partition, few_labels_a_worker_and_those_wholly) {
  EXPECT_TRUE(rc::check("labels:K", [](std::uint64_t seed) {
    const Labels labels = arbitrary_labels();
    const std::size_t workers = arbitrary_workers();
    const auto k = *rc::gen::inRange<std::size_t>(1, kClasses + 1);
    const Shares shares =
        partition("labels:" + std::to_string(k), labels.size(), labels, kClasses, workers, seed);
    RC_ASSERT(shares.size() == workers);
    const std::set<std::uint32_t> held = disjoint_union(shares, labels.size());
    std::set<int> held_labels;
    for (const auto& share : shares) {
      RC_ASSERT(labels_in(share, labels).size() <= k);
      held_labels.merge(labels_in(share, labels));
    }
    for (std::uint32_t i = 0; i < labels.size(); ++i)
      RC_ASSERT(held.contains(i) == held_labels.contains(labels[i]));
    const std::set<int> all(labels.begin(), labels.end());
    if (workers * k >= kClasses) RC_ASSERT(held_labels == all);
  }));
}

TEST(Partition, few_labels_are_exactly_k_and_dealt_evenly) {
  const Labels labels = even_labels(5000);
  for (std::size_t k = 1; k <= kClasses; ++k)
    for (const std::size_t workers : {1U, 3U, 10U, 15U}) {
      const Shares shares =
          partition("labels:" + std::to_string(k), labels.size(), labels, kClasses, workers, 1);
      for (const auto& share : shares) EXPECT_EQ(labels_in(share, labels).size(), k) << workers << " workers";
      if (workers == kClasses) {
        for (const auto& share : shares) EXPECT_NEAR(static_cast<double>(share.size()), 500, k);
      }
    }
}

TEST(Partition, dirichlet_is_disjoint_and_equal) {
  EXPECT_TRUE(rc::check("dirichlet:A", [](std::uint64_t seed) {
    const Labels labels = arbitrary_labels();
    const std::size_t workers = arbitrary_workers();
    const auto a = *rc::gen::element<std::string>("1e-300", "0.001", "0.1", "1", "100", "1e6");
    const Shares shares = partition("dirichlet:" + a, labels.size(), labels, kClasses, workers, seed);
    RC_ASSERT(shares.size() == workers);
    disjoint_union(shares, labels.size());
    for (const auto& share : shares) RC_ASSERT(share.size() == labels.size() / workers);
  }));
}

TEST(Partition, dirichlet_goes_from_few_labels_to_all) {
  const Labels labels = even_labels(10'000);
  double before = 0;
  for (const char* a : {"0.01", "0.1", "1", "10", "1000"}) {
    double entropy = 0;
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      Shares shares = partition(std::string("dirichlet:") + a, labels.size(), labels, kClasses, 40, seed);
      shares.resize(20);  // the last workers take what the pools still have
      entropy += mean_entropy(shares, labels) / 5;
    }
    EXPECT_GT(entropy, before + 0.01) << "A = " << a;
    before = entropy;
  }
  EXPECT_GT(before, 0.95 * std::log(kClasses));
  EXPECT_LT(mean_entropy(partition("dirichlet:0.01", labels.size(), labels, kClasses, 40, 0), labels), 0.6);
}

TEST(Partition, a_function_of_its_arguments) {
  const Labels labels = even_labels(600);
  for (const char* rule : kRules) {
    const Shares shares = partition(rule, labels.size(), labels, kClasses, 7, 5);
    EXPECT_EQ(partition(rule, labels.size(), labels, kClasses, 7, 5), shares) << rule;
    if (std::string(rule) != "shared") {
      EXPECT_NE(partition(rule, labels.size(), labels, kClasses, 7, 6), shares) << rule;
    }
  }
}

TEST(Partition, one_worker_holds_all) {
  const Labels labels = even_labels(100);
  for (const char* rule : {"iid", "shared", "labels:10", "dirichlet:1"})
    EXPECT_EQ(partition(rule, labels.size(), labels, kClasses, 1, 3)[0].size(), 100U) << rule;
}

std::string refusal(const std::string& rule) {
  try {
    check_partition_rule(rule);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

// The message quotes the rule and goes on with what is allowed.
bool refused(const std::string& rule, const std::string& allowed) {
  return refusal(rule).find("is '" + rule + "'; " + allowed) != std::string::npos;
}

TEST(Partition, other_rules_are_refused_with_what_is_allowed) {
  for (const char* rule : kRules) EXPECT_EQ(refusal(rule), "accepted") << rule;
  for (const char* rule : {"", "IID", "iid ", "iid:2", "label:2", "labels", "dirichlet", ":", "random"})
    EXPECT_TRUE(refused(rule, "take iid, shared, labels:K or dirichlet:A")) << refusal(rule);
  for (const std::string number : {"", "0", "-1", "2.5", "two", "2x", " 2", "nan", "0x2"})
    EXPECT_TRUE(refused("labels:" + number, "K must be a whole number, 1 or more")) << number;
  for (const char* rule : {"labels:11", "labels:1e300"})  // there are ten classes
    EXPECT_THROW(partition(rule, 10, even_labels(10), kClasses, 2, 0), ConfigError) << rule;
  for (const std::string number : {"", "0", "-0.5", "a", "1 ", "1,5", "nan", "inf", "1e7", "1e-400", "1e400"})
    EXPECT_TRUE(refused("dirichlet:" + number, "A must be a number above 0 and up to 1e6")) << number;
  EXPECT_THROW(partition("random", 10, even_labels(10), kClasses, 2, 0), ConfigError);
  for (const char* rule : {"labels:2", "dirichlet:1"})
    EXPECT_THROW(partition(rule, 10, {}, 0, 2, 0), ConfigError) << "without classes: " << rule;
  EXPECT_EQ(partition("iid", 10, {}, 0, 2, 0)[1].size(), 5U);
  EXPECT_TRUE(rc::check("anything at all is accepted or refused by name", [](const std::string& tail) {
    const std::string rule = *rc::gen::element<std::string>("", "labels:", "dirichlet:") + tail;
    RC_ASSERT(refusal(rule) == "accepted" || refused(rule, ""));
  }));
}

}  // namespace
}  // namespace signvote
