#include "learn/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

#include "base/numbers.h"
#include "base/text.h"
#include "signvote/error.h"

namespace signvote {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMostDimensions = 32;  // as NumPy has it
constexpr std::string_view kUsable[] = {"|u1", "|i1", "|b1", "<u2", "<u4", "<u8",
                                        "<i2", "<i4", "<i8", "<f4", "<f8"};

[[noreturn]] void refuse(const std::string& what) { throw DataError(what); }

/// Follows a header such as {'descr': '<f4', 'fortran_order': False, 'shape': (60, 3), }.
class Header {
 public:
  explicit Header(std::string_view text) : rest_(text) {}

  void read(NpyArray& array) {
    expect('{');
    bool has_type = false, has_order = false, has_shape = false;
    while (!take('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr" && !has_type) {
        if (!begins_with('\'') && !begins_with('"'))
          refuse("has rows of several fields; save a plain array of numbers");
        array.type = quoted();
        has_type = true;
      } else if (key == "fortran_order" && !has_order) {
        if (word() == "True")
          refuse("is in Fortran order; save it with numpy.save(FILE, numpy.ascontiguousarray(a))");
        has_order = true;
      } else if (key == "shape" && !has_shape) {
        array.shape = tuple();
        has_shape = true;
      } else {
        refuse(fmt::format("has '{}' in its header, which is not one of descr, fortran_order and shape",
                           printable(key, 40)));
      }
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    if (!has_type || !has_order || !has_shape) refuse("has a header without type, order or shape");
  }

 private:
  void skip_spaces() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n"), rest_.size())); }

  bool begins_with(char c) {
    skip_spaces();
    return !rest_.empty() && rest_.front() == c;
  }

  bool take(char c) {
    if (!begins_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void expect(char c) {
    if (!take(c)) refuse(fmt::format("has a damaged header: no '{}' where one belongs", c));
  }

  std::string_view part(std::size_t length) {
    const std::string_view text = rest_.substr(0, length);
    rest_.remove_prefix(text.size());
    return text;
  }

  std::string_view quoted() {
    skip_spaces();
    const char quote = rest_.empty() ? ' ' : rest_.front();
    const std::size_t end = rest_.find(quote, 1);
    if ((quote != '\'' && quote != '"') || end == std::string_view::npos)
      refuse("has a damaged header: a text without quotes");
    return part(end + 1).substr(1, end - 1);
  }

  std::string_view word() {
    skip_spaces();
    return part(std::min(rest_.find_first_of(" ,}"), rest_.size()));
  }

  Shape tuple() {
    Shape shape;
    expect('(');
    while (!take(')')) {
      skip_spaces();
      const std::string digits(part(std::min(rest_.find_first_not_of("0123456789"), rest_.size())));
      const auto size = parse_number<std::uint64_t>(digits);
      if (!size) refuse("has a damaged header: its shape is not of whole numbers");
      if (shape.size() == kMostDimensions) refuse("has more than 32 dimensions");
      shape.push_back(*size);
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    return shape;
  }

  std::string_view rest_;
};

/// Copies the elements, which are of type From.
template <class From, class To>
std::vector<To> convert(std::span<const std::byte> data) {
  std::vector<To> result(data.size() / sizeof(From));
  for (std::size_t i = 0; i < result.size(); ++i) {
    From element;
    std::memcpy(&element, data.data() + i * sizeof(From), sizeof(From));
    result[i] = static_cast<To>(element);
  }
  return result;
}

}  // namespace

NpyArray read_npy(std::span<const std::byte> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (!text.starts_with(kMagic.substr(0, text.size())) || text.empty())
    refuse("is not a .npy file; write it with numpy.save");
  if (text.size() < 8) refuse(fmt::format("is truncated: {} bytes, not even a header", text.size()));
  const auto version = static_cast<unsigned char>(text[6]);
  if (version < 1 || version > 3)
    refuse(fmt::format("is of version {} of the .npy format; 1 to 3 are known", version));
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  if (text.size() < 8 + length_bytes)
    refuse(fmt::format("is truncated: {} bytes, not even a header", text.size()));
  std::uint32_t length = 0;
  std::memcpy(&length, text.data() + 8, length_bytes);
  const std::size_t begin = 8 + length_bytes;
  if (length > text.size() - begin)
    refuse(fmt::format("is truncated: {} bytes of a header of {}", text.size() - begin, length));
  NpyArray array;
  Header(text.substr(begin, length)).read(array);
  if (std::ranges::find(kUsable, array.type) == std::end(kUsable))
    refuse(fmt::format("is of the type '{}'; save it as uint8, float32 or a whole number, little-endian",
                       printable(array.type, 20)));
  if (array.shape.empty()) refuse("has no dimensions; its first must be the number of samples");
  array.data = file.subspan(begin + length);
  std::uint64_t bytes = array.width();
  for (const std::size_t size : array.shape) {
    if (size == 0) refuse(fmt::format("is empty: its shape is ({})", fmt::join(array.shape, ", ")));
    if (bytes > UINT64_MAX / 2 / size)
      refuse(fmt::format("has the shape ({}), which is too large", fmt::join(array.shape, ", ")));
    bytes *= size;
  }
  if (bytes != array.data.size())
    refuse(fmt::format("is {}: {} bytes after its header, where the shape ({}) of '{}' takes {}",
                       array.data.size() < bytes ? "truncated" : "too long", array.data.size(),
                       fmt::join(array.shape, ", "), array.type, bytes));
  return array;
}

std::vector<std::int64_t> whole_numbers(const NpyArray& array) {
  using To = std::int64_t;
  const bool with_sign = array.type[1] == 'i';
  switch (array.width()) {
    case 1:
      return with_sign ? convert<std::int8_t, To>(array.data) : convert<std::uint8_t, To>(array.data);
    case 2:
      return with_sign ? convert<std::int16_t, To>(array.data) : convert<std::uint16_t, To>(array.data);
    case 4:
      return with_sign ? convert<std::int32_t, To>(array.data) : convert<std::uint32_t, To>(array.data);
    default:
      break;
  }
  std::vector<To> numbers = convert<std::int64_t, To>(array.data);
  if (!with_sign)
    if (const auto wrapped = std::ranges::find_if(numbers, [](To n) { return n < 0; });
        wrapped != numbers.end())
      refuse(fmt::format("has {} as element {}, which is too large", static_cast<std::uint64_t>(*wrapped),
                         wrapped - numbers.begin()));
  return numbers;
}

std::vector<float> floats(const NpyArray& array) {
  return array.width() == 4 ? convert<float, float>(array.data) : convert<double, float>(array.data);
}

std::vector<std::byte> write_npy(std::span<const float> values, const Shape& shape) {
  std::string text(kMagic);
  text += std::string("\1\0", 2);  // the version
  std::string header =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}", fmt::join(shape, ", "));
  header.append(63 - (text.size() + 2 + header.size()) % 64, ' ');  // so that the values begin at 64 * k
  header += '\n';
  text += static_cast<char>(header.size() % 256);
  text += static_cast<char>(header.size() / 256);
  text += header;
  std::vector<std::byte> file(text.size() + values.size_bytes());
  std::memcpy(file.data(), text.data(), text.size());
  std::memcpy(file.data() + text.size(), values.data(), values.size_bytes());
  return file;
}

}  // namespace signvote
