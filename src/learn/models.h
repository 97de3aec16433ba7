// The networks, and replicas of a network that share their parameters.
//
// A replica's parameters are views into one flat float32 buffer, in the order of torch's
// named_parameters(), and so are its gradients. So a ballot is packed straight from the gradient buffer, a
// verdict is stepped straight into the parameter buffer, and nothing is copied in between.
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
  /// Computes the logits of images. Convolutions are fastest if the images are in channels-last memory.
  virtual torch::Tensor forward(torch::Tensor images) = 0;
};

/// A freshly initialised network for images of this shape. Equal seeds give equal parameters. Throws
/// ConfigError for an unknown model, or a shape that it cannot take.
std::shared_ptr<Net> make_net(const std::string& model, const LabelledImages& shape, std::size_t classes,
                              std::uint64_t seed);

/// True if the network normalises over its batch, because such a batch must not be split.
bool uses_batch_norm(const Net& net);

/// `count` networks, one per thread, that share one parameter buffer. Each has its own gradient buffer.
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

  /// The parameter that a coordinate belongs to, e.g. "conv2.weight[17]".
  std::string coordinate_name(std::size_t coordinate) const;

 private:
  torch::Tensor parameters_;
  std::vector<std::shared_ptr<Net>> nets_;
  std::vector<torch::Tensor> gradients_;
};

/// Makes torch and BLAS use one thread per network. To be called once in every thread that runs or makes a
/// network. Two single-threaded networks are 1.6 times as fast as one with two threads, and sums are then
/// always in the same order.
void use_one_torch_thread();

}  // namespace signvote
