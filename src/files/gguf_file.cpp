#include "files/gguf_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <fstream>
#include <set>

#include "core/strings.h"
#include "heed/core/utf8.h"
#include "heed/error.h"

namespace heed {

static_assert(std::endian::native == std::endian::little,
              "the format is little endian, and so is its reader here");

namespace {

using namespace gguf_format;

// Of one value; 0 for strings and arrays, whose sizes differ.
constexpr std::size_t kValueBytes[kTypes] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
constexpr const char* kValueNames[kTypes] = {
    "an integer",    "an integer", "an integer", "an integer", "an integer", "an integer", "a number",
    "a truth value", "a string",   "an array",   "an integer", "an integer", "a number"};

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

std::optional<std::int64_t> integer_at(std::uint32_t type, const std::byte* at) {
  switch (type) {
    case kU8: return load<std::uint8_t>(at);
    case kI8: return load<std::int8_t>(at);
    case kU16: return load<std::uint16_t>(at);
    case kI16: return load<std::int16_t>(at);
    case kU32: return load<std::uint32_t>(at);
    case kI32: return load<std::int32_t>(at);
    case kI64: return load<std::int64_t>(at);
    case kU64: {
      const auto value = load<std::uint64_t>(at);
      if (value > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
      return static_cast<std::int64_t>(value);
    }
    default: return std::nullopt;
  }
}

std::optional<double> number_at(std::uint32_t type, const std::byte* at) {
  if (type == kF32) return load<float>(at);
  if (type == kF64) return load<double>(at);
  const auto integer = integer_at(type, at);
  if (!integer) return std::nullopt;
  return static_cast<double>(*integer);
}

std::string_view text_at(const std::byte* at) {
  return {reinterpret_cast<const char*>(at) + 8, static_cast<std::size_t>(load<std::uint64_t>(at))};
}

std::string readable_types() { return joined(block_layouts(), " ", &BlockLayout::name); }

// The number and the count in NAME-00001-of-00003.gguf, and what is before them.
struct ShardName {
  std::string stem;
  std::int64_t number = 0, count = 0;
  std::string with(std::int64_t other) const {
    return fmt::format("{}-{:05}-of-{:05}.gguf", stem, other, count);
  }
};

std::optional<ShardName> shard_name(const std::string& name) {
  constexpr std::string_view kForm = "-00001-of-00003.gguf";
  if (name.size() < kForm.size()) return std::nullopt;
  ShardName shard{.stem = name.substr(0, name.size() - kForm.size())};
  const char* tail = name.c_str() + shard.stem.size();
  std::from_chars(tail + 1, tail + 6, shard.number);
  std::from_chars(tail + 10, tail + 15, shard.count);
  if (shard.number < 1 || shard.number > shard.count || shard.with(shard.number) != name) return std::nullopt;
  return shard;
}

}  // namespace

// Walks through the header of one file.
class GgufReader {
 public:
  GgufReader(const std::filesystem::path& path, const std::filesystem::path& shown)
      : where_(shown.string()), file_(MappedFile::open(path, shown)) {}

  void read(GgufFile& all, bool first);

 private:
  [[noreturn]] void fail(const std::string& what) const { throw Error(where_ + ": " + what); }
  std::uint64_t left() const { return file_->bytes() - at_; }
  const std::byte* take(std::uint64_t bytes) {
    if (bytes > left())
      fail(fmt::format("the header ends beyond the file of {} bytes (the file is cut off or damaged)",
                       file_->bytes()));
    const std::byte* start = file_->data() + at_;
    at_ += bytes;
    return start;
  }
  template <class T>
  T take_number() {
    return load<T>(take(sizeof(T)));
  }
  std::string take_name(const char* kind);
  void skip_text() { take(take_number<std::uint64_t>()); }
  GgufFile::Value take_value(const std::string& key);
  void skip_values(const std::string& key, std::uint32_t type, std::uint64_t count, int depth);
  std::uint64_t take_count(const char* kind, std::uint64_t least_bytes);
  GgufTensor take_tensor();
  void place(std::vector<GgufTensor>& tensors);
  void take_start();

  std::string where_;
  std::shared_ptr<MappedFile> file_;
  std::uint64_t at_ = 0;
  std::uint64_t alignment_ = 32;
  std::vector<std::uint64_t> offsets_;
};

std::string GgufReader::take_name(const char* kind) {
  const auto length = take_number<std::uint64_t>();
  const auto* start = reinterpret_cast<const char*>(take(length));
  std::string name(start, static_cast<std::size_t>(length));
  if (name.empty() || first_invalid_utf8(name))
    fail(fmt::format("expected the name of a {} in UTF-8, got {} other bytes", kind, length));
  return name;
}

void GgufReader::skip_values(const std::string& key, std::uint32_t type, std::uint64_t count, int depth) {
  if (type >= kTypes)
    fail(fmt::format("{}: expected a type of value from 0 to {}, got {}", key, kTypes - 1, type));
  if (depth > 4) fail(key + ": expected arrays nested at most 4 deep, got more");
  // Before memory is taken for them or time spent on them: each takes bytes of the file.
  const std::uint64_t least = type == kText ? 8 : type == kArray ? 12 : kValueBytes[type];
  if (count > left() / least)
    fail(
        fmt::format("{}: expected an array within the file, got {} elements (the file is cut off or damaged)",
                    key, count));
  if (type == kText) {
    for (std::uint64_t i = 0; i < count; ++i) skip_text();
  } else if (type == kArray) {
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto inner = take_number<std::uint32_t>();
      const auto elements = take_number<std::uint64_t>();
      skip_values(key, inner, elements, depth + 1);
    }
  } else {
    take(count * kValueBytes[type]);
  }
}

GgufFile::Value GgufReader::take_value(const std::string& key) {
  GgufFile::Value value;
  value.type = take_number<std::uint32_t>();
  value.array = value.type == kArray;
  if (value.array) {
    value.type = take_number<std::uint32_t>();
    value.count = take_number<std::uint64_t>();
  }
  value.data = file_->data() + at_;
  skip_values(key, value.type, value.count, 0);
  return value;
}

std::uint64_t GgufReader::take_count(const char* kind, std::uint64_t least_bytes) {
  const auto count = take_number<std::uint64_t>();
  if (count > file_->bytes() / least_bytes)
    fail(fmt::format("expected a number of {} that a file of {} bytes can hold, got {} (the file is damaged)",
                     kind, file_->bytes(), count));
  return count;
}

void GgufReader::take_start() {
  const std::string_view start(reinterpret_cast<const char*>(file_->data()),
                               std::min<std::size_t>(file_->bytes(), kMagic.size()));
  if (start != kMagic) fail("expected a GGUF file, which begins with the letters GGUF, got other bytes");
  take(kMagic.size());
  const auto version = take_number<std::uint32_t>();
  if (version >= 1 << 16)
    fail("expected a little-endian GGUF file, got a big-endian one (convert it with gguf_convert_endian.py)");
  if (version != 2 && version != 3)
    fail(fmt::format("expected version 2 or 3 of GGUF, got {} (convert the model again)", version));
}

GgufTensor GgufReader::take_tensor() {
  GgufTensor tensor;
  tensor.name = take_name("tensor");
  const auto named = [&](const std::string& what) { fail(tensor.name + ": " + what); };
  const auto rank = take_number<std::uint32_t>();
  if (rank < 1 || rank > 4) named(fmt::format("expected 1 to 4 axes, got {}", rank));
  std::uint64_t numbers = 1;
  constexpr std::uint64_t kMost = std::uint64_t{1} << 60;
  for (std::uint32_t i = 0; i < rank; ++i) {
    const auto size = take_number<std::uint64_t>();
    if (size < 1 || size > kMost / numbers)
      named(fmt::format("expected a size that memory can have, got {}", size));
    numbers *= size;
    tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(size));  // the fastest axis is first
  }
  const auto type = take_number<std::uint32_t>();
  const auto layout = layout_of_ggml(type);
  if (!layout) {
    const std::string_view name = name_of_ggml(type);
    named(fmt::format("expected numbers of a type among {}, got {} (quantize the model to one of them)",
                      readable_types(), name.empty() ? "type " + std::to_string(type) : std::string(name)));
  }
  tensor.layout = *layout;
  if (tensor.shape.back() % layout->numbers != 0)
    named(fmt::format("expected rows of whole blocks of {} numbers, got {} ({})", layout->numbers,
                      tensor.shape.back(), layout->name));
  const std::uint64_t blocks = numbers / static_cast<std::uint64_t>(layout->numbers);
  const auto block = static_cast<std::uint64_t>(layout->bytes);
  if (blocks > UINT64_MAX / block) named("expected a size that memory can have, got more");
  tensor.bytes = static_cast<std::size_t>(blocks * block);
  offsets_.push_back(take_number<std::uint64_t>());
  tensor.file = file_;
  return tensor;
}

// Turns the offsets of tensors into addresses.
void GgufReader::place(std::vector<GgufTensor>& tensors) {
  const std::uint64_t start = (at_ + alignment_ - 1) / alignment_ * alignment_;
  const std::uint64_t room = file_->bytes() > start ? file_->bytes() - start : 0;
  std::vector<std::size_t> order(tensors.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return offsets_[a] < offsets_[b]; });
  std::uint64_t end = 0;
  for (const std::size_t i : order) {
    GgufTensor& tensor = tensors[i];
    const std::uint64_t offset = offsets_[i];
    const std::string named = tensor.name + ": ";
    if (offset % alignment_ != 0)
      fail(fmt::format("{}expected an offset that is a multiple of {}, got {}", named, alignment_, offset));
    if (offset > room || tensor.bytes > room - offset)
      fail(fmt::format(
          "{}expected {} bytes from byte {} of the data, got {} bytes of data (the file is cut off; "
          "download or copy it again)",
          named, tensor.bytes, offset, room));
    if (offset < end)
      fail(fmt::format("{}expected data of its own, got bytes that another tensor has too", named));
    end = offset + tensor.bytes;
    tensor.data = file_->data() + start + offset;
  }
}

void GgufReader::read(GgufFile& all, bool first) {
  take_start();
  const std::uint64_t tensors = take_count("tensors", 32), values = take_count("values", 13);
  for (std::uint64_t i = 0; i < values; ++i) {
    std::string key = take_name("value");
    const GgufFile::Value value = take_value(key);
    if (key == "general.alignment") {
      const auto alignment = value.array ? std::nullopt : integer_at(value.type, value.data);
      if (!alignment || *alignment < 8 || *alignment > 1 << 20 ||
          !std::has_single_bit(static_cast<std::uint64_t>(*alignment)))
        fail(key + ": expected a power of two from 8 to 1048576, got another value");
      alignment_ = static_cast<std::uint64_t>(*alignment);
    }
    // Of several files, the first describes the model; the others repeat what tells them apart.
    const bool kept = first || key.starts_with("split.");
    if (kept && !all.values_.insert_or_assign(key, value).second && first)
      fail(key + ": expected every key once, got it twice");
  }
  std::vector<GgufTensor> own;
  for (std::uint64_t i = 0; i < tensors; ++i) own.push_back(take_tensor());
  place(own);
  for (GgufTensor& tensor : own) {
    if (!all.index_.emplace(tensor.name, all.tensors_.size()).second)
      fail(tensor.name + ": expected every tensor once, got it twice");
    all.tensors_.push_back(std::move(tensor));
  }
  all.files_.push_back(file_);
}

GgufFile GgufFile::open(const std::filesystem::path& path, const std::filesystem::path& shown) {
  GgufFile all;
  all.path_ = shown.empty() ? path : shown;
  const auto shard = shard_name(path.filename().string());
  const std::int64_t count = shard ? shard->count : 1;
  std::int64_t tensors = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto beside = [&](const std::filesystem::path& one) {
      return shard ? one.parent_path() / shard->with(i + 1) : one;
    };
    const std::filesystem::path file = beside(all.path_);
    GgufReader(beside(path), file).read(all, i == 0);
    const std::int64_t number = all.integer("split.no").value_or(0),
                       of = all.integer("split.count").value_or(1);
    if (number != i || (of != count && !(of == 0 && count == 1)))
      throw Error(
          fmt::format("{}: expected file {} of {}, got {} of {} (files of one model are named "
                      "NAME-00001-of-00003.gguf, as they were made)",
                      file.string(), i + 1, count, number + 1, of));
    if (i == 0) tensors = all.integer("split.tensors.count").value_or(0);
  }
  if (count > 1 && tensors != static_cast<std::int64_t>(all.tensors_.size()))
    throw Error(fmt::format("{}: split.tensors.count: expected {} tensors in all files, got {}",
                            all.path_.string(), tensors, all.tensors_.size()));
  return all;
}

const GgufTensor* GgufFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

std::vector<std::string> GgufFile::keys() const {
  std::vector<std::string> keys;
  for (const auto& entry : values_) keys.push_back(entry.first);
  return keys;
}

void GgufFile::fail(std::string_view key, const std::string& expected, const std::string& got) const {
  throw Error(fmt::format("{}: {}: expected {}, got {}", path_.string(), key, expected, got));
}

const GgufFile::Value* GgufFile::single(std::string_view key, const char* expected) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return nullptr;
  if (found->second.array) fail(key, expected, fmt::format("an array of {}", found->second.count));
  return &found->second;
}

std::optional<std::int64_t> GgufFile::integer(std::string_view key) const {
  const Value* value = single(key, "an integer");
  if (value == nullptr) return std::nullopt;
  const auto integer = integer_at(value->type, value->data);
  if (!integer) fail(key, "an integer", value->type == kU64 ? "one above 2^63" : kValueNames[value->type]);
  return integer;
}

std::optional<double> GgufFile::number(std::string_view key) const {
  const Value* value = single(key, "a number");
  if (value == nullptr) return std::nullopt;
  const auto number = number_at(value->type, value->data);
  if (!number) fail(key, "a number", kValueNames[value->type]);
  return number;
}

std::optional<bool> GgufFile::boolean(std::string_view key) const {
  const Value* value = single(key, "true or false");
  if (value == nullptr) return std::nullopt;
  if (value->type != kBool) fail(key, "true or false", kValueNames[value->type]);
  return load<std::uint8_t>(value->data) != 0;
}

std::optional<std::string> GgufFile::string(std::string_view key) const {
  const Value* value = single(key, "a string");
  if (value == nullptr) return std::nullopt;
  if (value->type != kText) fail(key, "a string", kValueNames[value->type]);
  std::string content(text_at(value->data));
  if (first_invalid_utf8(content)) fail(key, "a string in UTF-8", "other bytes");
  return content;
}

// Calls `read` with type and address of each element, which returns whether it is of the expected kind.
template <class Read>
void GgufFile::each(std::string_view key, const char* expected, Read read) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return;
  const Value& value = found->second;
  const std::byte* at = value.data;
  for (std::uint64_t i = 0; i < value.count; ++i) {
    if (value.type == kArray || !read(value.type, at))
      fail(key, expected, value.type == kArray ? "arrays in an array" : kValueNames[value.type]);
    at += value.type == kText ? 8 + text_at(at).size() : kValueBytes[value.type];
  }
}

std::vector<std::int64_t> GgufFile::integers(std::string_view key) const {
  std::vector<std::int64_t> values;
  each(key, "integers", [&](std::uint32_t type, const std::byte* at) {
    const auto value = integer_at(type, at);
    if (value) values.push_back(*value);
    return value.has_value();
  });
  return values;
}

std::vector<double> GgufFile::numbers(std::string_view key) const {
  std::vector<double> values;
  each(key, "numbers", [&](std::uint32_t type, const std::byte* at) {
    const auto value = number_at(type, at);
    if (value) values.push_back(*value);
    return value.has_value();
  });
  return values;
}

std::vector<std::string_view> GgufFile::strings(std::string_view key) const {
  std::vector<std::string_view> values;
  each(key, "strings", [&](std::uint32_t type, const std::byte* at) {
    if (type == kText) values.push_back(text_at(at));
    return type == kText;
  });
  return values;
}

std::string_view GgufFile::bytes(std::string_view key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return {};
  const Value& value = found->second;
  if (!value.array || (value.type != kU8 && value.type != kI8)) fail(key, "bytes", kValueNames[value.type]);
  return {reinterpret_cast<const char*>(value.data), static_cast<std::size_t>(value.count)};
}

bool is_gguf(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  char start[kMagic.size()] = {};
  std::ifstream(path, std::ios::binary).read(start, sizeof start);
  return std::string_view(start, sizeof start) == kMagic || path.extension() == ".gguf";
}

}  // namespace heed
