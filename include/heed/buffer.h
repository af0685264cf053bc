// Buffer: a block of memory shared by tensors. Freed blocks are kept in a pool, so that a training loop
// allocates from the system only in its first step. The pool holds at most a quarter (and 64 MB) more than
// was ever in use at once.
//
// Data may be lazy: computed from a source, or read from a file, when they are first needed. Until data()
// hands out the address, nobody can have changed them, so they can be computed or read again.
#pragma once

#include <cstddef>
#include <memory>

#include "heed/export.h"
#include "heed/threads.h"

namespace HEED_API heed {

/// Threads: several may call the functions of one buffer at once; a writer needs exclusive access.
class Buffer {
 public:
  /// Where the data of a lazy buffer come from.
  class Source {
   public:
    virtual ~Source() = default;
    /// Writes all bytes to `to`; may be called again, and by several threads at once.
    virtual void write(std::byte* to) const = 0;
    /// Memory that nobody will read again, where the data may be written for good; else null.
    virtual std::shared_ptr<Buffer> place() const { return nullptr; }
  };
  /// Releases memory whose content can be read again (pages of a mapped file).
  using Release = void (*)(std::byte* data, std::size_t bytes);

  /// A block of at least `bytes` bytes, aligned to 64; its content is undefined. Throws Error when the
  /// system has no memory left.
  static std::shared_ptr<Buffer> allocate(std::size_t bytes);
  /// The same for long-lived data that are read as a stream, such as weights. Small blocks lie side by side
  /// on huge pages, which a processor reads faster. Their memory is released together with the last block of
  /// some 64 MB of neighbors.
  static std::shared_ptr<Buffer> allocate_side_by_side(std::size_t bytes);
  /// Memory owned by `owner` (a mapped file), which is released with the buffer.
  static std::shared_ptr<Buffer> wrap(void* data, std::size_t bytes, std::shared_ptr<void> owner);
  /// wrap() for the content of a mapped file to which nobody has written.
  static std::shared_ptr<Buffer> wrap_file(void* data, std::size_t bytes, std::shared_ptr<void> owner,
                                           Release release);
  /// A buffer of `bytes` bytes that `source` writes when their address is requested.
  static std::shared_ptr<Buffer> lazy(std::size_t bytes, std::shared_ptr<const Source> source);

  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  /// The address of the data, which stays valid and through which anybody may write: materializes lazy data.
  std::byte* data() const { return lazy_ == nullptr ? data_ : materialize(); }
  std::size_t bytes() const { return bytes_; }

  /// True for memory from allocate().
  bool is_allocated() const { return pooled_bytes_ != 0; }
  /// True once data() has handed out the address, and always for memory from allocate() or wrap().
  bool is_materialized() const;
  /// True for lazy data that are not in memory yet.
  bool is_unwritten() const;
  /// The data for reading, without materializing them: this buffer's memory, or a copy if they are unwritten.
  /// Where their source has a place for them, they are written there.
  std::shared_ptr<const Buffer> read() const;
  /// Materializes unwritten data by `write`, which may use them already, in place of Source::write(): in
  /// Source::place(), if there is one. Returns false, and does nothing, where there are none.
  bool write_by(FunctionRef<void(const Source& source, std::byte* to)> write) const;
  /// The source of lazy data that are not in memory yet, else null.
  std::shared_ptr<const Source> source() const;
  /// Releases the pages of a file until they are needed again, unless data() has handed out their address.
  void release_pages() const;

 private:
  struct Lazy;
  Buffer();
  std::byte* materialize() const;
  std::unique_ptr<Lazy> lazy_;  // null for memory from allocate() or wrap()
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::size_t pooled_bytes_ = 0;  // size class; 0 for wrapped memory
  std::shared_ptr<void> owner_;
};

struct MemoryStatistics {
  std::size_t bytes_in_use = 0;        ///< allocated and not yet released
  std::size_t peak_bytes = 0;          ///< largest bytes_in_use since the start or reset_peak_memory()
  std::size_t bytes_cached = 0;        ///< released and kept for reuse
  std::size_t system_allocations = 0;  ///< number of allocations from the system
};

MemoryStatistics memory_statistics();
void reset_peak_memory();
/// Returns the pool's cached blocks to the system.
void release_cached_memory();

}  // namespace heed
