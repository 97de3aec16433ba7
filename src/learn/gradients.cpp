#include "learn/gradients.h"

#include <algorithm>
#include <cassert>

#include "base/random.h"

namespace signvote {

Gradients::Gradients(const Dataset& dataset, GradientOptions options, Replicas& replicas, ThreadPool& pool)
    : dataset_(dataset), options_(std::move(options)), replicas_(replicas), pool_(pool) {
  assert(replicas.count() >= pool.size());
  for (std::size_t i = 0; i < pool.size(); ++i) readers_.emplace_back(dataset, dataset.train);
  progress_.resize(options_.batches.size());
  picks_.resize(options_.batches.size());
  cut_tasks();
}

void Gradients::set_batch(std::uint32_t worker, std::uint32_t batch) {
  options_.batches[worker] = batch;
  cut_tasks();
}

void Gradients::cut_tasks() {
  tasks_.clear();
  std::vector<std::uint32_t> order = options_.hosted;
  std::stable_sort(order.begin(), order.end(), [this](std::uint32_t a, std::uint32_t b) {
    return options_.batches[a] > options_.batches[b];
  });
  const bool whole = replicas_.net(0).uses_batch_norm();
  for (const std::uint32_t m : order) {
    const std::size_t batch = options_.batches[m];
    assert(batch <= options_.shares[m].size());
    const std::size_t parts = whole ? 1 : (batch + options_.micro_batch - 1) / options_.micro_batch;
    progress_[m].parts = parts;
    for (std::size_t part = 0; part < parts; ++part) {
      const std::size_t first = part * batch / parts;
      tasks_.push_back({m, part, first, (part + 1) * batch / parts - first});
    }
  }
}

std::vector<Pick> Gradients::draw(std::uint32_t worker, std::uint64_t round) const {
  const auto& share = options_.shares[worker];
  Random random(options_.seed, Purpose::samples, worker, round);
  std::vector<Pick> picks;
  for (const std::uint32_t i :
       random.distinct(options_.batches[worker], static_cast<std::uint32_t>(share.size())))
    picks.push_back({share[i]});
  if (dataset_.augment) {
    Random moves(options_.seed, Purpose::augment, worker, round);
    for (Pick& pick : picks) {
      pick.right = static_cast<std::int8_t>(static_cast<int>(moves.below(9)) - 4);
      pick.down = static_cast<std::int8_t>(static_cast<int>(moves.below(9)) - 4);
      pick.mirrored = moves.below(2) == 1;
    }
  }
  return picks;
}

void Gradients::compute(std::uint64_t round, const Ready& ready, std::span<const std::uint32_t> absent) {
  const auto is_absent = [absent](std::uint32_t worker) {
    return std::ranges::find(absent, worker) != absent.end();
  };
  for (const std::uint32_t m : options_.hosted)
    if (!is_absent(m)) picks_[m] = draw(m, round);
  for (Progress& progress : progress_) progress.added = 0;
  failed_ = false;

  pool_.for_each(tasks_.size(), [&](std::size_t i, std::size_t thread) {
    if (is_absent(tasks_[i].worker)) return;
    try {
      const double loss = run_task(tasks_[i], round, thread);
      const torch::Tensor gradient = replicas_.gradient(thread);
      add_in_turn(tasks_[i], {gradient.data_ptr<float>(), replicas_.size()}, loss, ready);
    } catch (...) {
      // A thread that waits for this task's turn must not wait for ever.
      const std::lock_guard lock(mutex_);
      failed_ = true;
      turn_.notify_all();
      throw;
    }
  });
}

double Gradients::run_task(const Task& task, std::uint64_t round, std::size_t thread) {
  const Batch batch = readers_[thread].read(std::span(picks_[task.worker]).subspan(task.first, task.count));
  replicas_.gradient(thread).zero_();
  Net& net = replicas_.net(thread);
  net.train();
  torch::Tensor loss;
  {
    // The threads share torch's one generator, so only one at a time may draw what dropout needs.
    static std::mutex generator_mutex;
    std::unique_lock lock(generator_mutex, std::defer_lock);
    if (net.draws_random_numbers()) {
      lock.lock();
      const std::uint64_t of_round = Random(options_.seed, Purpose::network, task.worker, round).bits();
      torch::manual_seed(Random(of_round, Purpose::network, task.part).bits());
    }
    loss = total_loss(options_.loss, net, net.forward(batch.x), batch.y);
  }
  loss.backward();
  return loss.item<float>();
}

void Gradients::add_in_turn(const Task& task, std::span<const float> gradient, double loss,
                            const Ready& ready) {
  Progress& progress = progress_[task.worker];
  if (progress.parts == 1) {
    ready(task.worker, gradient, loss);
    return;
  }
  {
    // This cannot wait for ever: tasks are handed out in order, so the part before this one is done or
    // being done.
    std::unique_lock lock(mutex_);
    turn_.wait(lock, [&] { return failed_ || progress.added == task.part; });
    if (failed_) return;
    if (task.part == 0 && !spare_sums_.empty()) {
      progress.sum = std::move(spare_sums_.back());
      spare_sums_.pop_back();
    }
  }
  if (task.part == 0) {
    progress.sum.assign(gradient.begin(), gradient.end());
    progress.loss = loss;
  } else {
    progress.loss += loss;
    for (std::size_t i = 0; i < gradient.size(); ++i) progress.sum[i] += gradient[i];
  }
  const bool last = task.part + 1 == progress.parts;
  if (last) ready(task.worker, progress.sum, progress.loss);
  const std::lock_guard lock(mutex_);
  if (last) spare_sums_.push_back(std::move(progress.sum));
  progress.added = task.part + 1;
  turn_.notify_all();
}

}  // namespace signvote
