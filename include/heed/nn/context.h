// Context: what a forward pass carries besides its tensors.
#pragma once

#include <string>

#include "heed/nn/tap.h"
#include "heed/random.h"

namespace heed {

struct Places;

struct Context {
  bool training = false;           ///< dropout is active; needs a generator
  Generator* generator = nullptr;  ///< source of dropout's random streams
  Taps* taps = nullptr;            ///< listeners, if any
  const Places* places = nullptr;  ///< where the tokens stand; null is after those of the cache

  bool wants(const std::string& name) const { return taps != nullptr && taps->wants(name); }
};

}  // namespace heed
