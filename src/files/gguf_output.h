// Writing GGUF files (files/gguf_file.h): metadata, then tensors, one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/block_type.h"

namespace heed {

/// Metadata in the order of the calls. A key may be given once.
class GgufValues {
 public:
  /// Integers are unsigned numbers of 32 bits, numbers are f32, as llama.cpp expects them.
  void integer(std::string_view key, std::int64_t value);
  void number(std::string_view key, double value);
  void boolean(std::string_view key, bool value);
  void text(std::string_view key, std::string_view value);
  void texts(std::string_view key, const std::vector<std::string>& values);
  void integers(std::string_view key, const std::vector<std::int32_t>& values);
  void numbers(std::string_view key, const std::vector<float>& values);
  /// An array of 8-bit integers.
  void bytes(std::string_view key, std::string_view values);
  /// What `others` has, after what is here.
  void append(const GgufValues& others);

  bool has(std::string_view key) const { return keys_.find(key) != keys_.end(); }
  std::uint64_t count() const { return keys_.size(); }
  /// As they lie in a file.
  const std::string& encoded() const { return encoded_; }

 private:
  void begin(std::string_view key, std::uint32_t type);
  void begin_array(std::string_view key, std::uint32_t type, std::size_t count);

  std::set<std::string, std::less<>> keys_;
  std::string encoded_;
};

struct GgufOutputTensor {
  std::string name;
  BlockType type = BlockType::f32;
  std::vector<std::int64_t> shape;  // as GgufTensor::shape; rows are whole blocks
  std::function<std::vector<std::byte>()> data;
};

/// Writes a file of version 3; the data of each tensor are asked for when its turn has come. The file appears
/// under its name when it is complete.
void write_gguf(const std::filesystem::path& path, const GgufValues& values,
                const std::vector<GgufOutputTensor>& tensors);

}  // namespace heed
