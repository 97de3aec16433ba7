#include "learn/evaluate.h"

#include <algorithm>
#include <numeric>

#include "base/random.h"
#include "learn/batch.h"

namespace signvote {
namespace {

constexpr std::size_t kTestBatch = 64;
constexpr std::size_t kStatisticsBatch = 256;
constexpr std::size_t kStatisticsBatches = 8;

}  // namespace

std::uint64_t Evaluation::correct() const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < classes; ++i) sum += confusion[i * classes + i];
  return sum;
}

void estimate_batch_norm(const Dataset& dataset, Replicas& replicas, ThreadPool& pool) {
  if (!uses_batch_norm(replicas.net(0))) return;
  pool.for_each(1, [&](std::size_t, std::size_t) {
    const torch::NoGradGuard no_grad;
    Net& net = replicas.net(0);
    for (const auto& module : net.modules(/*include_self=*/false))
      if (auto* norm = module->as<torch::nn::BatchNorm2dImpl>()) {
        norm->reset_running_stats();
        norm->options.momentum(torch::nullopt);  // makes it the plain mean over the batches that follow
      }
    net.train();
    const auto train = static_cast<std::uint32_t>(dataset.train.count());
    const std::size_t batch = std::min<std::size_t>(kStatisticsBatch, train);
    const std::size_t batches = std::min<std::size_t>(kStatisticsBatches, train / batch);
    std::vector<Pick> picks;
    for (const std::uint32_t i : Random(0, Purpose::samples).distinct(batch * batches, train))
      picks.push_back({i});
    BatchReader reader(dataset, dataset.train);
    for (std::size_t i = 0; i < batches; ++i)
      net.forward(reader.read(std::span(picks).subspan(i * batch, batch)).images);
    for (std::size_t i = 1; i < replicas.count(); ++i) {
      const auto from = net.buffers();
      auto to = replicas.net(i).buffers();
      for (std::size_t b = 0; b < from.size(); ++b) to[b].copy_(from[b]);
    }
  });
}

Evaluation evaluate(const Dataset& dataset, Replicas& replicas, ThreadPool& pool) {
  const LabelledImages& test = dataset.test;
  const std::size_t chunks = (test.count() + kTestBatch - 1) / kTestBatch;
  std::vector<double> losses(chunks);
  std::vector<std::uint8_t> predictions(test.count());
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
    const torch::Tensor logits = net.forward(batch.images);
    losses[chunk] =
        torch::nn::functional::cross_entropy(
            logits, batch.labels, torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum))
            .item<float>();
    const torch::Tensor best = logits.argmax(1);
    for (std::size_t i = 0; i < picks.size(); ++i)
      predictions[first + i] = static_cast<std::uint8_t>(best.data_ptr<std::int64_t>()[i]);
  });
  Evaluation result;
  result.classes = dataset.classes;
  result.samples = test.count();
  result.loss = std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(test.count());
  result.confusion.resize(dataset.classes * dataset.classes);
  for (std::size_t i = 0; i < test.count(); ++i)
    ++result.confusion[test.labels[i] * dataset.classes + predictions[i]];
  return result;
}

}  // namespace signvote
