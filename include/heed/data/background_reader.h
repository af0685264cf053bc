// Prepares the next batches on a separate thread while the model computes.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "heed/data/batch.h"

namespace heed {

class BackgroundReader {
 public:
  /// Immediately starts to call `make` on its own thread, with at most `capacity` (>= 1) batches in the
  /// queue.
  explicit BackgroundReader(std::function<Batch()> make, std::size_t capacity = 4);
  /// Reads from the batcher's position.
  explicit BackgroundReader(Batcher batcher, std::size_t capacity = 4);
  /// Stops the thread; batches in the queue are discarded.
  ~BackgroundReader();
  BackgroundReader(const BackgroundReader&) = delete;
  BackgroundReader& operator=(const BackgroundReader&) = delete;

  /// The next batch, in the order they were made. If making a batch threw, rethrows after the batches before
  /// it.
  Batch next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heed
