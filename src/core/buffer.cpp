#include "heed/buffer.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "heed/error.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

namespace heed {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kSmallest = 256;

// Size classes are powers of two with four steps between, so that at most a fifth of a block is unused.
std::size_t size_class(std::size_t bytes) {
  if (bytes <= kSmallest) return kSmallest;
  const std::size_t step = std::bit_floor(bytes - 1) / 4;
  return (bytes + step - 1) / step * step;
}

struct Pool {
  std::mutex mutex;
  std::map<std::size_t, std::vector<std::byte*>> free_blocks;
  MemoryStatistics statistics;

  void release_all() {
    for (auto& [bytes, blocks] : free_blocks) {
      for (std::byte* block : blocks) {
        ASAN_UNPOISON_MEMORY_REGION(block, bytes);
        std::free(block);
      }
      statistics.bytes_cached -= bytes * blocks.size();
    }
    free_blocks.clear();
  }
};

// Never destroyed: tensors with static storage may outlive any other object.
Pool& pool() {
  static Pool* instance = new Pool;
  return *instance;
}

}  // namespace

std::shared_ptr<Buffer> Buffer::allocate(std::size_t bytes) {
  std::shared_ptr<Buffer> buffer(new Buffer);
  buffer->bytes_ = bytes;
  Pool& p = pool();
  const std::lock_guard lock(p.mutex);
  if (bytes > SIZE_MAX / 4)
    throw Error("memory: expected a block that fits, got " + std::to_string(bytes) + " bytes");
  const std::size_t size = size_class(bytes);
  auto found = p.free_blocks.find(size);
  if (found != p.free_blocks.end() && !found->second.empty()) {
    buffer->data_ = found->second.back();
    found->second.pop_back();
    p.statistics.bytes_cached -= size;
  } else {
    void* block = std::aligned_alloc(kAlignment, size);
    if (block == nullptr) {
      p.release_all();
      block = std::aligned_alloc(kAlignment, size);
    }
    if (block == nullptr) {
      throw Error("memory: expected " + std::to_string(size) + " bytes, got none (" +
                  std::to_string(p.statistics.bytes_in_use) +
                  " in use; make the batch or the model smaller)");
    }
    ++p.statistics.system_allocations;
    buffer->data_ = static_cast<std::byte*>(block);
  }
  // The sanitizer sees use of what was not asked for, and of what was given back, as if there were no pool.
  ASAN_POISON_MEMORY_REGION(buffer->data_, size);
  ASAN_UNPOISON_MEMORY_REGION(buffer->data_, bytes);
  buffer->pooled_bytes_ = size;
  p.statistics.bytes_in_use += size;
  p.statistics.peak_bytes = std::max(p.statistics.peak_bytes, p.statistics.bytes_in_use);
  return buffer;
}

std::shared_ptr<Buffer> Buffer::wrap(void* data, std::size_t bytes, std::shared_ptr<void> owner) {
  std::shared_ptr<Buffer> buffer(new Buffer);
  buffer->data_ = static_cast<std::byte*>(data);
  buffer->bytes_ = bytes;
  buffer->owner_ = std::move(owner);
  return buffer;
}

Buffer::~Buffer() {
  if (pooled_bytes_ == 0) return;
  ASAN_POISON_MEMORY_REGION(data_, pooled_bytes_);
  Pool& p = pool();
  const std::lock_guard lock(p.mutex);
  p.free_blocks[pooled_bytes_].push_back(data_);
  p.statistics.bytes_in_use -= pooled_bytes_;
  p.statistics.bytes_cached += pooled_bytes_;
}

MemoryStatistics memory_statistics() {
  const std::lock_guard lock(pool().mutex);
  return pool().statistics;
}

void reset_peak_memory() {
  const std::lock_guard lock(pool().mutex);
  pool().statistics.peak_bytes = pool().statistics.bytes_in_use;
}

void release_cached_memory() {
  const std::lock_guard lock(pool().mutex);
  pool().release_all();
}

}  // namespace heed
