// SHA-256 against the examples that NIST publishes (FIPS 180-4 and the CAVP byte vectors).
#include "base/sha256.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string_view>

namespace signvote {
namespace {

std::string hex_of(std::string_view text) { return sha256_hex(std::as_bytes(std::span(text))); }

TEST(Sha256, nist_examples) {
  EXPECT_EQ(hex_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex_of("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                   "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu"),
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(hex_of("\xbd"), "68325720aabd7c82f30f554b313d0570c95accbb7dc4b5aae11204c08ffe732b");
  EXPECT_EQ(hex_of("\xc9\x8c\x8e\x55"), "7abc22c0ae5af26ce93dbb94433a0e0b2e119d014f8e7f65bd56c61ccccd9504");
  EXPECT_EQ(hex_of(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, every_byte_counts) {
  EXPECT_TRUE(rc::check("another byte anywhere, another digest of 64 lower-case digits", [] {
    auto text = *rc::gen::nonEmpty<std::string>();
    const std::string digest = hex_of(text);
    RC_ASSERT(digest.size() == 64U);
    RC_ASSERT(digest.find_first_not_of("0123456789abcdef") == std::string::npos);
    const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
    text[at] = static_cast<char>(text[at] ^ *rc::gen::inRange(1, 256));
    RC_ASSERT(hex_of(text) != digest);
  }));
}

}  // namespace
}  // namespace signvote
