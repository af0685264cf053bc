// Reports, while backward() runs, when the gradients of leaves are complete: for what can begin with them,
// such as their exchange between processes.
#pragma once

#include <functional>
#include <vector>

#include "heed/tensor.h"

namespace heed {

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

}  // namespace heed
