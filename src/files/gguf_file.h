// GGUF, the file format of llama.cpp: typed metadata under names, then the names, shapes and types of
// tensors, then their data. Numbers are little endian. A model may be cut into several files,
// NAME-00001-of-00003.gguf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/block_type.h"
#include "heed/files/file.h"

namespace heed {

struct GgufTensor {
  std::string name;
  BlockLayout layout;
  std::vector<std::int64_t> shape;  // of 1 to 4 axes; rows are consecutive, as everywhere in heed
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<MappedFile> file;
};

/// An open file, or all files that a model is cut into.
/// Threads: several may read one object at once.
class GgufFile {
 public:
  /// Maps the file and checks its whole header: magic, version 2 or 3, no repeated key or tensor, values and
  /// names within the file, tensors of types that heed reads, of whole blocks, aligned, within the file and
  /// not overlapping. If the file is one of several, the others are opened from the same directory. Throws
  /// Error naming the file, as `shown` where that is given, and if possible the key or tensor.
  static GgufFile open(const std::filesystem::path& path, const std::filesystem::path& shown = {});

  /// As messages name it.
  const std::filesystem::path& path() const { return path_; }
  const std::vector<std::shared_ptr<MappedFile>>& files() const { return files_; }
  /// In the order of the files.
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  /// Null if there is none of that name.
  const GgufTensor* find(std::string_view name) const;

  bool has(std::string_view key) const { return values_.find(key) != values_.end(); }
  /// In alphabetical order.
  std::vector<std::string> keys() const;
  /// The value under a key, or nothing if there is none. Throws Error if it has another type. Integers of any
  /// width are `integer`s; these and floating numbers are `number`s.
  std::optional<std::int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string> string(std::string_view key) const;
  /// The elements of an array; empty if there is none. A single value counts as an array of one.
  std::vector<std::int64_t> integers(std::string_view key) const;
  std::vector<double> numbers(std::string_view key) const;
  /// Valid as long as this object or a copy. Their bytes need not be UTF-8.
  std::vector<std::string_view> strings(std::string_view key) const;
  /// The bytes of an array of 8-bit integers.
  std::string_view bytes(std::string_view key) const;

  /// Throws Error: `file: key: expected ..., got ...`.
  [[noreturn]] void fail(std::string_view key, const std::string& expected, const std::string& got) const;

 private:
  friend class GgufReader;
  struct Value {
    std::uint32_t type = 0;  // of the value, or of an array's elements
    bool array = false;
    std::uint64_t count = 1;
    const std::byte* data = nullptr;
  };
  template <class Read>
  void each(std::string_view key, const char* expected, Read read) const;
  const Value* single(std::string_view key, const char* expected) const;
  void read(const std::filesystem::path& path);

  std::filesystem::path path_;
  std::vector<std::shared_ptr<MappedFile>> files_;
  std::map<std::string, Value, std::less<>> values_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> index_;  // of a tensor's name in tensors_
};

/// Whether the path is a regular file that begins as a GGUF file, or is named as one.
bool is_gguf(const std::filesystem::path& path);

namespace gguf_format {

inline constexpr std::string_view kMagic = "GGUF";

/// The types of values, as the file numbers them.
enum Type : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kText,
  kArray,
  kU64,
  kI64,
  kF64,
  kTypes
};

}  // namespace gguf_format

}  // namespace heed
