#include "learn/model_file.h"

#include <fmt/format.h>

#include "base/files.h"
#include "base/text.h"
#include "learn/save_state_dict.h"
#include "learn/state_dict.h"
#include "signvote/error.h"

namespace signvote {
namespace {

torch::OrderedDict<std::string, torch::Tensor> tensors_of(Net& net) {
  torch::OrderedDict<std::string, torch::Tensor> all;
  for (const auto& parameter : net.named_parameters()) all.insert(parameter.key(), parameter.value());
  for (const auto& buffer : net.named_buffers()) all.insert(buffer.key(), buffer.value());
  return all;
}

struct ModelFile {
  ArchiveEntries entries;
  StateDict state;  // its tensors are in the entries
};

ModelFile read_model_file(const std::filesystem::path& path) {
  ModelFile file;
  const std::vector<std::byte> bytes = read_file(path);
  try {
    file.entries = read_archive(bytes);
    file.state = read_state_dict(file.entries);
  } catch (const DataError& error) {
    throw DataError(fmt::format(
        "'{}' is not a model, or is damaged ({}): take a model.pt of signvote, or a plain dict of "
        "contiguous tensors saved by torch.save",
        path.string(), error.what()));
  }
  return file;
}

torch::ScalarType torch_type(ElementType type) {
  switch (type) {
    case ElementType::float32:
      return torch::kFloat32;
    case ElementType::float64:
      return torch::kFloat64;
    case ElementType::int64:
      return torch::kInt64;
    case ElementType::int32:
      return torch::kInt32;
    case ElementType::int16:
      return torch::kInt16;
    case ElementType::int8:
      return torch::kInt8;
    case ElementType::uint8:
      return torch::kUInt8;
    case ElementType::boolean:
      return torch::kBool;
  }
  return torch::kFloat32;
}

/// The first thing in the state that does not fit the network; empty if all fits.
std::string misfit(Net& net, const StateDict& state) {
  const auto wanted = tensors_of(net);
  for (const auto& tensor : wanted) {
    const auto found = state.find(tensor.key());
    if (found == state.end()) return fmt::format("it has no '{}'", tensor.key());
    const StoredTensor& stored = found->second;
    if (stored.shape != tensor.value().sizes())
      return fmt::format("its '{}' has the shape [{}], not [{}]", tensor.key(), fmt::join(stored.shape, ", "),
                         fmt::join(tensor.value().sizes(), ", "));
    if (torch_type(stored.type) != tensor.value().scalar_type())
      return fmt::format("its '{}' is of {}", tensor.key(), name_of(stored.type));
  }
  for (const auto& [name, tensor] : state)
    if (!wanted.contains(name))
      return fmt::format("it has '{}', which the model does not", printable(name, 60));
  return {};
}

Shape shape_of(const std::string& dataset) {
  return dataset == "mnist" ? Shape{1, 28, 28} : Shape{3, 32, 32};
}

}  // namespace

void save_model(Net& net, const std::filesystem::path& path) {
  c10::Dict<std::string, torch::Tensor> state;
  // Cloned, because a view would be saved with the whole buffer behind it.
  for (const auto& tensor : tensors_of(net))
    state.insert(tensor.key(), tensor.value().detach().clone(torch::MemoryFormat::Contiguous));
  save_state_dict(state, path);
}

void load_model(Net& net, const std::filesystem::path& path) {
  const ModelFile file = read_model_file(path);
  if (const std::string problem = misfit(net, file.state); !problem.empty())
    throw DataError(fmt::format("'{}' does not fit the model: {}", path.string(), problem));
  const torch::NoGradGuard no_grad;
  for (auto& tensor : tensors_of(net)) {
    const StoredTensor& stored = file.state.at(tensor.key());
    // from_blob takes no const pointer, but nothing writes through it.
    // A bool is read as a byte, because another value than 0 and 1 would be undefined.
    const torch::ScalarType type =
        stored.type == ElementType::boolean ? torch::kUInt8 : torch_type(stored.type);
    tensor.value().copy_(torch::from_blob(const_cast<std::byte*>(stored.bytes.data()), stored.shape, type));
  }
}

ModelKind identify_model(const std::filesystem::path& path) {
  const ModelFile file = read_model_file(path);
  for (const char* model : kModelNames)
    for (const char* dataset : kDatasetNames)
      if (misfit(*make_net(model, shape_of(dataset), 10, 0), file.state).empty()) return {model, dataset};
  throw DataError(fmt::format(
      "'{}' fits none of signvote's models ({}); if it is of a run with a model of its own, give the "
      "run's folder",
      path.string(), fmt::join(kModelNames, ", ")));
}

}  // namespace signvote
