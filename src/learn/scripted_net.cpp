#include "learn/scripted_net.h"

#include <fmt/format.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>

#include "base/text.h"
#include "signvote/error.h"

namespace signvote {
namespace {

namespace jit = torch::jit;

/// The names under which nn::Module keeps a part's tensors. It mirrors the module's tree, so that names,
/// train() and buffers() are those of any other network.
struct Part : torch::nn::Module {};

void mirror(const jit::Module& from, torch::nn::Module& to) {
  for (const auto& parameter : from.named_parameters(/*recurse=*/false))
    to.register_parameter(parameter.name, parameter.value, parameter.value.requires_grad());
  for (const auto& buffer : from.named_buffers(/*recurse=*/false))
    to.register_buffer(buffer.name, buffer.value);
  for (const auto& child : from.named_children())
    mirror(child.value, *to.register_module(child.name, std::make_shared<Part>()));
}

/// What the code of a method does that matters to training.
struct Habits {
  bool batch_norm = false;
  bool fixed_batch_norm = false;  // in the same way for training and testing
  bool draws = false;             // random numbers
  bool fixed_dropout = false;     // also when it is tested
};

std::optional<bool> constant(const jit::Node& node, const char* argument) {
  const auto index = node.schema().argumentIndexWithName(argument);
  if (!index) return std::nullopt;
  const auto value = jit::toIValue(node.input(static_cast<std::size_t>(*index)));
  if (!value || !value->isBool()) return std::nullopt;
  return value->toBool();
}

void study(const jit::Block& block, Habits& habits) {
  for (const jit::Node* node : block.nodes()) {
    for (const jit::Block* inner : node->blocks()) study(*inner, habits);
    const auto* schema = node->maybeSchema();
    if (schema == nullptr) continue;
    const std::string name = node->kind().toUnqualString();
    if (name == "batch_norm") {
      habits.batch_norm = true;
      habits.fixed_batch_norm |= constant(*node, "training").has_value();
    }
    const bool dropout = name.find("dropout") != std::string::npos;
    if (dropout && constant(*node, "train") == false) continue;  // traced in eval(): it does nothing
    habits.fixed_dropout |= dropout && constant(*node, "train") == true;
    habits.draws |= dropout || name.find("rand") != std::string::npos || name == "rrelu" ||
                    std::ranges::any_of(schema->arguments(), [](const c10::Argument& argument) {
                      return argument.name() == "generator" || argument.name() == "dropout" ||
                             argument.name() == "dropout_p";
                    });
  }
}

Habits study(const jit::Module& module) {
  Habits habits;
  for (const char* name : {"forward", "loss"})
    if (const auto method = module.find_method(name)) {
      const auto graph = method->graph()->copy();
      jit::Inline(*graph);
      study(*graph->block(), habits);
    }
  return habits;
}

/// A layer with running statistics.
struct Norm {
  torch::Tensor mean;
  torch::Tensor variance;
  torch::Tensor batches;           // may be undefined
  std::optional<double> momentum;  // none: the plain mean over all batches
};

std::vector<Norm> norms_of(const jit::Module& module) {
  std::vector<Norm> norms;
  for (const jit::Module& part : module.modules()) {
    if (!part.hasattr("running_mean") || !part.hasattr("running_var") || !part.hasattr("momentum")) continue;
    if (!part.attr("running_mean").isTensor()) continue;
    Norm norm{part.attr("running_mean").toTensor(), part.attr("running_var").toTensor(), {}, std::nullopt};
    if (part.hasattr("num_batches_tracked") && part.attr("num_batches_tracked").isTensor())
      norm.batches = part.attr("num_batches_tracked").toTensor();
    if (part.attr("momentum").isDouble()) norm.momentum = part.attr("momentum").toDouble();
    norms.push_back(norm);
  }
  return norms;
}

class ScriptedNet : public Net {
 public:
  explicit ScriptedNet(jit::Module module)
      : module_(std::move(module)), habits_(study(module_)), norms_(norms_of(module_)) {
    mirror(module_, *this);
  }

  torch::Tensor forward(torch::Tensor x) override {
    return call("forward", {x.contiguous()});  // because view() does not take channels-last memory
  }

  void train(bool on) override { module_.train(on); }

  bool uses_batch_norm() const override { return habits_.batch_norm; }
  bool is_batch_norm_buffer(const std::string& name) const override {
    const std::string last = name.substr(name.rfind('.') + 1);
    return last == "running_mean" || last == "running_var" || last == "num_batches_tracked";
  }

  /// The layers' momentum is part of the code, where it cannot be changed. But from statistics of zero a
  /// batch leads to momentum times its own.
  void measure_batch_norm(std::size_t batches,
                          const std::function<torch::Tensor(std::size_t)>& batch) override {
    train(true);
    std::vector<std::pair<torch::Tensor, torch::Tensor>> sums;
    for (const Norm& norm : norms_)
      sums.emplace_back(torch::zeros_like(norm.mean), torch::zeros_like(norm.variance));
    for (std::size_t i = 0; i < batches; ++i) {
      for (const Norm& norm : norms_) {
        norm.mean.zero_();
        norm.variance.zero_();
        if (norm.batches.defined()) norm.batches.zero_();
      }
      forward(batch(i));
      for (std::size_t n = 0; n < norms_.size(); ++n) {
        sums[n].first += norms_[n].mean / norms_[n].momentum.value_or(1);
        sums[n].second += norms_[n].variance / norms_[n].momentum.value_or(1);
      }
    }
    const auto count = static_cast<std::int64_t>(batches);
    for (std::size_t n = 0; n < norms_.size(); ++n) {
      norms_[n].mean.copy_(sums[n].first / count);
      norms_[n].variance.copy_(sums[n].second / count);
      if (norms_[n].batches.defined()) norms_[n].batches.fill_(count);
    }
  }

  bool draws_random_numbers() const override { return habits_.draws; }

  bool has_loss() const override { return module_.find_method("loss").has_value(); }
  torch::Tensor loss(const torch::Tensor& output, const torch::Tensor& y) override {
    return call("loss", {output, y});
  }

  /// What makes it unfit for training; empty if nothing does.
  std::string problem() const {
    if (!module_.find_method("forward")) return "has no method forward";
    std::vector<torch::Tensor> trained;
    for (const auto& named : named_parameters()) {
      const torch::Tensor& parameter = named.value();
      if (!parameter.requires_grad() || parameter.numel() == 0) continue;
      if (parameter.scalar_type() != torch::kFloat32)
        return fmt::format("has the parameter '{}' of {}; call model.float() before exporting it",
                           named.key(), c10::toString(parameter.scalar_type()));
      if (!parameter.device().is_cpu())
        return fmt::format("has the parameter '{}' on {}; call model.cpu() before exporting it", named.key(),
                           parameter.device().str());
      for (const torch::Tensor& other : trained)
        if (parameter.is_alias_of(other) && !is_tied(parameter, other) && overlap(parameter, other))
          return fmt::format("has the parameter '{}', which is a part of another one", named.key());
      trained.push_back(parameter);
    }
    if (trained.empty()) return "has no parameters to train; was it frozen?";
    if (habits_.fixed_batch_norm)
      return "has BatchNorm that is the same in training and in testing, as torch.jit.trace makes it; export "
             "it "
             "with torch.jit.script";
    if (habits_.fixed_dropout)
      return "has dropout that cannot be turned off for testing, as torch.jit.trace makes it; export it with "
             "torch.jit.script";
    if (habits_.batch_norm && norms_.empty())
      return "has BatchNorm without running statistics; keep track_running_stats=True";
    if (std::ranges::any_of(norms_, [](const Norm& norm) { return norm.momentum == 0.0; }))
      return "has BatchNorm with a momentum of 0; leave it at 0.1";
    return {};
  }

 private:
  static bool overlap(const torch::Tensor& a, const torch::Tensor& b) {
    const auto end = [](const torch::Tensor& tensor) {
      std::int64_t last = tensor.storage_offset();
      for (std::int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
      return last + 1;
    };
    return a.storage_offset() < end(b) && b.storage_offset() < end(a);
  }

  /// Without the optimiser, which changes the code after the first calls, and with it how sums are rounded: a
  /// resumed run, or one with more threads, would differ.
  torch::Tensor call(const char* method, std::vector<c10::IValue> arguments) {
    const jit::GraphOptimizerEnabledGuard plain(false);
    const c10::IValue result = module_.get_method(method)(std::move(arguments));
    if (!result.isTensor())
      throw DataError(fmt::format("its method {} gives a {}, not a tensor", method, result.tagKind()));
    return result.toTensor();
  }

  jit::Module module_;
  Habits habits_;
  std::vector<Norm> norms_;
};

}  // namespace

std::shared_ptr<Net> load_scripted_net(std::span<const std::byte> file, const std::string& name) {
  std::optional<jit::Module> module;
  try {
    std::istringstream stream(std::string(reinterpret_cast<const char*>(file.data()), file.size()));
    module = jit::load(stream, torch::kCPU);
  } catch (const std::exception& error) {
    const std::string what = error.what();
    throw DataError(
        fmt::format("'{}' is not a TorchScript module, or is damaged ({}); export one with "
                    "torch.jit.script(model).save(FILE)",
                    name, one_line(without_controls(what.substr(0, what.find('\n'))), 120)));
  }
  const auto net = std::make_shared<ScriptedNet>(std::move(*module));
  if (const std::string problem = net->problem(); !problem.empty())
    throw DataError(fmt::format("'{}' {}", name, problem));
  return net;
}

}  // namespace signvote
