#include "learn/loss.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "signvote/error.h"

namespace signvote {
namespace {

namespace F = torch::nn::functional;

std::string text_of(torch::IntArrayRef sizes) { return fmt::format("({})", fmt::join(sizes, ", ")); }

/// The last line of an error that torch throws, which may be followed by a trace of C++ calls and is preceded
/// by a trace of the network's own.
std::string reason(const std::string& what) {
  std::string_view best;
  std::string_view rest = std::string_view(what).substr(0, what.find("\nException raised from "));
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    if (rest.substr(0, end).find_first_not_of(' ') != std::string_view::npos) best = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return one_line(without_controls(std::string(best)));
}

}  // namespace

Loss choose_loss(const std::string& name, const Dataset& dataset, const Net& net) {
  if (name == "mse") {
    if (dataset.is_text()) throw ConfigError("--loss mse makes no sense for a text; take cross-entropy");
    return Loss::mse;
  }
  if (!name.empty() && name != "cross-entropy")
    throw ConfigError(fmt::format("--loss is '{}'; take cross-entropy or mse", name));
  if (name.empty() && net.has_loss()) return Loss::own;
  if (dataset.classes == 0)
    throw ConfigError(
        fmt::format("y of the data set {} is not a class but a number, so its loss cannot be cross-entropy; "
                    "give --loss mse",
                    dataset.name));
  return dataset.is_text() ? Loss::next_token : Loss::cross_entropy;
}

torch::Tensor total_loss(Loss loss, Net& net, const torch::Tensor& output, const torch::Tensor& y) {
  const std::int64_t samples = y.size(0);
  const std::int64_t elements = y.numel() / samples;
  torch::Tensor sum;
  if (loss == Loss::own) {
    sum = net.loss(output, y);
    return sum.dim() == 0 ? sum * samples : sum.sum();
  }
  if (loss == Loss::mse) {
    if (output.numel() != y.numel())
      throw DataError(fmt::format("the network's output of {} does not fit y of {}", text_of(output.sizes()),
                                  text_of(y.sizes())));
    // Reshaped, because N x 1 minus N would be N x N.
    sum = F::mse_loss(output.reshape(y.sizes()), y.to(torch::kFloat32),
                      F::MSELossFuncOptions().reduction(torch::kSum));
  } else {
    const bool flat = loss == Loss::next_token;
    sum = F::cross_entropy(flat ? output.flatten(0, 1) : output, flat ? y.flatten() : y,
                           F::CrossEntropyFuncOptions().reduction(torch::kSum));
  }
  return elements == 1 ? sum : sum / elements;
}

torch::Tensor predicted(Loss loss, const torch::Tensor& output, const Batch& batch, std::size_t classes,
                        bool is_text) {
  if (loss == Loss::mse || classes == 0) return {};
  // The dimension of the logits.
  const std::int64_t at = is_text ? output.dim() - 1 : 1;
  std::vector<std::int64_t> sizes = batch.y.sizes().vec();
  if (output.dim() != batch.y.dim() + 1 || output.size(at) < static_cast<std::int64_t>(classes)) return {};
  sizes.insert(sizes.begin() + at, output.size(at));
  if (output.sizes() != torch::IntArrayRef(sizes)) return {};
  return output.argmax(at);
}

void try_network(Net& net, const Dataset& dataset, Loss loss) {
  std::vector<Pick> picks;
  for (std::uint32_t i = 0; i < std::min<std::size_t>(2, dataset.train.count()); ++i) picks.push_back({i});
  BatchReader reader(dataset, dataset.train);
  const Batch batch = reader.read(picks);
  std::vector<torch::Tensor> before;
  for (const torch::Tensor& buffer : net.buffers()) before.push_back(buffer.clone());
  torch::manual_seed(0);
  try {
    net.train();
    const torch::Tensor output = net.forward(batch.x);
    const torch::Tensor sum = total_loss(loss, net, output, batch.y);
    if (sum.numel() != 1 || sum.scalar_type() != torch::kFloat32)
      throw DataError(
          fmt::format("its loss is of the shape {} and the type {}, where one float32 was expected",
                      text_of(sum.sizes()), toString(sum.scalar_type())));
    if ((loss == Loss::cross_entropy || loss == Loss::next_token) &&
        !predicted(loss, output, batch, dataset.classes, dataset.is_text()).defined())
      throw DataError(
          fmt::format("it says {} for y of {} with {} classes, where {} was expected",
                      text_of(output.sizes()), text_of(batch.y.sizes()), dataset.classes,
                      loss == Loss::next_token ? "(samples, tokens, classes)" : "(samples, classes, ...)"));
    sum.backward();
  } catch (const std::exception& error) {
    throw DataError(fmt::format("the network cannot be trained on x of {}: {}", text_of(batch.x.sizes()),
                                reason(error.what())));
  }
  const auto buffers = net.named_buffers();
  for (std::size_t i = 0; i < before.size(); ++i)
    if (!net.is_batch_norm_buffer(buffers[i].key()) && !before[i].equal(buffers[i].value()))
      throw DataError(fmt::format(
          "the network changes its buffer '{}' while it trains, but workers exchange only signs of "
          "gradients; leave that out",
          buffers[i].key()));
}

}  // namespace signvote
