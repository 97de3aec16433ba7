#include "learn/model_file.h"

#include <fmt/format.h>
#include <zip.h>

#include <map>
#include <set>

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

/// True if the bytes are a zip archive in which every entry has a name of its own and its right checksum. A
/// .pt file is a zip archive, and torch does not check the checksums: flipped bits would become other
/// parameters, or crash its unpickler.
bool intact_archive(const std::vector<std::byte>& bytes) {
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), /*freep=*/0, nullptr);
  if (source == nullptr) return false;
  zip_t* archive = zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, nullptr);
  if (archive == nullptr) {
    zip_source_free(source);
    return false;
  }
  bool intact = true;
  std::vector<char> buffer(1 << 16);
  std::set<std::string> names;
  for (zip_int64_t i = 0; intact && i < zip_get_num_entries(archive, 0); ++i) {
    zip_file_t* entry = zip_fopen_index(archive, static_cast<zip_uint64_t>(i), 0);
    zip_int64_t got = entry == nullptr ? -1 : 1;
    while (got > 0)
      got = zip_fread(entry, buffer.data(), buffer.size());  // -1 at the end if the checksum is wrong
    const char* name = zip_get_name(archive, static_cast<zip_uint64_t>(i), 0);
    zip_uint8_t system = 0;
    zip_uint32_t attributes = 0;
    zip_file_get_external_attributes(archive, static_cast<zip_uint64_t>(i), 0, &system, &attributes);
    constexpr zip_uint32_t kFolder = 0x10;
    intact = got == 0 && name != nullptr && names.insert(name).second && (attributes & kFolder) == 0;
    if (entry != nullptr) zip_fclose(entry);
  }
  zip_discard(archive);
  return intact;
}

std::map<std::string, torch::Tensor> read_state(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = read_file(path);
  std::map<std::string, torch::Tensor> state;
  try {
    if (!intact_archive(bytes)) throw DataError("damaged");
    const auto* begin = reinterpret_cast<const char*>(bytes.data());
    const c10::IValue value = torch::pickle_load(std::vector<char>(begin, begin + bytes.size()));
    for (const auto& entry : value.toGenericDict())
      state.emplace(entry.key().toStringRef(), entry.value().toTensor());
  } catch (const std::exception&) {
    throw DataError(
        fmt::format("'{}' is not a model, or is damaged: take a model.pt of signvote, or a plain dict of "
                    "tensors saved by torch.save",
                    path.string()));
  }
  return state;
}

/// The first thing in the state that does not fit the network; empty if all fits.
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

void save_model(Net& net, const std::filesystem::path& path) {
  State state;
  // Cloned, because a view would be saved with the whole buffer behind it.
  for (const auto& tensor : tensors_of(net)) state.insert(tensor.key(), tensor.value().detach().clone());
  const std::vector<char> bytes = torch::pickle_save(state);
  write_file_atomically(path, std::as_bytes(std::span(bytes)));
}

void load_model(Net& net, const std::filesystem::path& path) {
  const auto state = read_state(path);
  if (const std::string problem = misfit(net, state); !problem.empty())
    throw DataError(fmt::format("'{}' does not fit the model: {}", path.string(), problem));
  const torch::NoGradGuard no_grad;
  for (auto& tensor : tensors_of(net)) tensor.value().copy_(state.at(tensor.key()));
}

ModelKind identify_model(const std::filesystem::path& path) {
  const auto state = read_state(path);
  for (const char* model : kModelNames)
    for (const char* dataset : kDatasetNames)
      if (misfit(*make_net(model, shape_of(dataset), 10, 0), state).empty()) return {model, dataset};
  throw DataError(
      fmt::format("'{}' fits none of signvote's models ({})", path.string(), fmt::join(kModelNames, ", ")));
}

}  // namespace signvote
