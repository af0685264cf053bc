// An array that grows at its end, and may be larger than memory: what exceeds a limit is kept in a file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "heed/files/file.h"

namespace heed {

/// The bytes of a SpilledArray.
/// Threads: one may append; once finished, several may read.
class SpilledBytes {
 public:
  static constexpr std::size_t kInMemory = std::size_t{16} << 20;

  /// With a folder, more than `in_memory` bytes are moved to a file there, which has no name and is gone when
  /// the process ends; where the folder does not exist (on another host than that which writes to it), in the
  /// system's folder for temporary files. Without one, all stay in memory.
  explicit SpilledBytes(std::filesystem::path folder = {}, std::size_t in_memory = kInMemory)
      : folder_(std::move(folder)), in_memory_(in_memory) {}
  SpilledBytes(SpilledBytes&& other) noexcept;
  SpilledBytes& operator=(SpilledBytes&& other) noexcept;
  ~SpilledBytes();

  /// Throws Error if the file cannot be written, e.g. if the disk is full.
  void append(std::span<const std::byte> bytes);
  /// Nothing is appended afterward. Must be called before data() if there is a folder.
  void finish();
  std::size_t size() const { return spilled_ + tail_.size(); }
  const std::byte* data() const;

 private:
  void spill();
  void release();

  std::filesystem::path folder_;
  std::size_t in_memory_;
  std::vector<std::byte> tail_;  // the last bytes, and all of them as long as there is no file
  std::size_t spilled_ = 0;      // bytes in the file
  int descriptor_ = -1;
  std::byte* mapped_ = nullptr;
};

/// Elements of a trivially copyable type. Threads: as SpilledBytes.
template <class T>
class SpilledArray {
 public:
  static_assert(std::is_trivially_copyable_v<T>);
  /// As SpilledBytes.
  explicit SpilledArray(std::filesystem::path folder = {}, std::size_t in_memory = SpilledBytes::kInMemory)
      : bytes_(std::move(folder), in_memory) {}

  void append(std::span<const T> elements) { bytes_.append(std::as_bytes(elements)); }
  void push_back(const T& element) { append(std::span(&element, 1)); }
  void finish() { bytes_.finish(); }
  std::size_t size() const { return bytes_.size() / sizeof(T); }
  std::span<const T> view() const { return {reinterpret_cast<const T*>(bytes_.data()), size()}; }

 private:
  SpilledBytes bytes_;
};

}  // namespace heed
