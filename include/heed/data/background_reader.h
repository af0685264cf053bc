// Makes the next few batches on a thread of its own while the model computes.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "heed/data/batch.h"

namespace heed {

class BackgroundReader {
 public:
  /// Starts at once to call `make` on its own thread, keeping at most `capacity` (>= 1) batches ready.
  explicit BackgroundReader(std::function<Batch()> make, std::size_t capacity = 4);
  /// Reads on from the batcher's position.
  explicit BackgroundReader(Batcher batcher, std::size_t capacity = 4);
  /// Stops the thread, whether or not batches are left.
  ~BackgroundReader();
  BackgroundReader(const BackgroundReader&) = delete;
  BackgroundReader& operator=(const BackgroundReader&) = delete;

  /// The batches in the order they were made. Throws what making one threw, after the batches made before it.
  Batch next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heed
