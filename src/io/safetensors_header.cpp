#include "io/safetensors_header.h"

#include <algorithm>
#include <unordered_set>

#include "core/json_reader.h"
#include "heed/error.h"

namespace heed::io {
namespace {

struct FormatDType {
  std::string_view name;
  std::uint64_t bits;
  std::optional<DType> dtype;
};

constexpr FormatDType kDTypes[] = {
    {"F64", 64, DType::f64},
    {"F32", 32, DType::f32},
    {"BF16", 16, DType::bf16},
    {"F16", 16, DType::f16},
    {"I64", 64, DType::i64},
    {"I32", 32, DType::i32},
    {"U8", 8, DType::u8},
    {"BOOL", 8, DType::boolean},
    {"I8", 8, std::nullopt},
    {"I16", 16, std::nullopt},
    {"U16", 16, std::nullopt},
    {"U32", 32, std::nullopt},
    {"U64", 64, std::nullopt},
    {"C64", 64, std::nullopt},
    {"F8_E4M3", 8, std::nullopt},
    {"F8_E5M2", 8, std::nullopt},
    {"F8_E8M0", 8, std::nullopt},
    {"F8_E4M3FNUZ", 8, std::nullopt},
    {"F8_E5M2FNUZ", 8, std::nullopt},
    {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt},
    {"F4", 4, std::nullopt},
};

const FormatDType* find_dtype(std::string_view name) {
  const auto* found = std::find_if(std::begin(kDTypes), std::end(kDTypes),
                                   [&](const FormatDType& d) { return d.name == name; });
  return found == std::end(kDTypes) ? nullptr : found;
}

// Reads one header. Keeps the current name and field for messages.
class HeaderReader {
 public:
  HeaderReader(const std::string& where, std::string_view text) : json_(where, text), where_(where) {}

  SafetensorsHeader read() {
    SafetensorsHeader header;
    std::unordered_set<std::string> names;
    std::string name;
    for (json_.begin_object(); json_.next_key(name);) {
      if (!names.insert(name).second) fail("every name once", "\"" + name + "\" twice");
      name_ = name;
      if (name == kMetadataName) {
        read_metadata(header.metadata);
      } else {
        header.tensors.push_back(read_tensor(name));
      }
      name_ = {};
    }
    json_.finish();
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& expected, const std::string& got) const {
    std::string at = where_ + ": ";
    if (name_) at.append("\"").append(*name_).append("\": ");
    if (!field_.empty()) at.append(field_).append(": ");
    throw Error(at + "expected " + expected + ", got " + got);
  }

  void want(JsonReader::Kind kind, const char* expected) {
    if (json_.peek() != kind) fail(expected, "another kind of value");
  }

  void read_metadata(std::map<std::string, std::string>& metadata) {
    want(JsonReader::Kind::object, "an object of strings");
    std::string key;
    for (json_.begin_object(); json_.next_key(key);) {
      want(JsonReader::Kind::string, "strings only");
      if (!metadata.emplace(key, json_.string()).second) fail("every key once", "\"" + key + "\" twice");
    }
  }

  TensorInfo read_tensor(const std::string& name) {
    TensorInfo info;
    info.name = name;
    bool has_dtype = false, has_shape = false, has_offsets = false;
    want(JsonReader::Kind::object, "an object with dtype, shape and data_offsets");
    std::string field;
    for (json_.begin_object(); json_.next_key(field);) {
      field_ = field;
      bool* seen = field == "dtype"          ? &has_dtype
                   : field == "shape"        ? &has_shape
                   : field == "data_offsets" ? &has_offsets
                                             : nullptr;
      if (seen == nullptr) fail("one of the fields dtype, shape and data_offsets", "another field");
      if (*seen) fail("every field once", "it twice");
      *seen = true;
      if (seen == &has_dtype) read_dtype(info);
      if (seen == &has_shape) read_shape(info);
      if (seen == &has_offsets) read_offsets(info);
    }
    field_ = {};
    if (!has_dtype || !has_shape || !has_offsets) {
      fail("the fields dtype, shape and data_offsets", std::string("no ") + (!has_dtype   ? "dtype"
                                                                             : !has_shape ? "shape"
                                                                                          : "data_offsets"));
    }
    check_size(info);
    return info;
  }

  void read_dtype(TensorInfo& info) {
    want(JsonReader::Kind::string, "a string");
    info.dtype = json_.string();
    if (find_dtype(info.dtype) == nullptr)
      fail("a dtype of the format, like F32 or BF16", "\"" + info.dtype + "\"");
  }

  std::uint64_t read_size(std::uint64_t largest) {
    want(JsonReader::Kind::number, "integers");
    const std::string_view text = json_.number();
    const std::optional<std::uint64_t> value = json_unsigned(text);
    if (!value || *value > largest) {
      fail("integers from 0 to " + std::to_string(largest), std::string(text.substr(0, 40)));
    }
    return *value;
  }

  void read_shape(TensorInfo& info) {
    want(JsonReader::Kind::array, "an array of sizes");
    for (json_.begin_array(); json_.next_element();) {
      info.shape.push_back(static_cast<std::int64_t>(read_size(INT64_MAX)));
    }
  }

  void read_offsets(TensorInfo& info) {
    want(JsonReader::Kind::array, "an array [begin, end]");
    std::uint64_t offsets[2] = {0, 0};
    std::size_t count = 0;
    for (json_.begin_array(); json_.next_element(); ++count) {
      const std::uint64_t offset = read_size(UINT64_MAX);
      if (count < 2) offsets[count] = offset;
    }
    if (count != 2) fail("an array [begin, end]", std::to_string(count) + " integers");
    info.begin = offsets[0];
    info.end = offsets[1];
    if (info.end < info.begin) {
      fail("begin <= end", std::to_string(info.begin) + " and " + std::to_string(info.end));
    }
  }

  void check_size(const TensorInfo& info) {
    std::uint64_t bits = 1;
    bool fits = true;
    for (const std::int64_t size : info.shape) {
      fits = fits && !__builtin_mul_overflow(bits, static_cast<std::uint64_t>(size), &bits);
    }
    fits = fits && !__builtin_mul_overflow(bits, find_dtype(info.dtype)->bits, &bits);
    if (!fits) fail("a shape whose product fits 64 bits", "a larger one");
    if (bits % 8 != 0) fail("a shape that fills whole bytes", std::to_string(bits) + " bits");
    if (bits / 8 != info.end - info.begin) {
      fail("data_offsets that span the " + std::to_string(bits / 8) + " bytes of its dtype and shape",
           std::to_string(info.end - info.begin) + " bytes");
    }
  }

  JsonReader json_;
  const std::string& where_;
  std::optional<std::string_view> name_;
  std::string_view field_;
};

// Checks that each byte belongs to exactly one tensor, from the first to the last byte.
void check_offsets(const std::string& where, const std::vector<TensorInfo>& tensors,
                   std::uint64_t data_bytes) {
  std::uint64_t reached = 0;
  for (const TensorInfo& info : tensors) {
    if (info.begin != reached) {
      throw Error(where + ": \"" + info.name + "\": data_offsets: expected to begin at byte " +
                  std::to_string(reached) + ", where the tensor before ends, got " +
                  std::to_string(info.begin) + (info.begin > reached ? " (a gap)" : " (an overlap)"));
    }
    reached = info.end;
  }
  if (reached != data_bytes) {
    throw Error(
        where + ": expected " + std::to_string(reached) + " bytes of tensors behind the header, got " +
        std::to_string(data_bytes) +
        (reached > data_bytes ? " (the file is cut off; download or copy it again)" : " (trailing bytes)"));
  }
}

}  // namespace

SafetensorsHeader read_safetensors_header(const std::string& where, std::string_view text,
                                          std::uint64_t data_bytes) {
  const std::string header_where = where + ": header";
  if (text.empty() || text.front() != '{') {
    throw Error(header_where +
                ": expected JSON that starts with \"{\", got something else (not a safetensors file?)");
  }
  SafetensorsHeader header = HeaderReader(header_where, text).read();
  std::stable_sort(header.tensors.begin(), header.tensors.end(),
                   [](const TensorInfo& a, const TensorInfo& b) {
                     return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
                   });
  check_offsets(where, header.tensors, data_bytes);
  return header;
}

std::optional<DType> dtype_of_format(std::string_view name) {
  const FormatDType* found = find_dtype(name);
  return found == nullptr ? std::nullopt : found->dtype;
}

std::string_view format_name(DType dtype) {
  const auto* found = std::find_if(std::begin(kDTypes), std::end(kDTypes),
                                   [&](const FormatDType& d) { return d.dtype == dtype; });
  HEED_ASSERT(found != std::end(kDTypes), "a dtype the format has no name for");
  return found->name;
}

}  // namespace heed::io
