// What a Tensor names, and the graph of recorded operations.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "heed/autograd.h"
#include "heed/tensor.h"

namespace heed {

struct Node;

/// Where a gradient goes on to: an operation, or a leaf that accumulates it, or (neither) nowhere.
struct Edge {
  std::shared_ptr<Node> node;
  std::shared_ptr<TensorImpl> leaf;
};

struct TensorImpl {
  std::shared_ptr<Buffer> buffer;
  Shape shape;
  Shape strides;
  std::int64_t offset = 0;
  DType dtype = DType::f32;
  bool requires_grad = false;
  std::shared_ptr<Node> node;  // the operation that made this tensor
  Tensor grad;                 // accumulated, leaves only

  /// What a defined tensor names; equal addresses mean the same tensor.
  static TensorImpl& of(const Tensor& tensor) { return *tensor.impl_; }
  static const std::shared_ptr<TensorImpl>& shared(const Tensor& tensor) { return tensor.impl_; }
  static Tensor tensor(std::shared_ptr<TensorImpl> impl) { return Tensor(std::move(impl)); }
};

struct Node {
  const char* operation = "";
  Shape shape;  // of the output, which its gradient must have
  DType dtype = DType::f32;
  std::vector<Edge> inputs;
  Backward backward;  // empty once walked
  Tensor gradient;    // what has arrived so far during a walk
  bool walked = false;
  bool adds_rows = false;  // to the gradients of its inputs, and nothing else
  ~Node();
};

}  // namespace heed
