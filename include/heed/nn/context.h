// Context: the settings of a forward pass: dropout, taps, the key-value cache and cancellation.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "heed/error.h"
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
  /// Gradient checkpointing (Chen et al. 2016, "Training deep nets with sublinear memory cost"): only the
  /// input of each layer of a stack is kept until backward(), which recomputes the layer. The gradients have
  /// the same bits. Not with taps.
  bool gradient_checkpointing = false;
  /// The dtype of the key-value cache of a decoding, for its tokens and its memory; the same for all its
  /// steps. Taps see the stored numbers. DecoderModel::loss() also rounds keys and values through a cache if
  /// this is not f32; other passes have no cache.
  CacheDType cache_dtype = CacheDType::f32;
  /// The maximum number of positions of such a decoding, if known (else 0). The cache is then allocated once
  /// instead of growing by doubling, which leaves old blocks behind.
  std::int64_t cache_length = 0;
  const std::atomic<bool>* stop = nullptr;  ///< cancels the pass once true; checked in every layer

  /// Throws Canceled once `stop` is true.
  void check_stop() const {
    if (stop != nullptr && stop->load(std::memory_order_relaxed)) throw Canceled();
  }
  bool wants(const std::string& name) const { return taps != nullptr && taps->wants(name); }
};

}  // namespace heed
