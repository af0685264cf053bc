// Buffer: a block of memory shared by tensors. Freed blocks are kept in a pool, so that a training loop asks
// the system for memory only in its first step. The pool holds at most a quarter (and 64 MB) more than was
// ever in use at once, whatever the shapes.
#pragma once

#include <cstddef>
#include <memory>

namespace heed {

class Buffer {
 public:
  /// A block of at least `bytes` bytes, aligned to 64; its content is undefined. Throws Error when the
  /// system has no memory left.
  static std::shared_ptr<Buffer> allocate(std::size_t bytes);
  /// Memory owned by somebody else (a mapped file); `owner` is released with the buffer.
  static std::shared_ptr<Buffer> wrap(void* data, std::size_t bytes, std::shared_ptr<void> owner);

  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  Buffer() = default;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::size_t pooled_bytes_ = 0;  // size class; 0 for wrapped memory
  std::shared_ptr<void> owner_;
};

struct MemoryStatistics {
  std::size_t bytes_in_use = 0;        ///< handed out by Buffer::allocate and not yet released
  std::size_t peak_bytes = 0;          ///< largest bytes_in_use since the start or reset_peak_memory()
  std::size_t bytes_cached = 0;        ///< released and kept for reuse
  std::size_t system_allocations = 0;  ///< how often the pool had to ask the system
};

MemoryStatistics memory_statistics();
void reset_peak_memory();
/// Gives the pool's cached blocks back to the system.
void release_cached_memory();

}  // namespace heed
