#include "io/safetensors_header.h"

#include <algorithm>
#include <unordered_set>

#include "core/json_field.h"
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

[[noreturn]] void fail(const JsonField& tensor, const std::string& expected, const std::string& got) {
  throw Error(tensor.where() + ": expected " + expected + ", got " + got);
}

void check_size(const JsonField& tensor, const TensorInfo& info) {
  std::uint64_t bits = 1;
  bool fits = true;
  for (const std::int64_t size : info.shape) {
    fits = fits && !__builtin_mul_overflow(bits, static_cast<std::uint64_t>(size), &bits);
  }
  fits = fits && !__builtin_mul_overflow(bits, find_dtype(info.dtype)->bits, &bits);
  if (!fits) fail(tensor, "a shape whose product fits 64 bits", "a larger one");
  if (bits % 8 != 0) fail(tensor, "a shape that fills whole bytes", std::to_string(bits) + " bits");
  if (info.end < info.begin)
    fail(tensor, "data_offsets with begin <= end",
         std::to_string(info.begin) + " and " + std::to_string(info.end));
  if (bits / 8 != info.end - info.begin) {
    fail(tensor, "data_offsets that span the " + std::to_string(bits / 8) + " bytes of its dtype and shape",
         std::to_string(info.end - info.begin) + " bytes");
  }
}

// The format has no number with a point.
std::int64_t size_at(const JsonField& list, std::size_t i) {
  const JsonField size = list.at(i);
  if (!size.value().is_number_integer()) size.fail("an integer");
  return size.integer(0, INT64_MAX);
}

TensorInfo read_tensor(const std::string& name, const JsonField& tensor) {
  TensorInfo info;
  info.name = name;
  tensor.each_member([&](const std::string& key, const JsonField&) {
    if (key != "dtype" && key != "shape" && key != "data_offsets")
      fail(tensor, "the fields dtype, shape and data_offsets", json_shown(key));
  });
  const JsonField dtype = tensor.at("dtype"), shape = tensor.at("shape"), offsets = tensor.at("data_offsets");
  info.dtype = dtype.string();
  if (find_dtype(info.dtype) == nullptr) dtype.fail("a dtype of the format, like F32 or BF16");
  for (std::size_t i = 0; i < shape.array_size(); ++i) info.shape.push_back(size_at(shape, i));
  if (offsets.array_size() != 2) offsets.fail("an array [begin, end]");
  info.begin = static_cast<std::uint64_t>(size_at(offsets, 0));
  info.end = static_cast<std::uint64_t>(size_at(offsets, 1));
  check_size(tensor, info);
  return info;
}

// Member by member, as a tree of the largest header would take gigabytes.
SafetensorsHeader read_members(const std::string& where, std::string_view text) {
  SafetensorsHeader header;
  JsonReader json(where, text);
  std::unordered_set<std::string> names;
  std::string name;
  for (json.begin_object(); json.next_key(name);) {
    if (!names.insert(name).second) json.fail("every name once", json_shown(name) + " twice");
    const Json value = json.value();
    const JsonField field(value, where + ": \"" + name + "\"");
    if (name == kMetadataName) {
      field.each_member([&](const std::string& key, const JsonField& text) {
        header.metadata.emplace(key, text.string());
      });
    } else {
      header.tensors.push_back(read_tensor(name, field));
    }
  }
  json.finish();
  return header;
}

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
  SafetensorsHeader header = read_members(header_where, text);
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
