// The reader of .npy files: what NumPy writes is read back, all else is refused with a reason.
#include "learn/npy.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstring>
#include <span>
#include <string>

#include "signvote/error.h"

namespace signvote {
namespace {

/// A file of version 1, as numpy.save writes it.
std::string npy(const std::string& type, const std::string& shape, const std::string& data,
                const std::string& order = "False") {
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}", type, order, shape);
  header.resize((header.size() + 11 + 63) / 64 * 64 - 11, ' ');
  header += '\n';
  const auto length = static_cast<std::uint16_t>(header.size());
  return "\x93NUMPY\x01" + std::string(1, '\0') + std::string(1, static_cast<char>(length & 0xFF)) +
         std::string(1, static_cast<char>(length >> 8)) + header + data;
}

std::span<const std::byte> bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string refusal(const std::string& file) {
  try {
    read_npy(bytes(file));
  } catch (const DataError& error) {
    return error.what();
  }
  return "taken";
}

template <class T>
std::string raw(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
}

template <class T>
void check_whole(const std::string& type) {
  EXPECT_TRUE(rc::check("whole numbers of " + type, [&](const std::vector<T>& numbers) {
    RC_PRE(!numbers.empty());
    const std::string file = npy(type, fmt::format("({},)", numbers.size()), raw(numbers));
    const NpyArray array = read_npy(bytes(file));
    RC_ASSERT(array.is_whole());
    RC_ASSERT(whole_numbers(array) == std::vector<std::int64_t>(numbers.begin(), numbers.end()));
  }));
}

TEST(Npy, reads_all_types_that_can_be_used) {
  check_whole<std::uint8_t>("|u1");
  check_whole<std::int8_t>("|i1");
  check_whole<std::uint16_t>("<u2");
  check_whole<std::int16_t>("<i2");
  check_whole<std::uint32_t>("<u4");
  check_whole<std::int32_t>("<i4");
  check_whole<std::int64_t>("<i8");
  const std::vector<double> doubles = {0.5, -2, 1e10};
  const std::string file = npy("<f8", "(3,)", raw(doubles));
  EXPECT_EQ(floats(read_npy(bytes(file))), (std::vector<float>{0.5F, -2, 1e10F}));
  const std::string large = npy("<u8", "(2,)", raw(std::vector<std::uint64_t>{1, 1ULL << 63}));
  EXPECT_THROW(whole_numbers(read_npy(bytes(large))), DataError);
}

TEST(Npy, the_shape_says_how_many_bytes_there_are) {
  EXPECT_TRUE(rc::check("a whole file is read, a cut or longer one refused", [] {
    const auto rows = *rc::gen::inRange<std::size_t>(1, 5), columns = *rc::gen::inRange<std::size_t>(1, 5);
    const std::string file =
        npy("<f4", fmt::format("({}, {})", rows, columns), std::string(rows * columns * 4, 'x'));
    RC_ASSERT(read_npy(bytes(file)).shape == (Shape{rows, columns}));
    const auto kept = *rc::gen::inRange<std::size_t>(0, file.size());
    RC_ASSERT(refusal(file.substr(0, kept)) != "taken");
    RC_ASSERT(refusal(file + "x").find("is too long") == 0);
  }));
}

TEST(Npy, what_cannot_be_used_is_refused_with_the_reason) {
  EXPECT_NE(refusal("PK").find("is not a .npy file"), std::string::npos);
  EXPECT_NE(refusal(npy("<f4", "(1,)", "1234", "True")).find("Fortran order"), std::string::npos);
  for (const char* type : {"<f2", ">f4", "<c8", "|S4", "|O", "<U1", "", "<f44"})
    EXPECT_NE(refusal(npy(type, "(1,)", "1234")).find("is of the type"), std::string::npos) << type;
  EXPECT_NE(refusal(npy("|u1", "()", "1")).find("no dimensions"), std::string::npos);
  EXPECT_NE(refusal(npy("|u1", "(0, 3)", "")).find("is empty"), std::string::npos);
  EXPECT_NE(refusal(npy("|u1", "(4294967296, 4294967296, 4294967296)", "")).find("too large"),
            std::string::npos);
  EXPECT_NE(refusal(npy("|u1", "(99999999999999999999999,)", "")).find("damaged header"), std::string::npos);
  std::string version = npy("|u1", "(1,)", "1");
  version[6] = 9;
  EXPECT_NE(refusal(version).find("version 9"), std::string::npos);
}

TEST(Npy, random_headers_are_refused_or_sound) {
  EXPECT_TRUE(rc::check("a changed byte", [] {
    std::string file = npy("<i4", "(2, 2)", std::string(16, '\1'));
    file[*rc::gen::inRange<std::size_t>(0, file.size())] = *rc::gen::arbitrary<char>();
    try {
      const NpyArray array = read_npy(bytes(file));
      RC_ASSERT(elements_of(array.shape) * array.width() == array.data.size());
    } catch (const DataError&) {
    }
  }));
}

}  // namespace
}  // namespace signvote
