#include "learn/evaluate.h"

#include <algorithm>
#include <mutex>
#include <numeric>

#include "base/random.h"
#include "learn/batch.h"

namespace signvote {
namespace {

constexpr std::size_t kTestBatch = 64;
constexpr std::size_t kStatisticsBatch = 256;
constexpr std::size_t kStatisticsBatches = 8;
constexpr std::size_t kMostConfusable = 1000;

}  // namespace

void estimate_batch_norm(const Dataset& dataset, Replicas& replicas, ThreadPool& pool) {
  if (!replicas.net(0).uses_batch_norm()) return;
  pool.for_each(1, [&](std::size_t, std::size_t) {
    const torch::NoGradGuard no_grad;
    Net& net = replicas.net(0);
    if (net.draws_random_numbers()) torch::manual_seed(0);
    const auto train = static_cast<std::uint32_t>(dataset.train.count());
    const std::size_t batch = std::min<std::size_t>(kStatisticsBatch, train);
    const std::size_t batches = std::min<std::size_t>(kStatisticsBatches, train / batch);
    std::vector<Pick> picks;
    for (const std::uint32_t i : Random(0, Purpose::samples).distinct(batch * batches, train))
      picks.push_back({i});
    BatchReader reader(dataset, dataset.train);
    net.measure_batch_norm(
        batches, [&](std::size_t i) { return reader.read(std::span(picks).subspan(i * batch, batch)).x; });
    for (std::size_t i = 1; i < replicas.count(); ++i) {
      const auto from = net.buffers();
      auto to = replicas.net(i).buffers();
      for (std::size_t b = 0; b < from.size(); ++b) to[b].copy_(from[b]);
    }
  });
}

Evaluation evaluate(const Dataset& dataset, Replicas& replicas, ThreadPool& pool, Loss loss) {
  const Samples& test = dataset.test;
  const std::size_t chunks = (test.count() + kTestBatch - 1) / kTestBatch;
  std::vector<double> losses(chunks);
  Evaluation result;
  result.classes = dataset.classes;
  result.samples = test.count();
  if (dataset.classes <= kMostConfusable) result.confusion.resize(dataset.classes * dataset.classes);
  std::mutex mutex;
  pool.for_each(chunks, [&](std::size_t chunk, std::size_t thread) {
    const torch::NoGradGuard no_grad;
    BatchReader reader(dataset, test);
    std::vector<Pick> picks;
    const std::size_t first = chunk * kTestBatch;
    for (std::size_t i = first; i < std::min(test.count(), first + kTestBatch); ++i)
      picks.push_back({static_cast<std::uint32_t>(i)});
    const Batch batch = reader.read(picks);
    Net& net = replicas.net(thread);
    net.eval();
    const torch::Tensor output = net.forward(batch.x);
    losses[chunk] = total_loss(loss, net, output, batch.y).item<float>();
    const torch::Tensor best = predicted(loss, output, batch, dataset.classes, dataset.is_text());
    if (!best.defined()) return;
    const torch::Tensor told = best.contiguous(), right = batch.y.contiguous();
    const std::lock_guard lock(mutex);  // whole numbers, so the order does not matter
    for (std::int64_t i = 0; i < right.numel(); ++i) {
      const auto truth = static_cast<std::size_t>(right.data_ptr<std::int64_t>()[i]);
      const auto said = static_cast<std::size_t>(told.data_ptr<std::int64_t>()[i]);
      ++result.judged;
      if (said == truth) ++result.correct;
      // A network may have more outputs than there are classes.
      if (!result.confusion.empty() && said < dataset.classes)
        ++result.confusion[truth * dataset.classes + said];
    }
  });
  if (result.judged == 0) {
    result.classes = 0;
    result.confusion.clear();
  }
  result.loss = std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(test.count());
  return result;
}

}  // namespace signvote
