// What a Tensor names, and the graph of recorded operations.
#pragma once

#include <functional>
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

// What an optimizer with master copies needs of its parameters: data in another dtype than the gradient's.

/// The dtype in which gradients of a tensor add up: f32 for bf16 and f16, else its own.
DType gradient_dtype(DType dtype);

/// Whether a gradient may have this dtype: that of the tensor, or the one in which gradients add up.
inline bool may_be_gradient(DType tensor, DType gradient) {
  return gradient == tensor || gradient == gradient_dtype(tensor);
}

/// Makes a leaf, and all copies of it, refer to the data of `source` (same shape, of any floating dtype) in
/// the place of its own. Views that were made before keep the earlier data.
void set_data(const Tensor& leaf, const Tensor& source);

// Reports, while backward() runs, when the gradients of leaves are complete: for what can begin with them,
// such as their exchange between processes.

/// The leaves that require a gradient and of which `results` were computed from `inputs` on: what the inputs
/// were computed of does not count.
std::vector<Tensor> leaves_between(const std::vector<Tensor>& inputs, const std::vector<Tensor>& results);

/// Marks the operation that made `result` as one that adds to a few rows of its inputs' gradients only, as a
/// lookup in a table does.
void mark_as_rows(const Tensor& result);

/// While an object of this class exists, backward() on this thread reports how far the gradients of leaves
/// are: first `begin` with all leaves that its graph reaches; `rows_left` with those to which only operations
/// marked as rows are going to add, after others did; then `complete` with each of them once nothing will be
/// added to its gradient any more. A backward() inside a closure of another reports nothing: an operation
/// whose closure adds to leaves by itself has these among its inputs. Threads: each has its own.
class LeafGradientListener {
 public:
  using Begin = std::function<void(const std::vector<Tensor>& leaves)>;
  using Report = std::function<void(const Tensor& leaf)>;
  LeafGradientListener(Begin begin, Report rows_left, Report complete);
  ~LeafGradientListener();
  LeafGradientListener(const LeafGradientListener&) = delete;
  LeafGradientListener& operator=(const LeafGradientListener&) = delete;

 private:
  friend class Tensor;
  Begin begin_;
  Report rows_left_, complete_;
  LeafGradientListener* before_;
};

// What a tensor that is yet to be widened from 16 bits (Tensor::to_lazy) is made of.

/// The numbers of a whole f32 tensor in the bf16 or f16 in which they are stored, contiguous; undefined if
/// they are stored otherwise, or the address of the f32 numbers has been handed out.
Tensor unwidened(const Tensor& tensor);

}  // namespace heed
