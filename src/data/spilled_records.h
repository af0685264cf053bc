// Lists of records that may be larger than memory.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "heed/files/spilled_array.h"

namespace heed {

/// Writes fields one after another: numbers as they are in memory, texts and lists after their size.
class RecordWriter {
 public:
  template <class T>
  void write(const T& value) {
    if constexpr (std::is_arithmetic_v<T>) {
      append(std::as_bytes(std::span(&value, 1)));
    } else {
      write(static_cast<std::uint64_t>(value.size()));
      if constexpr (std::is_arithmetic_v<typename T::value_type>) {
        append(std::as_bytes(std::span(value)));
      } else {
        for (const auto& element : value) write(element);
      }
    }
  }
  std::span<const std::byte> bytes() const { return bytes_; }
  void clear() { bytes_.clear(); }

 private:
  void append(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  std::vector<std::byte> bytes_;
};

/// Reads the fields that a RecordWriter wrote, in the same order.
class RecordReader {
 public:
  explicit RecordReader(const std::byte* at) : at_(at) {}
  template <class T>
  void read(T& value) {
    if constexpr (std::is_arithmetic_v<T>) {
      take(&value, sizeof(T));
    } else {
      std::uint64_t size = 0;
      read(size);
      value.resize(size);
      if constexpr (std::is_arithmetic_v<typename T::value_type>) {
        take(value.data(), size * sizeof(typename T::value_type));
      } else {
        for (auto& element : value) read(element);
      }
    }
  }

 private:
  void take(void* to, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, at_, bytes);
    at_ += bytes;
  }
  const std::byte* at_;
};

/// A list of records, which are made anew whenever they are read. `Record::fields(record)` ties the members:
/// numbers, texts, and lists of them.
/// Threads: one may add; once finished, several may read.
template <class Record>
class SpilledRecords {
 public:
  /// With a folder, many records are kept in files there (SpilledBytes).
  explicit SpilledRecords(const std::filesystem::path& folder = {}) : bytes_(folder), ends_(folder) {}

  void add(const Record& record) {
    writer_.clear();
    std::apply([&](const auto&... field) { (writer_.write(field), ...); }, Record::fields(record));
    bytes_.append(writer_.bytes());
    ends_.push_back(bytes_.size());
  }
  /// Nothing is added afterwards. Must be called before records are read if there is a folder.
  void finish() {
    bytes_.finish();
    ends_.finish();
  }
  std::int64_t size() const { return static_cast<std::int64_t>(ends_.size()); }
  bool empty() const { return size() == 0; }
  Record operator[](std::int64_t i) const {
    const auto at = static_cast<std::size_t>(i);
    RecordReader reader(bytes_.data() + (at == 0 ? 0 : ends_.view()[at - 1]));
    Record record{};
    std::apply([&](auto&... field) { (reader.read(field), ...); }, Record::fields(record));
    return record;
  }

 private:
  RecordWriter writer_;
  SpilledBytes bytes_;
  SpilledArray<std::uint64_t> ends_;
};

/// Records of some numbers in a list, or in anything that is read as one.
template <class List>
struct ChosenRecords {
  std::shared_ptr<const List> list = {};
  std::vector<std::int64_t> rows = {};

  std::int64_t size() const { return static_cast<std::int64_t>(rows.size()); }
  bool empty() const { return rows.empty(); }
  auto operator[](std::int64_t i) const { return (*list)[rows[static_cast<std::size_t>(i)]]; }
};

}  // namespace heed
