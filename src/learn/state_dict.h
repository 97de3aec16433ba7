// The tensors in a .pt file, read without torch. Such a file is a zip archive with a pickle, which is a
// program that builds the state dict (or the one tensor), and with the tensors' bytes. torch runs foreign
// pickles without looking at sizes: an offset outside the storage reads other memory, and deep nesting ends
// in a stack overflow. Here only those few instructions are followed that a dict of tensors needs, and
// everything is checked before it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace signvote {

using ArchiveEntries = std::map<std::string, std::vector<std::byte>>;  // content by name

/// All entries of a zip archive whose entries are not compressed, have names of their own and right
/// checksums, and do not overlap, so that they take no more memory than the file. Throws DataError with the
/// reason.
ArchiveEntries read_archive(std::span<const std::byte> file);

enum class ElementType { float32, float64, int64, int32, int16, int8, uint8, boolean };
const char* name_of(ElementType type);
const char* numpy_name_of(ElementType type);  // as a .npy file has it
std::size_t bytes_of(ElementType type);

struct StoredTensor {
  ElementType type = ElementType::float32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;  // of all elements, the last dimension first; within the entries
};
using StateDict = std::map<std::string, StoredTensor>;

/// What a dict of contiguous tensors became when torch.save or save_state_dict wrote it. `entries` must
/// outlive the result. Throws DataError with the reason.
StateDict read_state_dict(const ArchiveEntries& entries);

/// The same of a file with nothing but a tensor.
StoredTensor read_tensor(const ArchiveEntries& entries);

}  // namespace signvote
