#include "learn/state_file.h"

#include <fmt/format.h>

#include "base/files.h"
#include "signvote/error.h"

namespace signvote {
namespace {

using State = c10::Dict<std::string, torch::Tensor>;

torch::OrderedDict<std::string, torch::Tensor> tensors_of(Net& net) {
  torch::OrderedDict<std::string, torch::Tensor> all;
  for (const auto& parameter : net.named_parameters()) all.insert(parameter.key(), parameter.value());
  for (const auto& buffer : net.named_buffers()) all.insert(buffer.key(), buffer.value());
  return all;
}

std::map<std::string, torch::Tensor> read_state(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = read_file(path);
  std::map<std::string, torch::Tensor> state;
  try {
    const auto* begin = reinterpret_cast<const char*>(bytes.data());
    const c10::IValue value = torch::pickle_load(std::vector<char>(begin, begin + bytes.size()));
    for (const auto& entry : value.toGenericDict())
      state.emplace(entry.key().toStringRef(), entry.value().toTensor());
  } catch (const std::exception&) {
    throw DataError(fmt::format(
        "'{}' is not a model: take a model.pt of signvote, or a plain dict of tensors saved by torch.save",
        path.string()));
  }
  return state;
}

/// Empty if the state fits the network, else the first thing that does not.
std::string misfit(Net& net, const std::map<std::string, torch::Tensor>& state) {
  const auto wanted = tensors_of(net);
  for (const auto& tensor : wanted) {
    const auto found = state.find(tensor.key());
    if (found == state.end()) return fmt::format("it has no '{}'", tensor.key());
    if (found->second.sizes() != tensor.value().sizes())
      return fmt::format("its '{}' has the shape [{}], not [{}]", tensor.key(),
                         fmt::join(found->second.sizes(), ", "), fmt::join(tensor.value().sizes(), ", "));
  }
  for (const auto& [name, tensor] : state)
    if (!wanted.contains(name)) return fmt::format("it has '{}', which the model does not", name);
  return {};
}

LabelledImages shape_of(const std::string& dataset) {
  LabelledImages shape;
  shape.channels = dataset == "mnist" ? 1 : 3;
  shape.height = shape.width = dataset == "mnist" ? 28 : 32;
  return shape;
}

}  // namespace

void save_state(Net& net, const std::filesystem::path& path) {
  State state;
  // Cloned: a view would be saved with the whole buffer behind it.
  for (const auto& tensor : tensors_of(net)) state.insert(tensor.key(), tensor.value().detach().clone());
  const std::vector<char> bytes = torch::pickle_save(state);
  write_file_atomically(path, std::as_bytes(std::span(bytes)));
}

void load_state(Net& net, const std::filesystem::path& path) {
  const auto state = read_state(path);
  if (const std::string problem = misfit(net, state); !problem.empty())
    throw DataError(fmt::format("'{}' does not fit the model: {}", path.string(), problem));
  const torch::NoGradGuard no_grad;
  for (auto& tensor : tensors_of(net)) tensor.value().copy_(state.at(tensor.key()));
}

StateKind identify_state(const std::filesystem::path& path) {
  const auto state = read_state(path);
  for (const char* model : kModelNames)
    for (const char* dataset : kDatasetNames)
      if (misfit(*make_net(model, shape_of(dataset), 10, 0), state).empty()) return {model, dataset};
  throw DataError(
      fmt::format("'{}' fits none of signvote's models ({})", path.string(), fmt::join(kModelNames, ", ")));
}

}  // namespace signvote
