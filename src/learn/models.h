// The networks, and replicas of a network that share their parameters.
//
// A replica's parameters are views into one flat float32 buffer, in the order of torch's
// named_parameters(), and so are its gradients. So a ballot is packed straight from the gradient buffer, a
// verdict is stepped straight into the parameter buffer, and nothing is copied in between.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "learn/dataset.h"
#include "learn/model_names.h"

namespace signvote {

struct Net : torch::nn::Module {
  /// Computes the logits of images. Convolutions are fastest if the images are in channels-last memory.
  virtual torch::Tensor forward(torch::Tensor images) = 0;

  /// True if it normalises over its batch, because such a batch must not be split.
  virtual bool uses_batch_norm() const;
  virtual bool is_batch_norm_buffer(const std::string& /*name*/) const { return true; }
  /// Makes the running statistics the plain mean over these batches.
  virtual void measure_batch_norm(std::size_t batches,
                                  const std::function<torch::Tensor(std::size_t)>& batch);

  /// True if training draws from torch's generator, as dropout does.
  virtual bool draws_random_numbers() const { return false; }

  /// A loss of its own, the mean over the batch. REQUIRES of loss: has_loss().
  virtual bool has_loss() const { return false; }
  virtual torch::Tensor loss(const torch::Tensor& /*output*/, const torch::Tensor& /*y*/) { return {}; }
};

/// A freshly initialised network for images of this shape. Equal seeds give equal parameters. Throws
/// ConfigError for an unknown model, or a shape that it cannot take.
std::shared_ptr<Net> make_net(const std::string& model, const Shape& shape, std::size_t classes,
                              std::uint64_t seed);

/// True if two parameters are one tensor under two names, which is then trained once.
bool is_tied(const torch::Tensor& a, const torch::Tensor& b);

/// `count` networks, one per thread, that share one parameter buffer. Each has its own gradient buffer.
class Replicas {
 public:
  /// `make` is called `count` times and must always give the same network. Its parameters that need a
  /// gradient are the coordinates.
  Replicas(const std::function<std::shared_ptr<Net>()>& make, std::size_t count);
  Replicas(const std::string& model, const Shape& shape, std::size_t classes, std::uint64_t seed,
           std::size_t count)
      : Replicas([&] { return make_net(model, shape, classes, seed); }, count) {}

  std::span<float> parameters() {
    return {parameters_.data_ptr<float>(), static_cast<std::size_t>(parameters_.numel())};
  }
  std::size_t size() const { return static_cast<std::size_t>(parameters_.numel()); }
  std::size_t count() const { return nets_.size(); }

  Net& net(std::size_t i) { return *nets_[i]; }
  torch::Tensor gradient(std::size_t i) { return gradients_[i]; }

  /// The parameter that a coordinate belongs to, e.g. "conv2.weight[17]".
  std::string coordinate_name(std::size_t coordinate) const;

  /// The parameters and how many coordinates each has, in order.
  std::vector<std::pair<std::string, std::size_t>> layers() const;

 private:
  torch::Tensor parameters_;
  std::vector<std::shared_ptr<Net>> nets_;
  std::vector<std::pair<std::string, std::size_t>> starts_;  // the first coordinate of each parameter
  std::vector<torch::Tensor> gradients_;
};

/// Makes torch and BLAS use one thread per network. To be called once in every thread that runs or makes a
/// network. Two single-threaded networks are 1.6 times as fast as one with two threads, and sums are then
/// always in the same order.
void use_one_torch_thread();

}  // namespace signvote
