// An array that belongs to another Python library, as plain memory. Nothing is copied: it is what the buffer
// protocol (NumPy, bytes, memoryview) or DLPack (PyTorch, JAX, CuPy) says of the array.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace signvote::python {

class ForeignArray {
 public:
  enum class Type { float32, float64, bfloat16, int8, int64, other };

  /// Throws ValueError unless `array` is contiguous and in this machine's memory. `what` names it in errors.
  ForeignArray(pybind11::handle array, const char* what);
  ~ForeignArray();
  ForeignArray(const ForeignArray&) = delete;
  ForeignArray& operator=(const ForeignArray&) = delete;

  Type type() const { return type_; }
  std::size_t size() const { return size_; }

  /// REQUIRES: T is what type() says.
  template <typename T>
  std::span<const T> values() const {
    return {static_cast<const T*>(data_), size_};
  }
  /// Throws ValueError if the array may only be read.
  template <typename T>
  std::span<T> writable_values() const {
    if (read_only_) refuse("may only be read");
    return {static_cast<T*>(data_), size_};
  }
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_ * item_}; }

  /// Throws ValueError that says: `what` `problem`.
  [[noreturn]] void refuse(const std::string& problem) const;
  [[noreturn]] void refuse_type(const char* wanted) const;

 private:
  void read_buffer(pybind11::handle array);
  void read_dlpack(pybind11::handle array);

  std::string what_;
  Type type_ = Type::other;
  std::string type_name_;
  void* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t item_ = 1;
  bool read_only_ = false;
  Py_buffer buffer_{};  // held if its obj is not null
  pybind11::object dlpack_ =
      {};  // the capsule; unless somebody consumes it, it frees the tensor's handle itself
};

}  // namespace signvote::python
