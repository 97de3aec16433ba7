#include "foreign_array.h"

#include <fmt/format.h>

namespace signvote::python {
namespace {

namespace py = pybind11;

// DLPack's own layout, as its specification gives it (the part that all versions share).
struct DLDevice {
  std::int32_t type;
  std::int32_t id;
};
struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t dimensions;
  DLDataType type;
  const std::int64_t* shape;
  const std::int64_t* strides;  // in items; null if contiguous
  std::uint64_t byte_offset;
};
constexpr std::int32_t kCpu = 1;

ForeignArray::Type type_of_format(const std::string& format, py::ssize_t size) {
  using Type = ForeignArray::Type;
  // The machines are little-endian, so "<" changes nothing.
  const std::string plain = format.find_first_of("@=<") == 0 ? format.substr(1) : format;
  return plain == "f"                                  ? Type::float32
         : plain == "d"                                ? Type::float64
         : plain == "b"                                ? Type::int8
         : size == 8 && (plain == "l" || plain == "q") ? Type::int64
                                                       : Type::other;
}

ForeignArray::Type type_of_dlpack(DLDataType type) {
  using Type = ForeignArray::Type;
  enum { kInt = 0, kFloat = 2, kBfloat = 4 };
  if (type.lanes != 1) return Type::other;
  if (type.code == kFloat && type.bits == 32) return Type::float32;
  if (type.code == kFloat && type.bits == 64) return Type::float64;
  if (type.code == kBfloat && type.bits == 16) return Type::bfloat16;
  if (type.code == kInt && type.bits == 8) return Type::int8;
  if (type.code == kInt && type.bits == 64) return Type::int64;
  return Type::other;
}

}  // namespace

ForeignArray::ForeignArray(py::handle array, const char* what) : what_(what) {
  if (PyObject_CheckBuffer(array.ptr()) != 0)
    read_buffer(array);
  else if (py::hasattr(array, "__dlpack__"))
    read_dlpack(array);
  else
    throw py::type_error(
        fmt::format("{} is a {}, which is no array: it has neither the buffer protocol nor DLPack", what_,
                    py::str(py::type::of(array).attr("__name__")).cast<std::string>()));
}

ForeignArray::~ForeignArray() {
  if (buffer_.obj != nullptr) PyBuffer_Release(&buffer_);
}

void ForeignArray::read_buffer(py::handle array) {
  if (PyObject_GetBuffer(array.ptr(), &buffer_, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) != 0) {
    PyErr_Clear();
    refuse("is not contiguous; make a contiguous copy of it");
  }
  type_name_ = buffer_.format == nullptr ? "B" : buffer_.format;
  type_ = type_of_format(type_name_, buffer_.itemsize);
  data_ = buffer_.buf;
  item_ = static_cast<std::size_t>(buffer_.itemsize);
  size_ = item_ == 0 ? 0 : static_cast<std::size_t>(buffer_.len) / item_;
  read_only_ = buffer_.readonly != 0;
}

void ForeignArray::read_dlpack(py::handle array) {
  const auto device = array.attr("__dlpack_device__")().cast<py::tuple>();
  if (py::int_(device[0]).cast<std::int32_t>() != kCpu)
    refuse("is on another device; copy it to the CPU first");
  dlpack_ = array.attr("__dlpack__")();
  const auto* tensor = static_cast<const DLTensor*>(PyCapsule_GetPointer(dlpack_.ptr(), "dltensor"));
  if (tensor == nullptr) throw py::error_already_set();
  std::int64_t size = 1;
  bool contiguous = true;
  for (std::int32_t i = tensor->dimensions; i-- > 0;) {
    contiguous &= tensor->strides == nullptr || tensor->shape[i] == 1 || tensor->strides[i] == size;
    size *= tensor->shape[i];
  }
  if (!contiguous && size > 0) refuse("is not contiguous; make a contiguous copy of it");
  type_name_ = fmt::format("DLPack's type {} of {} bits", tensor->type.code, tensor->type.bits);
  type_ = type_of_dlpack(tensor->type);
  data_ = static_cast<std::byte*>(tensor->data) + tensor->byte_offset;
  size_ = static_cast<std::size_t>(size);
  item_ = (tensor->type.bits * tensor->type.lanes + 7) / 8;
}

void ForeignArray::refuse(const std::string& problem) const {
  throw py::value_error(fmt::format("{} {}", what_, problem));
}

void ForeignArray::refuse_type(const char* wanted) const {
  refuse(fmt::format("has items of {}; it must be an array of {}", type_name_, wanted));
}

}  // namespace signvote::python
