#include "learn/state_dict.h"

#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "base/text.h"
#include "signvote/error.h"

namespace signvote {
namespace {

constexpr std::size_t kDeepestTuple = 2;  // a tensor's arguments, and in them its shape
// A pickle can use a value many times, and each use may copy it, so what is copied must be small.
constexpr std::size_t kMostDimensions = 8;
constexpr std::size_t kLongestText = 1000;

/// What a pickle may name, besides the type of a storage. All else, such as a function to call, is refused.
enum class Global { rebuild_tensor, ordered_dict, restore_type_tag };

struct Mark {};
struct Flag {};  // None, True or False, which change nothing here
struct Storage {
  ElementType type;
  std::span<const std::byte> bytes;
};
struct Tuple;
// The large ones are shared, so that a value which a pickle uses many times is never copied.
using Value = std::variant<Mark, Flag, std::int64_t, std::string_view, Global, ElementType, Storage,
                           std::shared_ptr<const Tuple>, std::shared_ptr<const StoredTensor>,
                           std::shared_ptr<StateDict>>;
struct Tuple {
  std::vector<Value> items;
  std::size_t depth = 1;
};
using TuplePointer = std::shared_ptr<const Tuple>;
using TensorPointer = std::shared_ptr<const StoredTensor>;
using DictPointer = std::shared_ptr<StateDict>;

[[noreturn]] void refuse(const std::string& reason) { throw DataError(reason); }

template <class T>
const T& as(const Value& value) {
  const T* held = std::get_if<T>(&value);
  if (held == nullptr) refuse("its pickle holds something else than a dict of tensors");
  return *held;
}

struct ElementKind {
  ElementType type;
  const char* name;
  const char* numpy_name;
  const char* storage;  // what torch calls a storage of it
  std::size_t bytes;
};
constexpr ElementKind kElementKinds[] = {{ElementType::float32, "float32", "<f4", "torch.FloatStorage", 4},
                                         {ElementType::float64, "float64", "<f8", "torch.DoubleStorage", 8},
                                         {ElementType::int64, "int64", "<i8", "torch.LongStorage", 8},
                                         {ElementType::int32, "int32", "<i4", "torch.IntStorage", 4},
                                         {ElementType::int16, "int16", "<i2", "torch.ShortStorage", 2},
                                         {ElementType::int8, "int8", "|i1", "torch.CharStorage", 1},
                                         {ElementType::uint8, "uint8", "|u1", "torch.ByteStorage", 1},
                                         {ElementType::boolean, "bool", "|b1", "torch.BoolStorage", 1}};

const ElementKind& kind_of(ElementType type) {
  return *std::ranges::find(kElementKinds, type, &ElementKind::type);
}

Value global(std::string_view module, std::string_view name) {
  const std::string full = fmt::format("{}.{}", module, name);
  if (full == "torch._utils._rebuild_tensor_v2") return Global::rebuild_tensor;
  if (full == "collections.OrderedDict") return Global::ordered_dict;
  if (full == "torch.jit._pickle.restore_type_tag") return Global::restore_type_tag;
  for (const ElementKind& kind : kElementKinds)
    if (full == kind.storage) return kind.type;
  refuse(fmt::format("it needs {}, but only tensors of float32, float64, whole numbers and bool are read",
                     printable(full, 60)));
}

std::vector<std::int64_t> whole_numbers(const Tuple& tuple) {
  if (tuple.items.size() > kMostDimensions) refuse("a tensor has more than 8 dimensions");
  std::vector<std::int64_t> numbers;
  for (const Value& item : tuple.items) {
    numbers.push_back(as<std::int64_t>(item));
    if (numbers.back() < 0) refuse("a tensor has a negative size or stride");
  }
  return numbers;
}

/// The number of elements. Throws unless the strides are those of a contiguous tensor.
std::int64_t count_elements(const std::vector<std::int64_t>& shape,
                            const std::vector<std::int64_t>& strides) {
  if (strides.size() != shape.size()) refuse("a tensor has not as many strides as sizes");
  std::int64_t count = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != count) refuse("a tensor is not contiguous");
    if (__builtin_mul_overflow(count, shape[i], &count)) refuse("a tensor is too large");
  }
  return count;
}

/// The arguments of torch's function: storage, offset, sizes, strides, two that only training needs.
StoredTensor rebuild_tensor(const Tuple& arguments) {
  if (arguments.items.size() < 4) refuse("a tensor lacks its storage, sizes or strides");
  const auto& storage = as<Storage>(arguments.items[0]);
  const auto offset = as<std::int64_t>(arguments.items[1]);
  StoredTensor tensor;
  tensor.type = storage.type;
  tensor.shape = whole_numbers(*as<TuplePointer>(arguments.items[2]));
  const std::int64_t count =
      count_elements(tensor.shape, whole_numbers(*as<TuplePointer>(arguments.items[3])));
  const std::size_t width = bytes_of(tensor.type);
  const auto stored = static_cast<std::int64_t>(storage.bytes.size() / width);
  if (offset < 0 || offset > stored || count > stored - offset)
    refuse("a tensor reaches beyond the end of its storage");
  tensor.bytes = storage.bytes.subspan(static_cast<std::size_t>(offset) * width,
                                       static_cast<std::size_t>(count) * width);
  return tensor;
}

/// Follows a pickle of protocol 2. What it keeps is at most a constant times as large as the pickle.
class Unpickler {
 public:
  Unpickler(std::string_view pickle, const ArchiveEntries& entries, std::string folder)
      : rest_(pickle), entries_(entries), folder_(std::move(folder)) {}

  Value run() {
    while (true) {
      const auto opcode = number<unsigned char>();
      if (opcode == '.') break;
      step(opcode);
    }
    if (stack_.size() != 1 || !rest_.empty()) refuse("its pickle does not end where it should");
    return stack_.back();
  }

 private:
  // The names are those of Python's pickletools.
  void step(unsigned char opcode) {
    switch (opcode) {
      case 0x80:  // PROTO
        if (number<std::uint8_t>() != 2) refuse("its pickle is not of protocol 2, which torch.save writes");
        return;
      case '(':  // MARK
        return push(Mark{});
      case 'N':   // NONE
      case 0x88:  // NEWTRUE
      case 0x89:  // NEWFALSE
        return push(Flag{});
      case 'K':  // BININT1
        return push(std::int64_t{number<std::uint8_t>()});
      case 'M':  // BININT2
        return push(std::int64_t{number<std::uint16_t>()});
      case 'J':  // BININT
        return push(std::int64_t{number<std::int32_t>()});
      case 0x8a:  // LONG1
        return push(long_number());
      case 'X':  // BINUNICODE
        return push(text());
      case 'c': {  // GLOBAL
        const std::string_view module = line();
        return push(global(module, line()));
      }
      case ')':  // EMPTY_TUPLE
        return push_tuple({});
      case 0x85:  // TUPLE1
      case 0x86:  // TUPLE2
      case 0x87:  // TUPLE3
        return push_tuple(pop(opcode - 0x84U));
      case 't':  // TUPLE
        return push_tuple(pop_to_mark());
      case '}':  // EMPTY_DICT
        return push(std::make_shared<StateDict>());
      case 's':  // SETITEM
        return set_items(pop(2));
      case 'u':  // SETITEMS
        return set_items(pop_to_mark());
      case 'q':  // BINPUT
        return remember(number<std::uint8_t>());
      case 'r':  // LONG_BINPUT
        return remember(number<std::uint32_t>());
      case 'h':  // BINGET
        return recall(number<std::uint8_t>());
      case 'j':  // LONG_BINGET
        return recall(number<std::uint32_t>());
      case 'Q':  // BINPERSID
        return push(storage(*as<TuplePointer>(pop())));
      case 'R': {  // REDUCE
        const Value arguments = pop();
        return push(call(as<Global>(pop()), *as<TuplePointer>(arguments)));
      }
      default:
        refuse(
            fmt::format("its pickle has the instruction 0x{:02x}, which no dict of tensors needs", opcode));
    }
  }

  std::string_view bytes(std::size_t count) {
    if (count > rest_.size()) refuse("its pickle is cut short");
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  template <class Number>
  Number number() {
    Number value{};
    std::memcpy(&value, bytes(sizeof value).data(), sizeof value);
    return value;
  }

  std::int64_t long_number() {  // two's complement, as many bytes as needed
    const std::string_view digits = bytes(number<std::uint8_t>());
    if (digits.size() > 8) refuse("its pickle has a number of more than 64 bits");
    std::uint64_t value = !digits.empty() && (digits.back() & 0x80) != 0 ? ~std::uint64_t{0} : 0;
    std::memcpy(&value, digits.data(), digits.size());
    return static_cast<std::int64_t>(value);
  }

  std::string_view text() {
    const auto size = number<std::uint32_t>();
    if (size > kLongestText) refuse("its pickle has a text of more than 1000 characters");
    return bytes(size);
  }

  std::string_view line() {
    const std::string_view text = bytes(std::min(rest_.find('\n'), rest_.size()));
    bytes(1);
    return text;
  }

  void push(Value value) { stack_.push_back(std::move(value)); }

  Value pop() { return std::move(pop(1).front()); }

  std::vector<Value> pop(std::size_t count) {
    if (count > stack_.size()) refuse("its pickle takes more than it has");
    const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
    std::vector<Value> values(std::make_move_iterator(first), std::make_move_iterator(stack_.end()));
    stack_.erase(first, stack_.end());
    return values;
  }

  std::vector<Value> pop_to_mark() {
    std::size_t count = 0;
    while (count < stack_.size() && !std::holds_alternative<Mark>(stack_[stack_.size() - 1 - count])) ++count;
    std::vector<Value> values = pop(count);
    pop();
    return values;
  }

  void push_tuple(std::vector<Value> items) {
    Tuple tuple{std::move(items)};
    for (const Value& item : tuple.items)
      if (const auto* inner = std::get_if<TuplePointer>(&item))
        tuple.depth = std::max(tuple.depth, (*inner)->depth + 1);
    if (tuple.depth > kDeepestTuple) refuse("its pickle is nested more deeply than a dict of tensors");
    push(std::make_shared<const Tuple>(std::move(tuple)));
  }

  void set_items(const std::vector<Value>& items) {
    if (stack_.empty() || items.size() % 2 != 0) refuse("its pickle takes more than it has");
    StateDict& dict = *as<DictPointer>(stack_.back());
    for (std::size_t i = 0; i < items.size(); i += 2)
      dict[std::string(as<std::string_view>(items[i]))] = *as<TensorPointer>(items[i + 1]);
  }

  void remember(std::uint32_t place) {
    if (stack_.empty()) refuse("its pickle takes more than it has");
    memo_[place] = stack_.back();
  }

  void recall(std::uint32_t place) {
    const auto found = memo_.find(place);
    if (found == memo_.end()) refuse("its pickle takes more than it has");
    push(found->second);
  }

  /// From ("storage", type, entry, device, number of elements).
  Storage storage(const Tuple& name) const {
    if (name.items.size() != 5 || as<std::string_view>(name.items[0]) != "storage")
      refuse("its pickle names something that is no storage");
    const ElementType type = as<ElementType>(name.items[1]);
    const auto entry = entries_.find(fmt::format("{}data/{}", folder_, as<std::string_view>(name.items[2])));
    if (entry == entries_.end()) refuse("the bytes of a tensor are missing");
    const auto count = as<std::int64_t>(name.items[4]);
    const std::size_t width = bytes_of(type);
    if (entry->second.size() % width != 0 || static_cast<std::int64_t>(entry->second.size() / width) != count)
      refuse("a storage has not as many bytes as its pickle says");
    return {type, entry->second};
  }

  static Value call(Global function, const Tuple& arguments) {
    if (function == Global::rebuild_tensor)
      return std::make_shared<const StoredTensor>(rebuild_tensor(arguments));
    if (function == Global::ordered_dict && arguments.items.empty()) return std::make_shared<StateDict>();
    // torch::pickle_save says in this way what type the dict has.
    if (function == Global::restore_type_tag && arguments.items.size() == 2)
      return as<DictPointer>(arguments.items[0]);
    refuse("its pickle holds something else than a dict of tensors");
  }

  std::string_view rest_;
  const ArchiveEntries& entries_;
  std::string folder_;
  std::vector<Value> stack_;
  std::map<std::uint32_t, Value> memo_;
};

/// One entry, whole and with the right checksum, or none.
std::optional<std::vector<std::byte>> read_entry(zip_t* archive, zip_uint64_t index, std::size_t size) {
  const std::unique_ptr<zip_file_t, decltype(&zip_fclose)> entry(zip_fopen_index(archive, index, 0),
                                                                 zip_fclose);
  if (!entry) return std::nullopt;
  std::vector<std::byte> content(size);
  for (std::size_t have = 0; have < size;) {
    const zip_int64_t got = zip_fread(entry.get(), content.data() + have, size - have);
    if (got <= 0) return std::nullopt;
    have += static_cast<std::size_t>(got);
  }
  std::byte more{};
  if (zip_fread(entry.get(), &more, 1) != 0) return std::nullopt;  // only here the checksum is compared
  return content;
}

Value unpickle(const ArchiveEntries& entries) {
  constexpr std::string_view kPickle = "data.pkl";
  for (const auto& [name, content] : entries) {
    const std::size_t slash = name.find('/');
    if (slash == std::string::npos || std::string_view(name).substr(slash + 1) != kPickle) continue;
    const std::string_view pickle(reinterpret_cast<const char*>(content.data()), content.size());
    return Unpickler(pickle, entries, name.substr(0, slash + 1)).run();
  }
  refuse("it has no data.pkl");
}

}  // namespace

const char* name_of(ElementType type) { return kind_of(type).name; }
const char* numpy_name_of(ElementType type) { return kind_of(type).numpy_name; }
std::size_t bytes_of(ElementType type) { return kind_of(type).bytes; }

ArchiveEntries read_archive(std::span<const std::byte> file) {
  zip_source_t* source = zip_source_buffer_create(file.data(), file.size(), /*freep=*/0, nullptr);
  if (source == nullptr) throw std::bad_alloc();
  const std::unique_ptr<zip_t, decltype(&zip_discard)> archive(
      zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, nullptr), zip_discard);
  if (!archive) {
    zip_source_free(source);
    refuse("it is no sound zip archive");
  }
  ArchiveEntries entries;
  std::uint64_t total = 0;
  for (zip_int64_t i = 0; i < zip_get_num_entries(archive.get(), 0); ++i) {
    const auto index = static_cast<zip_uint64_t>(i);
    zip_stat_t about;
    zip_stat_init(&about);
    constexpr zip_uint64_t kNeeded = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_METHOD;
    if (zip_stat_index(archive.get(), index, 0, &about) != 0 || (about.valid & kNeeded) != kNeeded)
      refuse("it is no sound zip archive");
    if (about.comp_method != ZIP_CM_STORE) refuse("it is compressed, as torch.save never does it");
    if (about.size > file.size() - total) refuse("its entries are larger than the file");
    total += about.size;
    auto content = read_entry(archive.get(), index, about.size);
    if (!content || !entries.emplace(about.name, std::move(*content)).second)
      refuse("an entry of it is damaged");
  }
  return entries;
}

StateDict read_state_dict(const ArchiveEntries& entries) { return *as<DictPointer>(unpickle(entries)); }

StoredTensor read_tensor(const ArchiveEntries& entries) {
  const Value root = unpickle(entries);
  const auto* tensor = std::get_if<TensorPointer>(&root);
  if (tensor == nullptr) refuse("it holds something else than a tensor");
  return **tensor;
}

}  // namespace signvote
