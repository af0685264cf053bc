// The memory pool of all tensors.
#include "heed/buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <mutex>
#include <string>

#include "core/fork_safe_mutex.h"
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
constexpr std::size_t kLarge = 1 << 20;  // larger blocks are mapped: freeing one returns it to the system
constexpr std::size_t kPage = 1 << 16;
constexpr std::size_t kHugePage = 2 << 20;
constexpr std::size_t kCacheFloor = 64 << 20;
constexpr std::size_t kRow = 32 * kHugePage;  // of blocks side by side; what is not used yet has no pages

// Small sizes are powers of two with four steps between them, so that at most a fifth of a block is unused.
// Large ones are whole pages.
std::size_t size_class(std::size_t bytes) {
  if (bytes <= kSmallest) return kSmallest;
  if (bytes >= kLarge) return (bytes + kPage - 1) / kPage * kPage;
  const std::size_t step = std::bit_floor(bytes - 1) / 4;
  return (bytes + step - 1) / step * step;
}

// Maps large blocks on huge pages if the system has them: otherwise a matrix product over a wide matrix is
// slowed down by TLB misses.
std::byte* map_large(std::size_t size) {
  const std::size_t room = size + kHugePage;
  void* mapped = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(mapped);
  const std::size_t before = (kHugePage - reinterpret_cast<std::uintptr_t>(begin) % kHugePage) % kHugePage;
  if (before > 0) munmap(begin, before);
  munmap(begin + before + size, room - before - size);
#ifdef MADV_HUGEPAGE
  madvise(begin + before, size, MADV_HUGEPAGE);  // only a hint: failure affects nothing but speed
#endif
  return begin + before;
}

std::byte* ask_system(std::size_t size) {
  if (size >= kLarge) return map_large(size);
  return static_cast<std::byte*>(std::aligned_alloc(kAlignment, size));
}

void give_back(std::byte* block, std::size_t size) {
  ASAN_UNPOISON_MEMORY_REGION(block, size);
  if (size >= kLarge) {
    munmap(block, size);
  } else {
    std::free(block);
  }
}

struct FreeBlock {
  std::byte* data = nullptr;
  std::uint64_t released = 0;  // time of release, counted in releases
};

// Memory for blocks side by side.
struct Row {
  std::byte* const data = ask_system(kRow);
  std::size_t used = 0;
  Row() = default;
  ~Row() {
    if (data != nullptr) give_back(data, kRow);
  }
  Row(const Row&) = delete;
};

struct BufferPool {
  ForkSafeMutex mutex;
  std::weak_ptr<Row> last_row;
  std::multimap<std::size_t, FreeBlock> free_blocks;  // by size
  MemoryStatistics statistics;
  std::size_t most_in_use = 0;
  std::uint64_t releases = 0;

  // Returns the smallest free block of at least `size` bytes that wastes at most a quarter of it; of several,
  // the one released last, which may still be in the processor's cache.
  std::multimap<std::size_t, FreeBlock>::iterator find(std::size_t size) {
    const auto fits = free_blocks.lower_bound(size);
    if (fits == free_blocks.end() || fits->first > size + size / 4) return free_blocks.end();
    return std::prev(free_blocks.upper_bound(fits->first));
  }

  void count(std::size_t bytes) {
    statistics.bytes_in_use += bytes;
    statistics.peak_bytes = std::max(statistics.peak_bytes, statistics.bytes_in_use);
    most_in_use = std::max(most_in_use, statistics.bytes_in_use);
  }

  void release(std::multimap<std::size_t, FreeBlock>::iterator block) {
    statistics.bytes_cached -= block->first;
    give_back(block->second.data, block->first);
    free_blocks.erase(block);
  }

  void release_all() {
    while (!free_blocks.empty()) release(free_blocks.begin());
  }

  // Returns the least recently used blocks to the system until, with another block of `size`, the pool holds
  // at most a quarter more than the peak memory in use: batches of ever new shapes must not accumulate
  // memory.
  void make_room(std::size_t size) {
    const std::size_t needed = std::max(most_in_use, statistics.bytes_in_use + size);
    const std::size_t limit = needed + needed / 4 + kCacheFloor;
    while (!free_blocks.empty() && statistics.bytes_in_use + statistics.bytes_cached + size > limit) {
      release(std::min_element(free_blocks.begin(), free_blocks.end(), [](const auto& a, const auto& b) {
        return a.second.released < b.second.released;
      }));
    }
  }
};

// Never destroyed, because tensors with static storage may outlive any other object.
BufferPool& buffer_pool() {
  static BufferPool* instance = new BufferPool;
  return *instance;
}

// Made when the library is loaded: a process that forks while another thread makes it would leave its child
// waiting for that thread.
[[maybe_unused]] BufferPool& made_at_load = buffer_pool();

}  // namespace

struct Buffer::Lazy {
  ForkSafeMutex mutex;
  std::atomic<bool> materialized = false;
  std::shared_ptr<const Source> source;
  std::byte* data = nullptr;        // null while the data are unwritten
  std::shared_ptr<Buffer> storage;  // owner of data, unless data is in a mapped file
  Release release = nullptr;
};

Buffer::Buffer() = default;

std::shared_ptr<Buffer> Buffer::allocate(std::size_t bytes) {
  std::shared_ptr<Buffer> buffer(new Buffer);
  buffer->bytes_ = bytes;
  BufferPool& p = buffer_pool();
  const std::lock_guard lock(p.mutex);
  if (bytes > SIZE_MAX / 4)
    throw Error("memory: expected a block that fits, got " + std::to_string(bytes) + " bytes");
  std::size_t size = size_class(bytes);
  if (const auto found = p.find(size); found != p.free_blocks.end()) {
    size = found->first;
    buffer->data_ = found->second.data;
    p.free_blocks.erase(found);
    p.statistics.bytes_cached -= size;
  } else {
    p.make_room(size);
    buffer->data_ = ask_system(size);
    if (buffer->data_ == nullptr) {
      p.release_all();
      buffer->data_ = ask_system(size);
    }
    if (buffer->data_ == nullptr) {
      throw Error("memory: expected " + std::to_string(size) + " bytes, got none (" +
                  std::to_string(p.statistics.bytes_in_use) +
                  " in use; make the batch or the model smaller)");
    }
    ++p.statistics.system_allocations;
  }
  // Lets the address sanitizer detect accesses beyond the requested size and after release, as if there were
  // no pool.
  ASAN_POISON_MEMORY_REGION(buffer->data_, size);
  ASAN_UNPOISON_MEMORY_REGION(buffer->data_, bytes);
  buffer->pooled_bytes_ = size;
  p.count(size);
  return buffer;
}

std::shared_ptr<Buffer> Buffer::allocate_side_by_side(std::size_t bytes) {
  if (bytes > kRow / 8) return allocate(bytes);
  // Of a row, what is used is in use.
  struct Place {
    std::shared_ptr<Row> row;
    std::size_t bytes;
    Place(std::shared_ptr<Row> in, std::size_t count) : row(std::move(in)), bytes(count) {}
    Place(const Place&) = delete;
    ~Place() {
      const std::lock_guard lock(buffer_pool().mutex);
      buffer_pool().statistics.bytes_in_use -= bytes;
    }
  };
  BufferPool& p = buffer_pool();
  std::shared_ptr<Row> row;
  std::byte* data = nullptr;
  {
    const std::lock_guard lock(p.mutex);
    row = p.last_row.lock();
    if (row == nullptr || row->used + bytes > kRow) p.last_row = row = std::make_shared<Row>();
    if (row->data != nullptr) {
      data = row->data + row->used;
      row->used += (bytes + kAlignment - 1) / kAlignment * kAlignment;
      p.count(bytes);
    }
  }
  return data == nullptr ? allocate(bytes) : wrap(data, bytes, std::make_shared<Place>(row, bytes));
}

std::shared_ptr<Buffer> Buffer::wrap(void* data, std::size_t bytes, std::shared_ptr<void> owner) {
  std::shared_ptr<Buffer> buffer(new Buffer);
  buffer->data_ = static_cast<std::byte*>(data);
  buffer->bytes_ = bytes;
  buffer->owner_ = std::move(owner);
  return buffer;
}

std::shared_ptr<Buffer> Buffer::wrap_file(void* data, std::size_t bytes, std::shared_ptr<void> owner,
                                          Release release) {
  std::shared_ptr<Buffer> buffer = wrap(data, bytes, std::move(owner));
  buffer->lazy_ = std::make_unique<Lazy>();
  buffer->lazy_->data = buffer->data_;
  buffer->lazy_->release = release;
  return buffer;
}

std::shared_ptr<Buffer> Buffer::lazy(std::size_t bytes, std::shared_ptr<const Source> source) {
  std::shared_ptr<Buffer> buffer = wrap(nullptr, bytes, nullptr);
  buffer->lazy_ = std::make_unique<Lazy>();
  buffer->lazy_->source = std::move(source);
  return buffer;
}

std::byte* Buffer::materialize() const {
  Lazy& l = *lazy_;
  if (l.materialized.load(std::memory_order_acquire)) return l.data;
  if (write_by([](const Source& source, std::byte* to) { source.write(to); })) return l.data;
  const std::lock_guard lock(l.mutex);
  l.materialized.store(true, std::memory_order_release);  // a file's
  return l.data;
}

bool Buffer::write_by(FunctionRef<void(const Source&, std::byte*)> write) const {
  if (is_materialized()) return false;
  const std::lock_guard lock(lazy_->mutex);
  if (lazy_->source == nullptr) return false;
  std::shared_ptr<Buffer> storage = lazy_->source->place();
  if (storage == nullptr) storage = allocate(bytes_);
  write(*lazy_->source, storage->data());
  lazy_->data = storage->data();
  lazy_->storage = std::move(storage);
  lazy_->source.reset();
  lazy_->materialized.store(true, std::memory_order_release);
  return true;
}

bool Buffer::is_materialized() const {
  return lazy_ == nullptr || lazy_->materialized.load(std::memory_order_acquire);
}

bool Buffer::is_unwritten() const { return source() != nullptr; }

std::shared_ptr<const Buffer::Source> Buffer::source() const {
  if (is_materialized()) return nullptr;
  const std::lock_guard lock(lazy_->mutex);
  return lazy_->source;
}

std::shared_ptr<const Buffer> Buffer::read() const {
  if (lazy_ == nullptr) return wrap(data_, bytes_, owner_);
  std::shared_ptr<const Source> source;
  {
    const std::lock_guard lock(lazy_->mutex);
    if (lazy_->data != nullptr) {
      return wrap(lazy_->data, bytes_, lazy_->storage != nullptr ? lazy_->storage : owner_);
    }
    source = lazy_->source;
  }
  // What a copy would be made of may be overwritten meanwhile, once for all.
  if (source->place() != nullptr) return wrap(materialize(), bytes_, lazy_->storage);
  std::shared_ptr<Buffer> copy = allocate(bytes_);
  source->write(copy->data());
  return copy;
}

void Buffer::release_pages() const {
  if (lazy_ == nullptr || lazy_->release == nullptr) return;
  const std::lock_guard lock(lazy_->mutex);
  if (!lazy_->materialized) lazy_->release(lazy_->data, bytes_);
}

Buffer::~Buffer() {
  if (pooled_bytes_ == 0) return;
  ASAN_POISON_MEMORY_REGION(data_, pooled_bytes_);
  BufferPool& p = buffer_pool();
  const std::lock_guard lock(p.mutex);
  p.free_blocks.emplace(pooled_bytes_, FreeBlock{data_, ++p.releases});
  p.statistics.bytes_in_use -= pooled_bytes_;
  p.statistics.bytes_cached += pooled_bytes_;
}

MemoryStatistics memory_statistics() {
  const std::lock_guard lock(buffer_pool().mutex);
  return buffer_pool().statistics;
}

void reset_peak_memory() {
  const std::lock_guard lock(buffer_pool().mutex);
  buffer_pool().statistics.peak_bytes = buffer_pool().statistics.bytes_in_use;
}

void release_cached_memory() {
  const std::lock_guard lock(buffer_pool().mutex);
  buffer_pool().release_all();
}

}  // namespace heed
