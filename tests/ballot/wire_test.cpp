// Ballots and verdicts survive the wire bit for bit. Damaged, foreign, hostile and non-canonical bytes
// are refused with one line that says why. Messages are built and changed here by the offsets in
// docs/wire_format.md, not by the code under test.
#include "signvote/wire.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <xxhash.h>
#include <zstd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <string_view>

namespace signvote {

namespace detail {  // in body.cpp
std::uint64_t gather_bits(std::uint64_t value, std::uint64_t mask);
std::uint64_t scatter_bits(std::uint64_t value, std::uint64_t mask);
}  // namespace detail

namespace {

using Bytes = std::vector<std::byte>;

// docs/wire_format.md
enum Offset : std::size_t {
  kVersion = 4,
  kKind = 6,
  kCodec = 7,
  kRunId = 8,
  kRound = 16,
  kWorker = 24,
  kMaskEncoding = 28,
  kSize = 32,
  kMaskBytes = 40,
  kBodyBytes = 48,
  kChecksum = 56,
};
enum : std::uint32_t { kNone = 0, kRaw = 1, kZstd = 2 };
constexpr std::uint8_t kDense = 1, kMasked = 2;

template <class T>
void put(Bytes& message, std::size_t offset, T value) {
  std::memcpy(message.data() + offset, &value, sizeof value);
}

template <class T>
T get(const Bytes& message, std::size_t offset) {
  T value;
  std::memcpy(&value, message.data() + offset, sizeof value);
  return value;
}

void seal(Bytes& message) {
  Bytes covered(message.begin(), message.begin() + kChecksum);
  covered.insert(covered.end(), message.begin() + kHeaderBytes, message.end());
  put<std::uint64_t>(message, kChecksum, XXH3_64bits(covered.data(), covered.size()));
}

Bytes to_bytes(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Bytes zstd_frame(const Bytes& content) {
  Bytes frame(ZSTD_compressBound(content.size()));
  frame.resize(ZSTD_compress(frame.data(), frame.size(), content.data(), content.size(), 1));
  return frame;
}

// A sealed message of run 0, round 0, worker 0 that need not make sense.
Bytes message_of(std::uint64_t size, std::uint8_t codec, std::uint32_t mask_encoding, const Bytes& mask,
                 const Bytes& signs) {
  Bytes message = Bytes(kHeaderBytes) + mask + signs;
  std::memcpy(message.data(), "SGNV", 4);
  put<std::uint16_t>(message, kVersion, 1);
  put<std::uint8_t>(message, kKind, 1);
  put<std::uint8_t>(message, kCodec, codec);
  put<std::uint32_t>(message, kMaskEncoding, mask_encoding);
  put<std::uint64_t>(message, kSize, size);
  put<std::uint64_t>(message, kMaskBytes, mask.size());
  put<std::uint64_t>(message, kBodyBytes, mask.size() + signs.size());
  seal(message);
  return message;
}

std::string show(const SignVector& signs) {
  std::string text;
  for (std::size_t i = 0; i < signs.size(); ++i) text += "-0+"[signs[i] + 1];
  return text;
}

SignVector parse(std::string_view text) {
  SignVector signs(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) signs.set(i, text[i] == '+' ? 1 : text[i] == '-' ? -1 : 0);
  return signs;
}

Bytes encoded(const MessageHeader& header, const SignVector& signs) {
  Bytes out = to_bytes({1, 2, 3});  // what it held does not matter
  encode(header, signs, out);
  return out;
}

MessageHeader about(const SignVector& signs) { return {.size = signs.size()}; }

// Empty if the message decodes, else the problem.
std::string problem_of(const Bytes& message, const MessageHeader& expected) {
  SignVector signs;
  std::string problem;
  if (decode(message, expected, signs, problem)) return "";
  return problem.empty() ? "refused without a reason" : problem;
}

bool is_canonical(const SignVector& signs) {
  SignVector again(signs.size());
  for (std::size_t i = 0; i < signs.size(); ++i) again.set(i, signs[i]);
  return again == signs;
}

enum class Shape { all_present, none_present, scattered, runs, one_abstains };

SignVector make_signs(std::size_t n, Shape shape, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  SignVector signs(n);
  const std::uint64_t share = random() % 101;  // per cent present
  bool present = random() % 2 == 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (shape == Shape::scattered) present = random() % 100 < share;
    if (shape == Shape::runs && random() % 150 == 0) present = !present;
    if (shape == Shape::all_present || shape == Shape::one_abstains) present = true;
    if (shape != Shape::none_present && present) signs.set(i, random() % 2 == 0 ? 1 : -1);
  }
  if (shape == Shape::one_abstains && n > 0) signs.set(random() % n, 0);
  return signs;
}

SignVector any_signs() {
  const auto n = *rc::gen::oneOf(
      rc::gen::element<std::size_t>(0, 1, 2, 3, 5, 7, 8, 9, 63, 64, 65, 127, 128, 129, 511, 1023, 1024, 1025),
      rc::gen::inRange<std::size_t>(0, 5001));
  const auto shape = *rc::gen::element(Shape::all_present, Shape::none_present, Shape::scattered, Shape::runs,
                                       Shape::one_abstains);
  return make_signs(n, shape, *rc::gen::arbitrary<std::uint64_t>());
}

// One message of each encoding: dense, raw mask, zstd mask.
std::vector<SignVector> one_of_each() {
  SignVector long_runs = make_signs(1003, Shape::all_present, 3);
  for (std::size_t i = 200; i < 800; ++i) long_runs.set(i, 0);
  return {make_signs(21, Shape::all_present, 1), parse("+-0-+0000-+-+"), long_runs};
}

TEST(Wire, round_trip_is_exact) {
  EXPECT_TRUE(rc::check("decode undoes encode", [](std::uint64_t run_id, std::uint64_t round,
                                                   std::uint32_t worker, bool verdict) {
    const SignVector signs = any_signs();
    const MessageHeader header{verdict ? MessageKind::verdict : MessageKind::ballot, run_id, round,
                               verdict ? 0 : worker, signs.size()};
    const Bytes message = encoded(header, signs);

    MessageHeader read;
    std::string problem;
    RC_ASSERT(decode_header(message, read, problem));
    RC_ASSERT(read == header);
    SignVector back = make_signs(77, Shape::all_present, 1);  // what it held does not matter
    RC_ASSERT(decode(message, header, back, problem));
    RC_ASSERT(show(back) == show(signs));
    RC_ASSERT(back == signs);
    RC_ASSERT(encoded(header, back) == message);
  }));
}

TEST(Wire, codec_and_lengths_are_as_documented) {
  EXPECT_TRUE(rc::check("codec and lengths", [] {
    const SignVector signs = any_signs();
    const std::size_t n = signs.size(), packed = (n + 7) / 8;
    std::size_t present = 0;
    for (std::size_t i = 0; i < n; ++i) present += signs[i] != 0;
    const Bytes message = encoded(about(signs), signs);

    RC_ASSERT(message.size() <= kHeaderBytes + 2 * packed);
    RC_ASSERT(get<std::uint64_t>(message, kBodyBytes) == message.size() - kHeaderBytes);
    const auto mask_bytes = get<std::uint64_t>(message, kMaskBytes);
    const auto mask_encoding = get<std::uint32_t>(message, kMaskEncoding);
    if (present == n) {
      RC_ASSERT(get<std::uint8_t>(message, kCodec) == kDense);
      RC_ASSERT(mask_encoding == kNone);
      RC_ASSERT(mask_bytes == 0u);
      RC_ASSERT(message.size() == kHeaderBytes + packed);
    } else {
      RC_ASSERT(get<std::uint8_t>(message, kCodec) == kMasked);
      RC_ASSERT(mask_bytes <= packed);
      RC_ASSERT(mask_encoding == (mask_bytes < packed ? kZstd : kRaw));
      RC_ASSERT(message.size() == kHeaderBytes + mask_bytes + (present + 7) / 8);
    }
  }));
}

// From masks that zstd cannot shrink to those that it can, through the length where it gains nothing.
TEST(Wire, zstd_is_used_only_where_it_is_smaller) {
  bool raw = false, zstd = false;
  for (std::size_t n = 1; n < 400; ++n) {
    const SignVector signs(n);
    const Bytes message = encoded(about(signs), signs);
    EXPECT_EQ(problem_of(message, about(signs)), "") << n;
    (get<std::uint32_t>(message, kMaskEncoding) == kRaw ? raw : zstd) = true;
  }
  EXPECT_TRUE(raw && zstd);
}

TEST(Wire, portable_bit_moves_equal_a_loop_over_bits) {
  EXPECT_TRUE(rc::check("gather and scatter", [](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const std::uint64_t value = random(), a = random(), b = random();
    const std::uint64_t runs = (~std::uint64_t{0} << (a % 64)) ^ (~std::uint64_t{0} << (b % 64));
    for (const std::uint64_t mask : {a, a & b, a | b, runs, ~runs, std::uint64_t{0}, ~std::uint64_t{0}}) {
      std::uint64_t gathered = 0, scattered = 0;
      for (int i = 0, k = 0; i < 64; ++i)
        if ((mask >> i & 1) != 0) {
          gathered |= (value >> i & 1) << k;
          scattered |= (value >> k & 1) << i;
          ++k;
        }
      RC_ASSERT(detail::gather_bits(value, mask) == gathered);
      RC_ASSERT(detail::scatter_bits(value, mask) == scattered);
    }
  }));
}

TEST(Wire, every_flipped_bit_is_refused) {
  for (const SignVector& signs : one_of_each()) {
    Bytes message = encoded(about(signs), signs);
    for (std::size_t bit = 0; bit < message.size() * 8; ++bit) {
      const auto flip = static_cast<std::byte>(1 << (bit % 8));
      message[bit / 8] ^= flip;
      EXPECT_NE(problem_of(message, about(signs)), "") << "bit " << bit << " of " << show(signs);
      message[bit / 8] ^= flip;
    }
    EXPECT_EQ(problem_of(message, about(signs)), "");
  }
}

TEST(Wire, every_other_length_is_refused) {
  for (const SignVector& signs : one_of_each()) {
    const Bytes message = encoded(about(signs), signs);
    for (std::size_t length = 0; length <= message.size() + 70; ++length) {
      Bytes other = message;
      other.resize(length);
      if (length == message.size()) continue;
      EXPECT_NE(problem_of(other, about(signs)), "") << length;
      MessageHeader header;
      std::string problem;
      EXPECT_FALSE(decode_header(other, header, problem)) << length;
      EXPECT_NE(problem, "");
      if (length < kHeaderBytes) continue;
      put<std::uint64_t>(other, kBodyBytes, length - kHeaderBytes);  // a liar that is consistent
      seal(other);
      EXPECT_NE(problem_of(other, about(signs)), "") << length;
    }
  }
}

// One to three bytes changed, now and then another length, and the checksum set right again.
Bytes mutated(Bytes message, std::mt19937_64& random) {
  for (std::size_t k = 1 + random() % 3; k > 0; --k) {
    const bool in_header = random() % 4 == 0 || message.size() == kHeaderBytes;
    const std::size_t at = in_header ? 4 + random() % (kChecksum - 4)
                                     : kHeaderBytes + random() % (message.size() - kHeaderBytes);
    message[at] = random() % 2 == 0 ? message[at] ^ static_cast<std::byte>(1 << random() % 8)
                                    : static_cast<std::byte>(random());
  }
  if (random() % 8 == 0) message.resize(kHeaderBytes + random() % (message.size() + 1));
  if (random() % 2 == 0) put<std::uint64_t>(message, kBodyBytes, message.size() - kHeaderBytes);
  seal(message);
  return message;
}

TEST(Wire, sealed_mutations_are_refused_or_canonical) {
  std::size_t decoded = 0, refused = 0;
  EXPECT_TRUE(rc::check("sealed mutations", [&](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const SignVector original = any_signs();
    const Bytes valid = encoded(about(original), original);
    for (int i = 0; i < 30; ++i) {
      const Bytes message = mutated(valid, random);
      MessageHeader header = about(original), claimed;
      SignVector signs, back;
      std::string problem;
      if (decode_header(message, claimed, problem) && claimed.size <= 100'000) header = claimed;
      problem.clear();
      if (!decode(message, header, signs, problem)) {
        RC_ASSERT(!problem.empty());
        RC_ASSERT(problem.find_first_of("\r\n") == std::string::npos);
        ++refused;
        continue;
      }
      RC_ASSERT(signs.size() == header.size);
      RC_ASSERT(is_canonical(signs));
      RC_ASSERT(decode(encoded(header, signs), header, back, problem));
      RC_ASSERT(back == signs);
      ++decoded;
    }
  }));
  EXPECT_GT(decoded, 100u);  // both ways were really taken
  EXPECT_GT(refused, 100u);
}

TEST(Wire, what_is_not_canonical_is_refused) {
  const Bytes none, mask = to_bytes({0b0101'0101, 0b01}), signs = to_bytes({0b0'1011});
  ASSERT_EQ(problem_of(message_of(10, kMasked, kRaw, mask, signs), {.size = 10}), "");
  ASSERT_EQ(problem_of(message_of(10, kDense, kNone, none, to_bytes({255, 3})), {.size = 10}), "");
  Bytes plane(125, std::byte{0});  // 1,000 coordinates, of which the first eight are present
  plane[0] = std::byte{255};
  Bytes tail = plane;  // bits past the 999th coordinate
  tail[124] = std::byte{128};
  const Bytes frame = zstd_frame(plane), byte = to_bytes({7});
  ASSERT_EQ(problem_of(message_of(1000, kMasked, kZstd, frame, byte), {.size = 1000}), "");
  const Bytes half(plane.begin(), plane.end() - 60), rest(60);
  const Bytes skippable = to_bytes({0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0});
  // zstd 0.7: 125 bytes in one segment, a block of 125 times zero, the end block.
  const Bytes legacy = to_bytes({0x27, 0xb5, 0x2f, 0xfd, 0x20, 125, 0x80, 0, 125, 0, 0xc0, 0, 0});

  struct Case {
    Bytes message;
    std::uint64_t size;
    std::string_view problem;
  };
  const Case cases[] = {
      {message_of(10, kDense, kNone, none, to_bytes({255, 7})), 10, "sign bits past the last coordinate"},
      {message_of(10, kDense, kRaw, none, to_bytes({255, 3})), 10, "cannot have"},
      {message_of(10, kDense, kNone, to_bytes({255}), to_bytes({3})), 10, "cannot have"},
      {message_of(10, kDense, kNone, none, to_bytes({255})), 10, "cannot have"},
      {message_of(0, kDense, kNone, none, byte), 0, "cannot have"},
      {message_of(0, kMasked, kRaw, none, none), 0, "no coordinate abstains"},
      {message_of(0, kMasked, kZstd, none, none), 0, "cannot have"},
      {message_of(10, kMasked, kNone, mask, signs), 10, "cannot have"},
      {message_of(10, kMasked, 3, mask, signs), 10, "cannot have"},
      {message_of(10, kMasked, kRaw, to_bytes({0b0101'0101, 0b101}), signs), 10, "mask has bits past"},
      {message_of(10, kMasked, kRaw, mask, to_bytes({0b10'1011})), 10, "past the last present coordinate"},
      {message_of(10, kMasked, kRaw, mask, none), 10, "0 sign bytes for 5 present"},
      {message_of(10, kMasked, kRaw, mask, to_bytes({1, 0})), 10, "2 sign bytes for 5 present"},
      {message_of(10, kMasked, kRaw, mask, to_bytes({1, 0, 0})), 10, "cannot have"},
      {message_of(10, kMasked, kRaw, to_bytes({255, 3}), to_bytes({1, 0})), 10, "no coordinate abstains"},
      {message_of(10, kMasked, kZstd, zstd_frame(mask), signs), 10, "cannot have"},  // not smaller than raw
      {message_of(1000, kMasked, kZstd, none, byte), 1000, "not one whole zstd frame"},
      {message_of(1000, kMasked, kZstd, Bytes(frame.begin(), frame.end() - 1), byte), 1000, "not one whole"},
      {message_of(1000, kMasked, kZstd, frame + skippable, byte), 1000, "not one whole zstd frame"},
      {message_of(1000, kMasked, kZstd, skippable + frame, byte), 1000, "not one whole zstd frame"},
      {message_of(1000, kMasked, kZstd, legacy, none), 1000, "not one whole zstd frame"},
      {message_of(1000, kMasked, kZstd, zstd_frame(half) + zstd_frame(rest), byte), 1000, "not one whole"},
      {message_of(1000, kMasked, kZstd, zstd_frame(half), byte), 1000, "into 65 bytes, not 125"},
      {message_of(1000, kMasked, kZstd, zstd_frame(plane + byte), byte), 1000, "does not decompress"},
      {message_of(1000, kMasked, kZstd, zstd_frame(Bytes(1 << 20)), none), 1000, "does not decompress"},
      {message_of(999, kMasked, kZstd, zstd_frame(tail), byte), 999, "mask has bits past"},
  };
  for (const Case& c : cases) {
    const std::string problem = problem_of(c.message, {.size = c.size});
    EXPECT_NE(problem.find(c.problem), std::string::npos) << "case " << &c - cases << ": '" << problem << "'";
  }
}

TEST(Wire, hostile_sizes_are_refused) {
  const std::uint64_t top = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t size : {top, top - 6, top - 7, top - 63, top / 2, top / 8 + 1})
    for (const std::uint64_t mask_bytes : {top, top - 63, top / 8 + 1, std::uint64_t{1}, std::uint64_t{0}})
      for (const std::uint64_t body_bytes : {top, top - 63, top / 8 + 1, mask_bytes + 1, std::uint64_t{2}})
        for (const std::uint8_t codec : {kDense, kMasked})
          for (const std::uint32_t mask_encoding : {kNone, kRaw, kZstd}) {
            Bytes message = message_of(size, codec, mask_encoding, {}, Bytes(2));
            put(message, kMaskBytes, mask_bytes);
            put(message, kBodyBytes, body_bytes);
            seal(message);
            EXPECT_NE(problem_of(message, {.size = 16}), "");
            // The claim may pass only where a compressed mask could make it true.
            MessageHeader header;
            std::string problem;
            if (decode_header(message, header, problem)) {
              EXPECT_TRUE(codec == kMasked && mask_encoding == kZstd && mask_bytes <= 2 && body_bytes == 2);
            }
          }
}

TEST(Wire, each_foreign_field_is_named) {
  const SignVector signs = make_signs(70, Shape::scattered, 1);
  const MessageHeader header{MessageKind::ballot, 0xabc, 7, 3, 70};
  const Bytes message = encoded(header, signs);
  const auto expecting = [&](auto change) {
    MessageHeader expected = header;
    change(expected);
    return problem_of(message, expected);
  };
  EXPECT_EQ(expecting([](MessageHeader&) {}), "");
  EXPECT_EQ(expecting([](MessageHeader& h) { h.kind = MessageKind::verdict; }),
            "ballot where a verdict was expected");
  EXPECT_EQ(expecting([](MessageHeader& h) { h.run_id = 1; }),
            "ballot of run 0000000000000abc where run 0000000000000001 was expected");
  EXPECT_EQ(expecting([](MessageHeader& h) { h.round = 8; }), "ballot of round 7 where round 8 was expected");
  EXPECT_EQ(expecting([](MessageHeader& h) { h.worker = 4; }),
            "ballot of worker 3 where worker 4 was expected");
  EXPECT_EQ(expecting([](MessageHeader& h) { h.size = 71; }),
            "ballot of 70 coordinates where 71 were expected");

  const auto changed = [&](std::size_t offset, auto value) {
    Bytes other = message;
    put(other, offset, value);
    seal(other);
    return problem_of(other, header);
  };
  EXPECT_EQ(changed(0, 'X'), "not a signvote message: it does not begin with 'SGNV'");
  EXPECT_EQ(changed(kVersion, std::uint16_t{2}),
            "message of wire version 2 where version 1 is spoken; run the same signvote on both sides");
  EXPECT_EQ(changed(kKind, std::uint8_t{0}), "message of unknown kind 0");
  EXPECT_EQ(changed(kKind, std::uint8_t{2}), "verdict that names worker 3; a verdict has none");
  EXPECT_EQ(changed(kCodec, std::uint8_t{3}), "ballot in unknown codec 3");
  Bytes damaged = message;
  damaged.back() ^= std::byte{1};
  EXPECT_EQ(problem_of(damaged, header), "ballot damaged on the way: its checksum does not match");
}

// The mnist cnn has a linear layer of 512 units with 1,024 weights each. A dead unit is a run of
// 1,024 zeros; a dead input is a zero every 1,024 coordinates.
TEST(Wire, dead_units_cost_less_than_a_bit_per_coordinate) {
  constexpr std::size_t n = 582'026, first = 52'096, units = 512, inputs = 1024;
  SignVector rows = make_signs(n, Shape::all_present, 1), columns = rows;
  std::mt19937_64 random(2);
  std::array<bool, inputs> dead{};
  for (bool& d : dead) d = random() % 5 == 0;
  for (std::size_t unit = 0; unit < units; ++unit) {
    const bool dead_unit = unit % 9 < 2;
    for (std::size_t i = 0; i < inputs; ++i) {
      if (dead_unit) rows.set(first + unit * inputs + i, 0);
      if (dead[i]) columns.set(first + unit * inputs + i, 0);
    }
  }
  for (const SignVector& signs : {rows, columns}) {
    const Bytes message = encoded(about(signs), signs);
    EXPECT_LT(static_cast<double>(message.size()) * 8 / n, 0.95);
    EXPECT_LT(get<std::uint64_t>(message, kMaskBytes), 2'000u);
    EXPECT_EQ(problem_of(message, about(signs)), "");
  }
}

Bytes golden(const std::string& file) {
  std::ifstream in(std::string(SIGNVOTE_TEST_DIR "/ballot/golden/") + file);
  EXPECT_TRUE(in) << file;
  Bytes bytes;
  for (std::string pair(2, ' '); in >> pair[0] >> pair[1];)
    bytes.push_back(static_cast<std::byte>(std::stoi(pair, nullptr, 16)));
  return bytes;
}

// Messages of version 1 stay readable. Other versions of zstd may compress differently, so of the golden
// message with a zstd mask only the meaning is compared.
TEST(Wire, golden_messages_of_version_1) {
  SignVector runs(2000);
  for (std::size_t i = 0; i < runs.size(); ++i) runs.set(i, i >= 500 && i < 1500 ? 0 : i % 3 == 0 ? -1 : 1);
  struct Golden {
    std::string file;
    MessageHeader header;
    SignVector signs;
  };
  const Golden goldens[] = {
      {"dense_v1.hex",
       {MessageKind::ballot, 0x0123456789abcdef, 258, 772, 21},
       parse("+--+-+++--++---++++--")},
      {"masked_raw_v1.hex",
       {MessageKind::verdict, 0xfedcba9876543210, 1, 0, 21},
       parse("+0-+0+-+0-++0-0++0+-0")},
      {"masked_zstd_v1.hex", {MessageKind::ballot, 42, 3000, 14, 2000}, runs},
  };
  for (const Golden& g : goldens) {
    const Bytes message = golden(g.file);
    SignVector signs;
    std::string problem;
    ASSERT_TRUE(decode(message, g.header, signs, problem)) << g.file << ": " << problem;
    EXPECT_EQ(show(signs), show(g.signs)) << g.file;
    const Bytes again = encoded(g.header, g.signs);
    if (g.file == "masked_zstd_v1.hex") {
      EXPECT_EQ(get<std::uint32_t>(message, kMaskEncoding), kZstd);
      EXPECT_EQ(problem_of(again, g.header), "");
    } else {
      EXPECT_EQ(again, message) << g.file;
    }
  }
}

}  // namespace
}  // namespace signvote
