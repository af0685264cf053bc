// Prepares the next batches on a separate thread while the model computes.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "heed/data/batch.h"

namespace heed {

/// Threads: one caller at a time.
class BackgroundReader {
 public:
  /// Immediately starts to call `make` on its own thread, keeping at most `capacity` (>= 1) batches in the
  /// queue.
  explicit BackgroundReader(std::function<Batch()> make, std::size_t capacity = 4);
  /// Reads batches from the batcher's current position.
  explicit BackgroundReader(Batcher batcher, std::size_t capacity = 4);
  /// Stops the thread and discards the batches in the queue.
  ~BackgroundReader();
  BackgroundReader(const BackgroundReader&) = delete;
  BackgroundReader& operator=(const BackgroundReader&) = delete;

  /// Returns the next batch, in the order in which they were made. If making a batch threw, rethrows the
  /// exception after the batches before it.
  Batch next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heed
