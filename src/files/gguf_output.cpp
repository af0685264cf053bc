#include "files/gguf_output.h"

#include <cstring>

#include "files/gguf_file.h"
#include "heed/error.h"
#include "heed/files/file.h"

namespace heed {
namespace {

constexpr std::uint64_t kGgufAlignment = 32;

template <class T>
void put(std::string& to, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  to.append(bytes, sizeof value);
}

void put_text(std::string& to, std::string_view text) {
  put<std::uint64_t>(to, text.size());
  to.append(text);
}

std::uint64_t padding_after(std::uint64_t bytes) {
  return (kGgufAlignment - bytes % kGgufAlignment) % kGgufAlignment;
}

std::uint64_t bytes_of(const GgufOutputTensor& tensor) {
  const BlockLayout& layout = layout_of(tensor.type);
  HEED_ASSERT(tensor.shape.back() % layout.numbers == 0, "rows of whole blocks");
  std::int64_t blocks = 1;
  for (const std::int64_t size : tensor.shape) blocks *= size;
  return static_cast<std::uint64_t>(blocks / layout.numbers * layout.bytes);
}

}  // namespace

void GgufValues::begin(std::string_view key, std::uint32_t type) {
  HEED_ASSERT(keys_.emplace(key).second, "a key that is given once");
  put_text(encoded_, key);
  put(encoded_, type);
}

void GgufValues::begin_array(std::string_view key, std::uint32_t type, std::size_t count) {
  begin(key, gguf_format::kArray);
  put(encoded_, type);
  put<std::uint64_t>(encoded_, count);
}

void GgufValues::integer(std::string_view key, std::int64_t value) {
  HEED_ASSERT(value >= 0 && value <= std::int64_t{UINT32_MAX}, "an unsigned number of 32 bits");
  begin(key, gguf_format::kU32);
  put(encoded_, static_cast<std::uint32_t>(value));
}

void GgufValues::number(std::string_view key, double value) {
  begin(key, gguf_format::kF32);
  put(encoded_, static_cast<float>(value));
}

void GgufValues::boolean(std::string_view key, bool value) {
  begin(key, gguf_format::kBool);
  put<std::uint8_t>(encoded_, value ? 1 : 0);
}

void GgufValues::text(std::string_view key, std::string_view value) {
  begin(key, gguf_format::kText);
  put_text(encoded_, value);
}

void GgufValues::texts(std::string_view key, const std::vector<std::string>& values) {
  begin_array(key, gguf_format::kText, values.size());
  for (const std::string& value : values) put_text(encoded_, value);
}

void GgufValues::integers(std::string_view key, const std::vector<std::int32_t>& values) {
  begin_array(key, gguf_format::kI32, values.size());
  for (const std::int32_t value : values) put(encoded_, value);
}

void GgufValues::numbers(std::string_view key, const std::vector<float>& values) {
  begin_array(key, gguf_format::kF32, values.size());
  for (const float value : values) put(encoded_, value);
}

void GgufValues::bytes(std::string_view key, std::string_view values) {
  begin_array(key, gguf_format::kU8, values.size());
  encoded_.append(values);
}

void GgufValues::append(const GgufValues& others) {
  for (const std::string& key : others.keys_) {
    const bool added = keys_.insert(key).second;
    HEED_ASSERT(added, "a key that is given once");
  }
  encoded_ += others.encoded_;
}

void write_gguf(const std::filesystem::path& path, const GgufValues& values,
                const std::vector<GgufOutputTensor>& tensors) {
  std::string header(gguf_format::kMagic);
  put<std::uint32_t>(header, 3);
  put<std::uint64_t>(header, tensors.size());
  put<std::uint64_t>(header, values.count());
  header += values.encoded();
  std::uint64_t offset = 0;
  for (const GgufOutputTensor& tensor : tensors) {
    put_text(header, tensor.name);
    put(header, static_cast<std::uint32_t>(tensor.shape.size()));
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size)
      put(header, static_cast<std::uint64_t>(*size));  // the fastest axis is first
    put(header, layout_of(tensor.type).id);
    put(header, offset);
    const std::uint64_t bytes = bytes_of(tensor);
    offset += bytes + padding_after(bytes);
  }
  header.append(padding_after(header.size()), '\0');
  AtomicFile file(path);
  file.write(header);
  for (const GgufOutputTensor& tensor : tensors) {
    const std::vector<std::byte> data = tensor.data();
    HEED_ASSERT(data.size() == bytes_of(tensor), tensor.name.c_str());
    file.write(data);
    file.write(std::string(padding_after(data.size()), '\0'));
  }
  file.commit();
}

}  // namespace heed
