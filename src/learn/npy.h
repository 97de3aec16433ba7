// NumPy's .npy files, read and written without NumPy. The bytes are foreign: everything is checked before it
// is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "learn/dataset.h"

namespace signvote {

/// An array of little-endian numbers in C order: the last dimension is contiguous.
struct NpyArray {
  std::string type{};  // as NumPy writes it: "|u1" a byte, "<i8" an int64, "<f4" a float32
  Shape shape{};
  std::span<const std::byte> data{};  // within the file, which must outlive this

  bool is_whole() const { return type[1] == 'u' || type[1] == 'i' || type[1] == 'b'; }
  std::size_t width() const { return static_cast<std::size_t>(type[2] - '0'); }
};

/// The array in a file (versions 1 to 3). It has at least one dimension and one element. Throws DataError
/// with the reason: not a .npy file, truncated, too long, Fortran order, a type that cannot be used.
NpyArray read_npy(std::span<const std::byte> file);

/// The elements as int64. REQUIRES: is_whole(). Throws DataError for a uint64 that does not fit.
std::vector<std::int64_t> whole_numbers(const NpyArray& array);

/// The elements as float32. REQUIRES: !is_whole().
std::vector<float> floats(const NpyArray& array);

/// A file with these values. REQUIRES: the shape has as many.
std::vector<std::byte> write_npy(std::span<const float> values, const Shape& shape);

}  // namespace signvote
