// Reverse-mode automatic differentiation, for the implementation of operations: whether a gradient is needed,
// and how to record the backward function.
#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

#include "heed/export.h"
#include "heed/tensor.h"

namespace HEED_API heed {

/// False inside NoGradients: operations then record nothing and save nothing for backward.
bool gradients_enabled();

/// While an object of this class exists, no gradient is recorded on this thread. Threads: each has its own.
class NoGradients {
 public:
  NoGradients();
  ~NoGradients();
  NoGradients(const NoGradients&) = delete;
  NoGradients& operator=(const NoGradients&) = delete;

 private:
  bool before_;
};

/// While an object of this class exists, gradients are recorded on this thread, inside NoGradients as well:
/// for closures that recompute what they need. Threads: each has its own.
class RecordGradients {
 public:
  RecordGradients();
  ~RecordGradients();
  RecordGradients(const RecordGradients&) = delete;
  RecordGradients& operator=(const RecordGradients&) = delete;

 private:
  bool before_;
};

/// Given dL/d(output), returns dL/d(input) for each input in order; undefined entries mean no gradient.
using Backward = std::function<std::vector<Tensor>(const Tensor& gradient)>;

/// Whether recording is on and any of the (defined) inputs requires a gradient.
bool needs_gradient(std::initializer_list<Tensor> inputs);
bool needs_gradient(std::span<const Tensor> inputs);

/// Records `output` as the result of `operation` on `inputs`. The closure must capture detached tensors,
/// never `output` itself, or the graph would never be freed. Undefined inputs are allowed.
void record(Tensor& output, const char* operation, const std::vector<Tensor>& inputs, Backward backward);

/// For use inside a Backward closure: the gradient of input `index` accumulated so far, if it may be updated
/// in place; else undefined. A closure that adds its contribution there returns an undefined entry for that
/// input, which saves a tensor and a pass over memory.
Tensor gradient_so_far(std::size_t index);

/// For use inside a Backward closure: takes away the gradient of input `index` accumulated so far; undefined
/// if there is none. What the closure returns for that input must then include it.
Tensor take_gradient_so_far(std::size_t index);

/// For operations without a gradient: throws Error `operation: expected ...` when an input requires one.
void refuse_gradient(const char* operation, std::initializer_list<Tensor> inputs);

}  // namespace heed
