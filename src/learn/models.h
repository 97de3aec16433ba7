// The networks, and replicas of one that share their parameters.
//
// A replica's parameters are views into one flat float32 buffer, in the order of
// torch's named_parameters(), and so are its gradients: a ballot is packed straight from the gradient
// buffer, a verdict is stepped straight into the parameter buffer, and nothing is gathered or copied.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "learn/dataset.h"
#include "learn/model_names.h"

namespace signvote {

struct Net : torch::nn::Module {
  /// Images in, logits out. Convolutions run fastest when the images are in channels-last memory.
  virtual torch::Tensor forward(torch::Tensor images) = 0;
};

/// A freshly initialised network for images of this shape; equal seeds give equal parameters.
/// Throws ConfigError for an unknown model, or a shape it cannot take.
std::shared_ptr<Net> make_net(const std::string& model, const LabelledImages& shape, std::size_t classes,
                              std::uint64_t seed);

/// True if the network normalises over its batch: then a batch must not be split.
bool uses_batch_norm(const Net& net);

/// `count` networks, one per thread, over one parameter buffer; each has its own gradient buffer.
class Replicas {
 public:
  Replicas(const std::string& model, const LabelledImages& shape, std::size_t classes, std::uint64_t seed,
           std::size_t count);

  std::span<float> parameters() {
    return {parameters_.data_ptr<float>(), static_cast<std::size_t>(parameters_.numel())};
  }
  std::size_t size() const { return static_cast<std::size_t>(parameters_.numel()); }
  std::size_t count() const { return nets_.size(); }

  Net& net(std::size_t i) { return *nets_[i]; }
  torch::Tensor gradient(std::size_t i) { return gradients_[i]; }

  /// The parameter a coordinate belongs to, e.g. "conv2.weight[17]".
  std::string coordinate_name(std::size_t coordinate) const;

 private:
  torch::Tensor parameters_;
  std::vector<std::shared_ptr<Net>> nets_;
  std::vector<torch::Tensor> gradients_;
};

/// To be called once in every thread that runs a network, and in the one that makes it: one thread
/// per network inside torch and BLAS. Two single-threaded networks beat one two-threaded by 1.6, and
/// sums are then always in the same order.
void use_one_torch_thread();

}  // namespace signvote
