// What an operation needs to take part in reverse-mode differentiation: ask whether a gradient is wanted,
// and record how it flows back.
#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

#include "heed/tensor.h"

namespace heed {

/// False inside NoGradients: operations then record nothing and keep nothing alive.
bool gradients_enabled();

/// While one of these lives, no gradient is recorded on this thread.
class NoGradients {
 public:
  NoGradients();
  ~NoGradients();
  NoGradients(const NoGradients&) = delete;
  NoGradients& operator=(const NoGradients&) = delete;

 private:
  bool before_;
};

/// Given dL/d(output), returns dL/d(input) for each input in order; undefined entries mean no gradient.
using Backward = std::function<std::vector<Tensor>(const Tensor& gradient)>;

/// Whether recording is on and any of the (defined) inputs requires a gradient.
bool needs_gradient(std::initializer_list<Tensor> inputs);
bool needs_gradient(std::span<const Tensor> inputs);

/// Makes `output` the result of `operation` on `inputs`. The closure must capture detached tensors, never
/// `output` itself, or the graph would keep itself alive. Undefined inputs are allowed.
void record(Tensor& output, const char* operation, const std::vector<Tensor>& inputs, Backward backward);

/// For use inside a Backward closure: what has arrived so far of the gradient of input `index`, when its
/// memory may be added to in place; else not defined. A closure that adds its part there returns an undefined
/// entry for that input, which saves a tensor and a pass over memory.
Tensor gradient_so_far(std::size_t index);

/// Throws Error `operation: expected ...` when a gradient is asked of an operation that has none.
void refuse_gradient(const char* operation, std::initializer_list<Tensor> inputs);

}  // namespace heed
