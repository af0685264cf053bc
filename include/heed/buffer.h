// Buffer: a block of memory shared by tensors. Freed blocks are kept in a pool, so that a training loop
// allocates from the system only in its first step. The pool holds at most a quarter (and 64 MB) more than
// was ever in use at once.
//
// A loaded weight may be stored in another form (not yet converted, or packed for matrix products) until its
// address is requested. From then on it is stored plainly, and its address does not change.
#pragma once

#include <cstddef>
#include <memory>

namespace heed {

/// Threads: several may call the functions of one buffer at once; who writes to its memory does so alone.
class Buffer {
 public:
  /// A storage form other than plain memory.
  class Form {
   public:
    virtual ~Form() = default;
    /// Writes all elements in plain form to `to`.
    virtual void write(std::byte* to) const = 0;
  };
  /// Releases memory whose content can be read again (pages of a mapped file).
  using Forget = void (*)(std::byte* data, std::size_t bytes);

  /// A block of at least `bytes` bytes, aligned to 64; its content is undefined. Throws Error when the
  /// system has no memory left.
  static std::shared_ptr<Buffer> allocate(std::size_t bytes);
  /// Memory owned by `owner` (a mapped file), which is released with the buffer.
  static std::shared_ptr<Buffer> wrap(void* data, std::size_t bytes, std::shared_ptr<void> owner);
  /// wrap() for the content of a file, if no address of it has been handed out.
  static std::shared_ptr<Buffer> wrap_file(void* data, std::size_t bytes, std::shared_ptr<void> owner,
                                           Forget forget);
  /// A buffer of `bytes` bytes that `form` writes when they are needed.
  static std::shared_ptr<Buffer> of_form(std::size_t bytes, std::shared_ptr<const Form> form);

  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  /// The address of the data, which stays valid: converts another form to plain memory.
  std::byte* data() const { return movable_ == nullptr ? data_ : settle(); }
  std::size_t bytes() const { return bytes_; }

  /// Whether the storage form may still change: no address has been handed out.
  bool may_change_form() const;
  /// The current form, or null for plain memory.
  std::shared_ptr<const Form> form() const;
  /// Changes to this form. Returns false, and changes nothing, if an address has been handed out.
  bool keep_as(std::shared_ptr<const Form> form) const;
  /// The data for reading, without changing the form: this buffer's memory if it is plain, else a copy.
  std::shared_ptr<const Buffer> peek() const;

 private:
  struct Movable;
  Buffer();
  std::byte* settle() const;
  std::unique_ptr<Movable> movable_;  // null for memory that never changes its form
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
