// Pickles and archives that nobody's torch would write. What torch writes is read in models_test.cpp.
#include "learn/state_dict.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <zip.h>

#include <cstring>
#include <numeric>

#include "signvote/error.h"

namespace signvote {
namespace {

// --- Pickles, put together by hand -----------------------------------------------------------------------

template <class Number>
std::string raw(Number value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string whole(std::int64_t value) { return "\x8a\x08" + raw(value); }

std::string text(const std::string& value) {
  return raw('X') + raw(static_cast<std::uint32_t>(value.size())) + value;
}

std::string tuple(const std::string& items) { return "(" + items + "t"; }

std::string tuple(const std::vector<std::int64_t>& numbers) {
  std::string items;
  for (const std::int64_t number : numbers) items += whole(number);
  return tuple(items);
}

std::string storage(const std::string& entry, const std::string& type, std::int64_t count) {
  return tuple(text("storage") + "ctorch\n" + type + "\n" + text(entry) + text("cpu") + whole(count)) + "Q";
}

std::string tensor(const std::string& storage, std::int64_t offset, const std::vector<std::int64_t>& shape,
                   const std::vector<std::int64_t>& strides) {
  return "ctorch._utils\n_rebuild_tensor_v2\n" +
         tuple(storage + whole(offset) + tuple(shape) + tuple(strides) + "\x89" +
               "ccollections\nOrderedDict\n)R") +
         "R";
}

std::string dict(const std::string& items) { return "\x80\x02}(" + items + "u."; }

const std::string kFloats = storage("0", "FloatStorage", 6);
const std::string kWholes = storage("1", "LongStorage", 2);

std::vector<std::byte> counting(std::size_t bytes) {
  std::vector<std::byte> content(bytes);
  for (std::size_t i = 0; i < bytes; ++i) content[i] = static_cast<std::byte>(i);
  return content;
}

/// With 6 floats and 2 whole numbers.
ArchiveEntries entries(const std::string& pickle) {
  const auto bytes = std::as_bytes(std::span(pickle));
  return {{"model/data.pkl", {bytes.begin(), bytes.end()}},
          {"model/data/0", counting(24)},
          {"model/data/1", counting(16)},
          {"model/version", counting(2)}};
}

/// Why it is refused; "taken" if it is not.
std::string refusal(const std::string& pickle) {
  try {
    read_state_dict(entries(pickle));
  } catch (const DataError& error) {
    const std::string reason = error.what();
    EXPECT_EQ(reason.find('\n'), std::string::npos) << reason;
    return reason;
  }
  return "taken";
}

TEST(StateDict, tensors_are_parts_of_their_storage) {
  const ArchiveEntries archive = entries(dict(text("a") + tensor(kFloats, 1, {2, 2}, {2, 1}) +  //
                                              text("b") + tensor(kWholes, 0, {}, {}) +          //
                                              text("c") + tensor(kFloats, 0, {1, 6}, {99, 1})));
  const StateDict state = read_state_dict(archive);
  ASSERT_EQ(state.size(), 3U);
  const auto* floats = archive.at("model/data/0").data();
  EXPECT_EQ(state.at("a").type, ElementType::float32);
  EXPECT_EQ(state.at("a").shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(state.at("a").bytes.data(), floats + 4);
  EXPECT_EQ(state.at("a").bytes.size(), 16U);
  EXPECT_EQ(state.at("b").type, ElementType::int64);
  EXPECT_TRUE(state.at("b").shape.empty());
  EXPECT_EQ(state.at("b").bytes.size(), 8U);
  EXPECT_EQ(state.at("c").bytes.size(), 24U) << "the stride of a dimension of one means nothing";
  EXPECT_TRUE(read_state_dict(entries(dict(""))).empty());
}

TEST(StateDict, a_file_may_hold_one_tensor) {
  const ArchiveEntries archive = entries("\x80\x02" + tensor(kWholes, 0, {2, 1}, {1, 1}) + ".");
  EXPECT_EQ(read_tensor(archive).shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(read_tensor(archive).bytes.data(), archive.at("model/data/1").data());
  EXPECT_THROW(read_state_dict(archive), DataError);
  EXPECT_THROW(read_tensor(entries(dict(""))), DataError);
}

TEST(StateDict, what_lies_outside_the_storage_is_refused) {
  const auto refused = [](std::int64_t offset, const std::vector<std::int64_t>& shape,
                          const std::vector<std::int64_t>& strides) {
    return refusal(dict(text("a") + tensor(kFloats, offset, shape, strides)));
  };
  constexpr std::int64_t kMost = INT64_MAX;
  EXPECT_EQ(refused(0, {6}, {1}), "taken");
  EXPECT_EQ(refused(6, {0}, {1}), "taken");
  for (const std::int64_t offset : {std::int64_t{1}, std::int64_t{7}, kMost, std::int64_t{-1}, INT64_MIN})
    EXPECT_NE(refused(offset, {6}, {1}).find("beyond the end"), std::string::npos) << offset;
  EXPECT_NE(refused(0, {7}, {1}).find("beyond the end"), std::string::npos);
  EXPECT_NE(refused(0, {kMost}, {1}).find("beyond the end"), std::string::npos);
  EXPECT_NE(refused(0, {1 << 30, 1 << 30, 1 << 30}, {1LL << 60, 1 << 30, 1}).find("too large"),
            std::string::npos);
  EXPECT_NE(refused(0, {-6}, {1}).find("negative"), std::string::npos);
  EXPECT_NE(refused(0, {2, 3}, {1, 2}).find("not contiguous"), std::string::npos);
  EXPECT_NE(refused(0, {2, 3}, {kMost, 1}).find("not contiguous"), std::string::npos);
  EXPECT_NE(refused(0, {6}, {0}).find("not contiguous"), std::string::npos);
  EXPECT_NE(refused(0, {2, 3}, {1}).find("strides"), std::string::npos);
  EXPECT_NE(refused(0, std::vector<std::int64_t>(9, 1), std::vector<std::int64_t>(9, 1)).find("8 dimensions"),
            std::string::npos);
}

TEST(StateDict, storages_are_what_they_say) {
  const auto refused = [](const std::string& storage) {
    return refusal(dict(text("a") + tensor(storage, 0, {1}, {1})));
  };
  EXPECT_EQ(refused(kFloats), "taken");
  for (const std::int64_t count : {std::int64_t{5}, std::int64_t{7}, std::int64_t{-6}, INT64_MAX})
    EXPECT_NE(refused(storage("0", "FloatStorage", count)).find("not as many bytes"), std::string::npos)
        << count;
  EXPECT_NE(refused(storage("2", "FloatStorage", 6)).find("missing"), std::string::npos);
  EXPECT_NE(refused(storage("../version", "FloatStorage", 0)).find("missing"), std::string::npos);
  EXPECT_NE(refused(storage("0", "HalfStorage", 12)).find("torch.HalfStorage"), std::string::npos);
  EXPECT_NE(refused("ctorch\nFloatStorage\n"), "taken");
}

TEST(StateDict, nothing_is_called) {
  const std::string pickle =
      "\x80\x02"
      "cos\nsystem\n" +
      tuple(text("false")) + "R.";
  EXPECT_NE(refusal(pickle).find("os.system"), std::string::npos) << refusal(pickle);
  EXPECT_EQ(refusal("\x80\x02"
                    "c\x1b[2J\nm\n.")
                .find('\x1b'),
            std::string::npos);
  for (const char opcode : {'b', 'o', 'i', '\x81', '\x93', 'e', ']', 'P', '0'})
    EXPECT_NE(refusal(std::string("\x80\x02)") + opcode + ".").find("instruction"), std::string::npos)
        << opcode;
}

TEST(StateDict, depth_and_repetition_cost_nothing) {
  const std::string empty_tuple = "\x80\x02)";
  EXPECT_NE(refusal(empty_tuple + std::string(200'000, '\x85') + ".").find("nested"), std::string::npos);
  EXPECT_NE(refusal("\x80\x02" + std::string(200'000, '(') + std::string(200'000, 't') + ".").find("nested"),
            std::string::npos);
  // Each step doubles what a copy would be.
  std::string doubling = empty_tuple;
  for (int i = 0; i < 100; ++i) doubling += std::string("q\0h\0\x86", 5);
  EXPECT_NE(refusal(doubling + "."), "taken");
  EXPECT_NE(refusal("\x80\x02" + text(std::string(100'000, 'x')) + ".").find("1000 characters"),
            std::string::npos);
}

TEST(StateDict, every_beginning_is_refused) {
  const std::string whole_pickle = dict(text("a") + tensor(kFloats, 0, {2, 3}, {3, 1}));
  EXPECT_EQ(refusal(whole_pickle), "taken");
  EXPECT_NE(refusal(whole_pickle + "."), "taken");
  for (std::size_t length = 0; length < whole_pickle.size(); ++length)
    ASSERT_NE(refusal(whole_pickle.substr(0, length)), "taken") << length;
  EXPECT_TRUE(rc::check("random instructions", [] {
    const auto opcode = rc::gen::elementOf(std::string(")(}tusRQqhjrKMJNX.\x80\x85\x86\x87\x88\x89\x8a"
                                                       "c") +
                                           '\0');
    refusal("\x80\x02" + *rc::gen::container<std::string>(opcode));
  }));
}

// --- Archives ---------------------------------------------------------------------------------------------

struct Entry {
  std::string name;
  std::string content;
  int method = ZIP_CM_STORE;
};

std::string zipped(const std::vector<Entry>& contents) {
  zip_source_t* buffer = zip_source_buffer_create(nullptr, 0, 0, nullptr);
  zip_source_keep(buffer);
  zip_t* archive = zip_open_from_source(buffer, ZIP_TRUNCATE, nullptr);
  for (const Entry& entry : contents) {
    zip_source_t* source = zip_source_buffer(archive, entry.content.data(), entry.content.size(), 0);
    const zip_int64_t index = zip_file_add(archive, entry.name.c_str(), source, 0);
    zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), entry.method, 0);
  }
  EXPECT_EQ(zip_close(archive), 0);
  zip_source_open(buffer);
  zip_stat_t about;
  zip_source_stat(buffer, &about);
  std::string bytes(about.size, '\0');
  EXPECT_EQ(zip_source_read(buffer, bytes.data(), bytes.size()), static_cast<zip_int64_t>(bytes.size()));
  zip_source_close(buffer);
  zip_source_free(buffer);
  return bytes;
}

std::string archive_refusal(const std::string& file) {
  try {
    read_archive(std::as_bytes(std::span(file)));
    return "taken";
  } catch (const DataError& error) {
    return error.what();
  }
}

TEST(Archive, entries_come_back) {
  const std::string file = zipped({{"m/a", "first"}, {"m/b", ""}, {"m/data/0", std::string(70'000, 'x')}});
  const ArchiveEntries found = read_archive(std::as_bytes(std::span(file)));
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(std::memcmp(found.at("m/a").data(), "first", 5), 0);
  EXPECT_TRUE(found.at("m/b").empty());
  EXPECT_EQ(found.at("m/data/0").size(), 70'000U);
}

TEST(Archive, what_could_grow_is_refused) {
  const std::string file = zipped({{"m/data.pkl", std::string(10'000'000, '\0'), ZIP_CM_DEFLATE}});
  ASSERT_LT(file.size(), 100'000U);
  EXPECT_NE(archive_refusal(file).find("compressed"), std::string::npos) << archive_refusal(file);
}

TEST(Archive, damage_is_found) {
  const std::string file = zipped({{"m/data.pkl", "0123456789"}, {"m/data/0", "abcdefghij"}});
  EXPECT_EQ(archive_refusal(file), "taken");
  std::string flipped = file;
  flipped[file.find("01234")] ^= 1;
  EXPECT_NE(archive_refusal(flipped).find("damaged"), std::string::npos);
  EXPECT_NE(archive_refusal(file.substr(0, file.size() - 1)), "taken");
}

}  // namespace
}  // namespace signvote
