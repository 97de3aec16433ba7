// Gradients against plain torch on the same samples at once; the same bits on any number of threads.
#include "learn/gradients.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <utility>

namespace signvote {
namespace {

using Vector = std::vector<float>;

constexpr std::uint64_t kModelSeed = 3;

Dataset small_dataset(std::size_t channels, std::size_t side, std::size_t count = 300) {
  Dataset dataset;
  dataset.classes = 10;
  dataset.mean = {0.5F, 0.5F, 0.5F};
  dataset.deviation = {0.25F, 0.25F, 0.25F};
  Samples& train = dataset.train;
  train.shape = {channels, side, side};
  std::mt19937 source(1);
  for (std::size_t i = 0; i < count; ++i) {
    train.labels.push_back(static_cast<std::uint8_t>(source() % 10));
    for (std::size_t p = 0; p < elements_of(train.shape); ++p)
      train.bytes.push_back(static_cast<std::uint8_t>(source()));
  }
  return dataset;
}

// Each worker holds everything.
GradientOptions options_for(const Dataset& dataset, const std::vector<std::uint32_t>& batches,
                            std::size_t micro_batch) {
  GradientOptions options;
  options.batches = batches;
  std::vector<std::uint32_t> all(dataset.train.count());
  std::iota(all.begin(), all.end(), 0U);
  options.shares.assign(batches.size(), all);
  options.hosted.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(batches.size()));
  options.micro_batch = micro_batch;
  options.seed = 11;
  return options;
}

// A pool of `threads`, its replicas and the gradients computed on them.
struct Stage {
  const Dataset& dataset;
  std::string model;
  ThreadPool pool;
  Replicas replicas;
  Gradients gradients;

  Stage(const Dataset& dataset_, const std::string& model_, const GradientOptions& options,
        std::size_t threads)
      : dataset(dataset_),
        model(model_),
        pool(threads, use_one_torch_thread),
        replicas(model_, dataset_.train.shape, dataset_.classes, kModelSeed, threads),
        gradients(dataset_, options, replicas, pool) {}

  struct Round {
    std::vector<double> losses;  // by worker, as the gradients
    std::vector<Vector> gradients;
    bool operator==(const Round&) const = default;
  };
  Round compute(std::size_t workers, std::uint64_t round) {
    Round result{std::vector<double>(workers), std::vector<Vector>(workers)};
    std::vector<std::atomic<int>> reports(workers);
    gradients.compute(round, [&](std::uint32_t worker, std::span<const float> gradient, double loss) {
      ++reports.at(worker);
      result.losses[worker] = loss;
      result.gradients[worker].assign(gradient.begin(), gradient.end());
    });
    for (std::size_t m = 0; m < workers; ++m) EXPECT_EQ(reports[m], 1) << "reports of worker " << m;
    return result;
  }

  // Equation 2 word by word: the gradient of the mean loss over the samples, and that loss.
  std::pair<Vector, double> plain(std::uint32_t worker, std::uint64_t round) const {
    BatchReader reader(dataset, dataset.train);
    const Batch batch = reader.read(gradients.draw(worker, round));
    const auto net = make_net(model, dataset.train.shape, dataset.classes, kModelSeed);
    net->train();
    const torch::Tensor loss = torch::nn::functional::cross_entropy(net->forward(batch.x), batch.y);
    loss.backward();
    Vector gradient;
    for (const auto& parameter : net->parameters()) {
      const torch::Tensor flat = parameter.grad().contiguous();
      gradient.insert(gradient.end(), flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
    }
    return {gradient, loss.item<double>()};
  }
};

// `sum` is `mean` times a positive factor, the batch size: relative to the length, and in the signs of
// all that rounding cannot reach.
void expect_multiple(const Vector& sum, const Vector& mean, double factor) {
  ASSERT_EQ(sum.size(), mean.size());
  double off = 0;
  double length = 0;
  double largest = 0;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    off += std::pow(sum[i] - factor * mean[i], 2);
    length += std::pow(factor * mean[i], 2);
    largest = std::max(largest, std::abs(double{mean[i]}));
  }
  EXPECT_GT(length, 0);
  EXPECT_LT(std::sqrt(off / length), 1e-4);
  std::size_t wrong_signs = 0;
  for (std::size_t i = 0; i < sum.size(); ++i)
    wrong_signs += std::abs(mean[i]) > 1e-5 * largest && (sum[i] > 0) != (mean[i] > 0) ? 1U : 0U;
  EXPECT_EQ(wrong_signs, 0U);
}

class GradientsTest : public testing::Test {
 protected:
  GradientsTest() { use_one_torch_thread(); }
};

TEST_F(GradientsTest, like_equation_2_in_micro_batches) {
  const Dataset dataset = small_dataset(1, 16);
  const std::vector<std::uint32_t> batches = {100, 1, 16, 17, 64, 3};
  Stage stage(dataset, "cnn", options_for(dataset, batches, 16), 2);
  for (const std::uint64_t round : {0U, 1U}) {
    const auto computed = stage.compute(batches.size(), round);
    for (std::uint32_t m = 0; m < batches.size(); ++m) {
      SCOPED_TRACE("worker " + std::to_string(m));
      const auto [mean, mean_loss] = stage.plain(m, round);
      expect_multiple(computed.gradients[m], mean, batches[m]);
      EXPECT_NEAR(computed.losses[m], mean_loss * batches[m], 1e-4 * batches[m]);
    }
  }
}

TEST_F(GradientsTest, a_workers_gradient_does_not_depend_on_who_else_is_hosted) {
  const Dataset dataset = small_dataset(1, 16);
  GradientOptions options = options_for(dataset, {20, 3, 9}, 8);
  Stage all(dataset, "cnn", options, 2);
  const auto expected = all.compute(3, 5);
  options.hosted = {0, 2};
  Stage some(dataset, "cnn", options, 2);
  std::atomic<int> reports = 0;
  some.gradients.compute(5, [&](std::uint32_t worker, std::span<const float> gradient, double loss) {
    ++reports;
    EXPECT_NE(worker, 1U);
    EXPECT_EQ(loss, expected.losses[worker]);
    EXPECT_TRUE(std::ranges::equal(gradient, expected.gradients[worker])) << "worker " << worker;
  });
  EXPECT_EQ(reports, 2);
}

TEST_F(GradientsTest, a_changed_batch_is_as_if_it_had_always_been_so) {
  const Dataset dataset = small_dataset(1, 16);
  Stage changed(dataset, "cnn", options_for(dataset, {20, 3}, 8), 2);
  const auto before = changed.compute(2, 5);
  for (const std::uint32_t batch : {41U, 8U, 1U}) {
    changed.gradients.set_batch(0, batch);
    Stage always(dataset, "cnn", options_for(dataset, {batch, 3}, 8), 2);
    EXPECT_TRUE(changed.compute(2, 5) == always.compute(2, 5)) << "a batch of " << batch;
  }
  changed.gradients.set_batch(0, 20);
  EXPECT_TRUE(changed.compute(2, 5) == before);
}

TEST_F(GradientsTest, moved_images_are_used) {
  Dataset dataset = small_dataset(3, 16);
  dataset.augment = true;
  Stage stage(dataset, "cnn", options_for(dataset, {40, 5}, 16), 2);
  const auto computed = stage.compute(2, 7);
  expect_multiple(computed.gradients[0], stage.plain(0, 7).first, 40);
  expect_multiple(computed.gradients[1], stage.plain(1, 7).first, 5);
}

TEST_F(GradientsTest, the_same_bits_on_any_number_of_threads) {
  const Dataset dataset = small_dataset(1, 16);
  const std::vector<std::uint32_t> batches = {5, 90, 1, 64, 33, 2, 2};
  const GradientOptions options = options_for(dataset, batches, 8);
  Stage alone(dataset, "cnn", options, 1);
  for (const std::size_t threads : {2U, 3U, 4U}) {
    Stage together(dataset, "cnn", options, threads);
    for (const std::uint64_t round : {0U, 1U, 2U})
      EXPECT_TRUE(together.compute(batches.size(), round) == alone.compute(batches.size(), round))
          << threads << " threads, round " << round;
  }
}

TEST_F(GradientsTest, a_round_depends_on_no_other) {
  const Dataset dataset = small_dataset(1, 16);
  const GradientOptions options = options_for(dataset, {20, 7}, 8);
  Stage stage(dataset, "cnn", options, 2);
  const auto first = stage.compute(2, 5);
  EXPECT_FALSE(stage.compute(2, 6) == first);
  EXPECT_TRUE(stage.compute(2, 5) == first);
}

// Its statistics are the batch's: cut into pieces, it would be another gradient.
TEST_F(GradientsTest, batch_norm_takes_a_batch_whole) {
  const Dataset dataset = small_dataset(3, 8);
  const std::vector<std::uint32_t> batches = {24, 5, 2};
  Stage whole(dataset, "resnet20", options_for(dataset, batches, 1000), 1);
  const auto expected = whole.compute(batches.size(), 4);
  for (std::uint32_t m = 0; m < batches.size(); ++m)
    expect_multiple(expected.gradients[m], whole.plain(m, 4).first, batches[m]);
  for (const std::size_t micro_batch : {1U, 4U}) {
    Stage other(dataset, "resnet20", options_for(dataset, batches, micro_batch), 3);
    EXPECT_TRUE(other.compute(batches.size(), 4) == expected) << "micro-batches of " << micro_batch;
  }
}

TEST_F(GradientsTest, an_exception_of_ready_comes_out_and_the_next_round_is_right) {
  const Dataset dataset = small_dataset(1, 16);
  const std::vector<std::uint32_t> batches = {48, 3, 40, 1, 2};
  for (const std::size_t threads : {1U, 2U, 4U}) {
    Stage stage(dataset, "cnn", options_for(dataset, batches, 4), threads);
    const auto expected = stage.compute(batches.size(), 0);
    for (std::uint32_t bad = 0; bad < batches.size(); ++bad) {
      std::string thrown;
      try {
        stage.gradients.compute(1, [bad](std::uint32_t worker, std::span<const float>, double) {
          if (worker == bad) throw std::runtime_error("worker " + std::to_string(worker));
        });
      } catch (const std::runtime_error& error) {
        thrown = error.what();
      }
      EXPECT_EQ(thrown, "worker " + std::to_string(bad));
      EXPECT_TRUE(stage.compute(batches.size(), 0) == expected) << threads << " threads, worker " << bad;
    }
  }
}

// Threads that wait for a part to be added must be woken when it fails. Torch refuses a label of 200.
TEST_F(GradientsTest, a_failed_part_is_not_waited_for) {
  Dataset dataset = small_dataset(1, 16, 48);
  const GradientOptions options = options_for(dataset, {48, 2}, 4);
  for (const std::size_t threads : {1U, 2U, 4U}) {
    Stage stage(dataset, "cnn", options, threads);
    const auto expected = stage.compute(2, 0);
    const std::vector<Pick> picks = stage.gradients.draw(0, 0);
    for (const std::size_t bad : {0U, 1U, 20U, 47U}) {
      std::int64_t& label = dataset.train.labels[picks[bad].index];
      const std::int64_t good = std::exchange(label, 200);
      EXPECT_ANY_THROW(stage.gradients.compute(0, [](std::uint32_t worker, std::span<const float>, double) {
        EXPECT_EQ(worker, 1U) << "was reported without all of its parts";
      }));
      label = good;
      EXPECT_TRUE(stage.compute(2, 0) == expected) << threads << " threads, sample " << bad;
    }
  }
}

class Draw : public GradientsTest {
 protected:
  // Drawing needs neither the network nor the images; these are as small as can be.
  std::vector<Pick> draw(const GradientOptions& options, std::uint32_t worker, std::uint64_t round,
                         bool augment = false) {
    dataset_.augment = augment;
    return Gradients(dataset_, options, replicas_, pool_).draw(worker, round);
  }
  static std::vector<std::uint32_t> indices(const std::vector<Pick>& picks) {
    std::vector<std::uint32_t> found;
    for (const Pick& pick : picks) found.push_back(pick.index);
    return found;
  }

  Dataset dataset_ = small_dataset(1, 16, 1);
  ThreadPool pool_{1};
  Replicas replicas_{"cnn", dataset_.train.shape, 10, 0, 1};
};

TEST_F(Draw, different_samples_of_the_workers_own) {
  EXPECT_TRUE(rc::check("B_m of D_m, and the same again", [this](std::uint64_t seed, std::uint64_t round) {
    GradientOptions options;
    options.seed = seed;
    const auto workers = *rc::gen::inRange<std::uint32_t>(1, 5);
    for (std::uint32_t m = 0; m < workers; ++m) {
      const auto share = *rc::gen::nonEmpty<std::set<std::uint32_t>>();
      options.shares.emplace_back(share.begin(), share.end());
      options.batches.push_back(
          *rc::gen::inRange<std::uint32_t>(1, static_cast<std::uint32_t>(share.size()) + 1));
    }
    for (std::uint32_t m = 0; m < workers; ++m) {
      const std::vector<std::uint32_t> drawn = indices(draw(options, m, round));
      const std::set<std::uint32_t> different(drawn.begin(), drawn.end());
      RC_ASSERT(drawn.size() == options.batches[m]);
      RC_ASSERT(different.size() == drawn.size());
      for (const std::uint32_t i : drawn) RC_ASSERT(std::ranges::count(options.shares[m], i) == 1);
      RC_ASSERT(indices(draw(options, m, round)) == drawn);
    }
  }));
}

TEST_F(Draw, depends_on_seed_worker_and_round) {
  EXPECT_TRUE(
      rc::check("each of them alone changes the samples", [this](std::uint64_t seed, std::uint32_t round) {
        GradientOptions options;
        options.batches = {40, 40};
        options.shares.assign(2, std::vector<std::uint32_t>(1000));
        for (auto& share : options.shares) std::iota(share.begin(), share.end(), 0U);
        options.seed = seed;
        const auto drawn = indices(draw(options, 0, round));
        RC_ASSERT(indices(draw(options, 1, round)) != drawn);
        RC_ASSERT(indices(draw(options, 0, std::uint64_t{round} + 1)) != drawn);
        options.seed = seed + 1;
        RC_ASSERT(indices(draw(options, 0, round)) != drawn);
      }));
}

TEST_F(Draw, every_sample_is_drawn_in_time) {
  GradientOptions options;
  options.batches = {10};
  options.shares = {std::vector<std::uint32_t>(50)};
  std::iota(options.shares[0].begin(), options.shares[0].end(), 0U);
  std::set<std::uint32_t> seen;
  for (std::uint64_t round = 0; round < 60; ++round)
    for (const std::uint32_t i : indices(draw(options, 0, round))) seen.insert(i);
  EXPECT_EQ(seen.size(), 50U);
}

TEST_F(Draw, images_move_by_up_to_four_pixels_if_the_data_set_says_so) {
  GradientOptions options;
  options.batches = {1000};
  options.shares = {std::vector<std::uint32_t>(1000)};
  std::iota(options.shares[0].begin(), options.shares[0].end(), 0U);
  const std::vector<Pick> still = draw(options, 0, 0, false);
  const std::vector<Pick> moved = draw(options, 0, 0, true);
  EXPECT_EQ(indices(moved), indices(still));
  for (const Pick& pick : still) EXPECT_TRUE(pick.right == 0 && pick.down == 0 && !pick.mirrored);
  std::set<int> rights;
  std::set<int> downs;
  std::size_t mirrored = 0;
  for (const Pick& pick : moved) {
    rights.insert(pick.right);
    downs.insert(pick.down);
    mirrored += pick.mirrored ? 1U : 0U;
  }
  const std::set<int> all = {-4, -3, -2, -1, 0, 1, 2, 3, 4};
  EXPECT_EQ(rights, all);
  EXPECT_EQ(downs, all);
  EXPECT_NEAR(static_cast<double>(mirrored), 500, 80);
}

}  // namespace
}  // namespace signvote
