// Writes small GGUF files for tests, well formed or not.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace heed {

class GgufWriter {
 public:
  template <class T>
  static std::string raw(T value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  }
  static std::string text(std::string_view value) {
    return raw<std::uint64_t>(value.size()) + std::string(value);
  }

  /// A value with the number of its type and its bytes.
  GgufWriter& value(std::string_view key, std::uint32_t type, const std::string& bytes) {
    values_ += text(key) + raw(type) + bytes;
    ++value_count_;
    return *this;
  }
  GgufWriter& integer(std::string_view key, std::uint32_t number) { return value(key, 4, raw(number)); }
  GgufWriter& number(std::string_view key, float number) { return value(key, 6, raw(number)); }
  GgufWriter& boolean(std::string_view key, bool flag) { return value(key, 7, raw<std::uint8_t>(flag)); }
  GgufWriter& string(std::string_view key, std::string_view content) { return value(key, 8, text(content)); }
  GgufWriter& strings(std::string_view key, const std::vector<std::string>& all) {
    std::string bytes = raw<std::uint32_t>(8) + raw<std::uint64_t>(all.size());
    for (const std::string& one : all) bytes += text(one);
    return value(key, 9, bytes);
  }
  template <class T>
  GgufWriter& array(std::string_view key, std::uint32_t type, const std::vector<T>& all) {
    std::string bytes = raw(type) + raw<std::uint64_t>(all.size());
    for (const T& one : all) bytes += raw(one);
    return value(key, 9, bytes);
  }
  /// A tensor of F32; `sizes` as the format has them, the fastest axis first.
  GgufWriter& tensor(std::string_view name, const std::vector<std::uint64_t>& sizes,
                     const std::vector<float>& numbers) {
    std::string bytes;
    for (const float number : numbers) bytes += raw(number);
    return tensor(name, sizes, 0, bytes);
  }
  GgufWriter& tensor(std::string_view name, const std::vector<std::uint64_t>& sizes, std::uint32_t type,
                     const std::string& bytes) {
    return tensor_at(name, sizes, type, data_.size(), bytes);
  }
  GgufWriter& tensor_at(std::string_view name, const std::vector<std::uint64_t>& sizes, std::uint32_t type,
                        std::uint64_t offset, const std::string& bytes) {
    tensors_ += text(name) + raw(static_cast<std::uint32_t>(sizes.size()));
    for (const std::uint64_t size : sizes) tensors_ += raw(size);
    tensors_ += raw(type) + raw<std::uint64_t>(offset);
    data_ += bytes;
    data_.append((32 - data_.size() % 32) % 32, '\0');
    ++tensor_count_;
    return *this;
  }

  std::string bytes(std::uint32_t version = 3) const {
    std::string file = "GGUF" + raw(version) + raw(tensor_count_) + raw(value_count_) + values_ + tensors_;
    file.append((32 - file.size() % 32) % 32, '\0');
    return file + data_;
  }

 private:
  std::string values_, tensors_, data_;
  std::uint64_t value_count_ = 0, tensor_count_ = 0;
};

}  // namespace heed
