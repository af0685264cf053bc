// Communicator: how the processes of one job exchange data. All other code uses this interface only. A single
// process, MPI, or the collectives of a GPU library can implement it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "heed/export.h"

namespace HEED_API heed {

/// An operation that was started and may still be running.
/// Threads: one at a time.
class PendingOperation {
 public:
  virtual ~PendingOperation() = default;
  /// Returns once the operation is done. Throws Error if it failed, or if a peer did not answer in time.
  virtual void wait() = 0;
};

/// The data that a process has exchanged so far.
struct Traffic {
  std::int64_t bytes_sent = 0;
  double seconds = 0;  ///< during which at least one operation on numbers was running
};

/// Floats that an operation reads and writes; `owner` keeps their memory alive until it is done.
struct SharedFloats {
  std::span<float> values;
  std::shared_ptr<const void> owner;
};

/// All processes call the same operations in the same order; an operation may be started while others run.
/// Each throws Error if a peer fails or does not answer in time.
/// Threads: one at a time.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;  ///< of this process, from 0 to size() - 1
  virtual int size() const = 0;
  bool is_first() const { return rank() == 0; }

  /// Starts values = sum over all processes, element by element. The sum is in the order of ranks, so it has
  /// the same bits on every process and in every run of as many processes.
  virtual std::unique_ptr<PendingOperation> start_sum(SharedFloats floats) = 0;
  /// The same for part_of(values, rank(), size()) only; what is left in the others is unspecified.
  virtual std::unique_ptr<PendingOperation> start_sum_of_part(SharedFloats floats) = 0;
  /// Starts the exchange of parts: part_of(values, r, size()) becomes that of process r.
  virtual std::unique_ptr<PendingOperation> start_gather_of_parts(SharedFloats floats) = 0;

  /// Overwrites the bytes with those of process 0.
  virtual void broadcast(std::span<std::byte> bytes) = 0;
  /// Returns the bytes of all processes, in the order of ranks.
  virtual std::vector<std::string> gather(std::string_view bytes) = 0;
  virtual Traffic traffic() const = 0;
  /// Ends all processes of the job with `status` at once, other than by returning; one process alone returns.
  virtual void end_all(int status) = 0;

  /// Returns once all processes have called it.
  void barrier() { gather({}); }
  /// Returns the sum over all processes, element by element, in the order of ranks.
  std::vector<double> sum(const std::vector<double>& values);
  /// Returns the text of process 0.
  std::string broadcast_text(const std::string& text);
};

/// The indices [first, second) of `count` elements that belong to process `rank` of `size`: without overlap
/// or gap, and of sizes that differ by at most one.
std::pair<std::int64_t, std::int64_t> part_of(std::int64_t count, int rank, int size);

/// Returns the texts of all processes, in the order of ranks.
std::vector<std::string> gather_texts(Communicator& world, const std::vector<std::string>& texts);

/// Returns the values of all processes, in the order of ranks.
template <class T>
std::vector<T> gather_values(Communicator& world, const std::vector<T>& values) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (world.size() == 1) return values;
  std::vector<T> all;
  for (const std::string& bytes :
       world.gather({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)})) {
    const std::size_t before = all.size();
    all.resize(before + bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(all.data() + before, bytes.data(), bytes.size());
  }
  return all;
}

/// One process alone. Threads: any.
class SingleProcess final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::unique_ptr<PendingOperation> start_sum(SharedFloats floats) override;
  std::unique_ptr<PendingOperation> start_sum_of_part(SharedFloats floats) override;
  std::unique_ptr<PendingOperation> start_gather_of_parts(SharedFloats floats) override;
  void broadcast(std::span<std::byte>) override {}
  std::vector<std::string> gather(std::string_view bytes) override { return {std::string(bytes)}; }
  Traffic traffic() const override { return {}; }
  void end_all(int) override {}
};

/// Throws Error if `text` differs between processes: `WHERE: expected the same WHAT in all processes, got
/// ...`. The message names the first process that differs from process 0, and the first line in which it
/// does.
void check_same(Communicator& world, const std::string& where, const std::string& what,
                const std::string& text);

}  // namespace heed
