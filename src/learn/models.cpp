#include "learn/models.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>

#include "signvote/error.h"

namespace signvote {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

/// The paper's network: two convolutions of 5 x 5, each with max-pooling, and two linear layers. Pooling
/// comes before ReLU, because the order does not change the result and ReLU then has a quarter of the work.
struct Cnn : Net {
  Cnn(std::int64_t channels, std::int64_t height, std::int64_t width, std::int64_t classes)
      : conv1(register_module("conv1", nn::Conv2d(channels, 32, 5))),
        conv2(register_module("conv2", nn::Conv2d(32, 64, 5))),
        fc1(register_module("fc1", nn::Linear(64 * pooled(height) * pooled(width), 512))),
        fc2(register_module("fc2", nn::Linear(512, classes))) {}

  static std::int64_t pooled(std::int64_t side) { return ((side - 4) / 2 - 4) / 2; }

  torch::Tensor forward(torch::Tensor x) override {
    x = torch::relu(torch::max_pool2d(conv1(x), 2));
    x = torch::relu(torch::max_pool2d(conv2(x), 2));
    x = torch::relu(fc1(x.flatten(1)));
    return fc2(x);
  }

  nn::Conv2d conv1, conv2;
  nn::Linear fc1, fc2;
};

nn::Conv2d conv3x3(std::int64_t in, std::int64_t out, std::int64_t stride) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false));
}

/// He et al.'s basic block with the shortcut without parameters (option A): if the shape changes, the
/// shortcut takes every second pixel and adds zeros for the new channels.
struct BasicBlock : nn::Module {
  BasicBlock(std::int64_t in, std::int64_t out, std::int64_t stride_)
      : stride(stride_),
        new_channels(out - in),
        conv1(register_module("conv1", conv3x3(in, out, stride_))),
        bn1(register_module("bn1", nn::BatchNorm2d(out))),
        conv2(register_module("conv2", conv3x3(out, out, 1))),
        bn2(register_module("bn2", nn::BatchNorm2d(out))) {}

  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = torch::relu(bn1(conv1(x)));
    y = bn2(conv2(y));
    if (stride == 1) return torch::relu(y + x);
    using torch::indexing::None;
    using torch::indexing::Slice;
    const torch::Tensor thinned = x.index({Slice(), Slice(), Slice(None, None, 2), Slice(None, None, 2)});
    const auto padding = F::PadFuncOptions({0, 0, 0, 0, new_channels / 2, new_channels - new_channels / 2});
    return torch::relu(y + F::pad(thinned, padding));
  }

  std::int64_t stride;
  std::int64_t new_channels;
  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Conv2d conv2;
  nn::BatchNorm2d bn2;
};

/// The CIFAR ResNet of 6n + 2 layers.
struct ResNet : Net {
  ResNet(int n, std::int64_t channels, std::int64_t classes)
      : conv1(register_module("conv1", conv3x3(channels, 16, 1))),
        bn1(register_module("bn1", nn::BatchNorm2d(16))),
        fc(nullptr) {
    std::int64_t in = 16;
    for (int stage = 0; stage < 3; ++stage) {
      const std::int64_t out = 16 << stage;
      for (int i = 0; i < n; ++i) {
        const std::int64_t stride = stage > 0 && i == 0 ? 2 : 1;
        blocks.push_back(register_module(fmt::format("layer{}_{}", stage + 1, i),
                                         std::make_shared<BasicBlock>(in, out, stride)));
        in = out;
      }
    }
    fc = register_module("fc", nn::Linear(64, classes));
    torch::NoGradGuard no_grad;
    for (const auto& module : modules(/*include_self=*/false)) {
      if (auto* conv = module->as<nn::Conv2dImpl>()) nn::init::kaiming_normal_(conv->weight);
      if (auto* linear = module->as<nn::LinearImpl>()) nn::init::kaiming_normal_(linear->weight);
    }
  }

  torch::Tensor forward(torch::Tensor x) override {
    x = torch::relu(bn1(conv1(x)));
    for (const auto& block : blocks) x = block->forward(x);
    return fc(x.mean({2, 3}));
  }

  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  std::vector<std::shared_ptr<BasicBlock>> blocks;
  nn::Linear fc;
};

}  // namespace

std::shared_ptr<Net> make_net(const std::string& model, const Shape& shape, std::size_t classes,
                              std::uint64_t seed) {
  if (std::ranges::find(kModelNames, model) == kModelNames.end())
    throw ConfigError(fmt::format("model is '{}'; take {}", model, fmt::join(kModelNames, ", ")));
  if (shape.size() != 3)
    throw ConfigError(
        fmt::format("{} takes images (channels, height, width), not samples of ({}); bring a model of your "
                    "own with --model",
                    model, fmt::join(shape, ", ")));
  if (classes == 0)
    throw ConfigError(fmt::format("{} tells classes, but y of the data set is not a class", model));
  const auto channels = static_cast<std::int64_t>(shape[0]);
  const auto outputs = static_cast<std::int64_t>(classes);
  torch::manual_seed(seed);
  if (model == "cnn") {
    if (shape[1] < 16 || shape[2] < 16)
      throw ConfigError(fmt::format(
          "cnn takes images of at least 16 x 16 pixels, not {} x {}; take --model resnet20, or bring a "
          "model of your own",
          shape[1], shape[2]));
    return std::make_shared<Cnn>(channels, static_cast<std::int64_t>(shape[1]),
                                 static_cast<std::int64_t>(shape[2]), outputs);
  }
  if (model == "resnet20") return std::make_shared<ResNet>(3, channels, outputs);
  return std::make_shared<ResNet>(9, channels, outputs);
}

bool Net::uses_batch_norm() const {
  for (const auto& module : modules(/*include_self=*/false))
    if (module->as<nn::BatchNorm2dImpl>() != nullptr) return true;
  return false;
}

void Net::measure_batch_norm(std::size_t batches, const std::function<torch::Tensor(std::size_t)>& batch) {
  for (const auto& module : modules(/*include_self=*/false))
    if (auto* norm = module->as<nn::BatchNorm2dImpl>()) {
      norm->reset_running_stats();
      norm->options.momentum(torch::nullopt);  // makes it the plain mean over the batches that follow
    }
  train();
  for (std::size_t i = 0; i < batches; ++i) forward(batch(i));
}

bool is_tied(const torch::Tensor& a, const torch::Tensor& b) {
  return a.is_alias_of(b) && a.data_ptr() == b.data_ptr() && a.sizes() == b.sizes() &&
         a.strides() == b.strides();
}

Replicas::Replicas(const std::function<std::shared_ptr<Net>()>& make, std::size_t count) {
  torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < count; ++i) {
    nets_.push_back(make());
    // Parameters with their places; a tied one has the place of the first.
    std::vector<std::pair<torch::Tensor, std::int64_t>> places;
    std::int64_t total = 0;
    for (const auto& named : nets_[i]->named_parameters()) {
      const torch::Tensor& parameter = named.value();
      if (!parameter.requires_grad()) continue;
      const auto tied =
          std::ranges::find_if(places, [&](const auto& place) { return is_tied(parameter, place.first); });
      if (tied != places.end()) {
        const std::int64_t at = tied->second;
        places.emplace_back(parameter, at);
        continue;
      }
      places.emplace_back(parameter, total);
      if (i == 0) starts_.emplace_back(named.key(), static_cast<std::size_t>(total));
      total += parameter.numel();
    }
    if (i == 0) parameters_ = torch::empty({total});
    gradients_.push_back(torch::zeros({total}));
    for (auto& [parameter, at] : places) {
      const std::int64_t n = parameter.numel();
      torch::Tensor view = parameters_.narrow(0, at, n).view(parameter.sizes());
      if (i == 0) view.copy_(parameter);
      parameter.set_data(view);
      parameter.mutable_grad() = gradients_[i].narrow(0, at, n).view(parameter.sizes());
    }
  }
}

std::string Replicas::coordinate_name(std::size_t coordinate) const {
  const auto next =
      std::ranges::upper_bound(starts_, coordinate, {}, &std::pair<std::string, std::size_t>::second);
  const auto& [name, start] = *std::prev(next);
  return fmt::format("{}[{}]", name, coordinate - start);
}

std::vector<std::pair<std::string, std::size_t>> Replicas::layers() const {
  std::vector<std::pair<std::string, std::size_t>> result = starts_;
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i].second = (i + 1 < starts_.size() ? starts_[i + 1].second : size()) - starts_[i].second;
  return result;
}

void use_one_torch_thread() {
  torch::set_num_threads(1);
  // OpenBLAS has its own number of threads, which libtorch sets only through the BLAS interface.
  static const auto set_blas_threads =
      reinterpret_cast<void (*)(int)>(::dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  if (set_blas_threads != nullptr) set_blas_threads(1);
}

}  // namespace signvote
