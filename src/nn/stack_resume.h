// A pass that begins within a stack: what the layers before give is known from an earlier pass, so they do
// not run. Analyses change one layer at a time.
#pragma once

#include <cstdint>
#include <string>

#include "heed/tensor.h"

namespace heed {

/// While an object exists, passes of this thread through the stack of that name begin at `layer`, whose input
/// is `x` [B, T, D]; the number of layers is the end of the stack. Not for decoding. Threads: each has its
/// own.
class StackResume {
 public:
  StackResume(std::string stack, std::int64_t layer, Tensor x);
  ~StackResume();
  StackResume(const StackResume&) = delete;
  StackResume& operator=(const StackResume&) = delete;

  std::int64_t layer() const { return layer_; }
  const Tensor& input() const { return x_; }
  /// The newest one of a stack; null if there is none.
  static const StackResume* of(const std::string& stack);

 private:
  std::string stack_;
  std::int64_t layer_;
  Tensor x_;
};

}  // namespace heed
