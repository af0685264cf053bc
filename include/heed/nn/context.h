// Context: what a forward pass carries besides its tensors.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "heed/canceled.h"
#include "heed/export.h"
#include "heed/nn/cache_dtype.h"
#include "heed/nn/tap.h"
#include "heed/random.h"

namespace HEED_API heed {

/// Threads: one at a time; each thread has its own.
struct Context {
  bool training = false;           ///< dropout is active; needs a generator
  Generator* generator = nullptr;  ///< source of dropout's random streams
  Taps* taps = nullptr;            ///< listeners, if any
  /// Gradient checkpointing (Chen et al. 2016, "Training deep nets with sublinear memory cost"): of each
  /// layer of a stack, only the input is kept until backward(), which computes the layer again. The gradients
  /// have the same bits. Not with taps.
  bool gradient_checkpointing = false;
  /// How a decoding stores the keys and values of the tokens and of the memory that its steps attend to: the
  /// same for all its steps. Taps see the numbers that are stored. DecoderModel::loss() goes through such a
  /// store where this is not f32; other passes have none.
  CacheDType cache_dtype = CacheDType::f32;
  /// How many positions such a decoding will have at most, if that is known (else 0): its store need not grow
  /// by doubling, which leaves as much behind for reuse.
  std::int64_t cache_length = 0;
  const std::atomic<bool>* stop = nullptr;  ///< cancels the pass once true; every layer looks

  /// Throws Canceled once `stop` is true.
  void check_stop() const {
    if (stop != nullptr && stop->load(std::memory_order_relaxed)) throw Canceled();
  }
  bool wants(const std::string& name) const { return taps != nullptr && taps->wants(name); }
};

}  // namespace heed
