// Buffer: a block of memory shared by tensors. Freed blocks are kept in a pool, so that a training loop asks
// the system for memory only in its first step. The pool holds at most a quarter (and 64 MB) more than was
// ever in use at once, whatever the shapes.
//
// The numbers of a loaded weight may be kept in another form than plainly (not yet converted, or packed for
// products) until somebody asks for their address. From then on they stay where they are.
#pragma once

#include <cstddef>
#include <memory>

namespace heed {

class Buffer {
 public:
  /// Numbers in another form than a buffer's own.
  class Form {
   public:
    virtual ~Form() = default;
    /// Writes all of them, plainly, to `to`.
    virtual void write(std::byte* to) const = 0;
  };
  /// Gives back the memory of bytes that can be had again, by reading them (pages of a mapped file).
  using Forget = void (*)(std::byte* data, std::size_t bytes);

  /// A block of at least `bytes` bytes, aligned to 64; its content is undefined. Throws Error when the
  /// system has no memory left.
  static std::shared_ptr<Buffer> allocate(std::size_t bytes);
  /// Memory owned by somebody else (a mapped file); `owner` is released with the buffer.
  static std::shared_ptr<Buffer> wrap(void* data, std::size_t bytes, std::shared_ptr<void> owner);
  /// wrap() of memory whose address nobody has yet and whose content is that of a file.
  static std::shared_ptr<Buffer> wrap_file(void* data, std::size_t bytes, std::shared_ptr<void> owner,
                                           Forget forget);
  /// `bytes` bytes that `form` writes when they are needed.
  static std::shared_ptr<Buffer> of_form(std::size_t bytes, std::shared_ptr<const Form> form);

  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  /// Where the numbers are, now and from now on: another form is given up.
  std::byte* data() const { return movable_ == nullptr ? data_ : settle(); }
  std::size_t bytes() const { return bytes_; }

  /// Whether the numbers may still be kept in another form: nobody has their address.
  bool may_change_form() const;
  /// The other form they are in, or null.
  std::shared_ptr<const Form> form() const;
  /// From now on in this form; false, and nothing changed, when somebody has the address.
  bool keep_as(std::shared_ptr<const Form> form) const;
  /// The numbers for reading, without settling them: this buffer's own memory where they lie there, else a
  /// copy.
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
