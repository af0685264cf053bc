// Reverse-mode differentiation: recording operations, and the walk back. The walk visits each operation once,
// after everything that used its result, and frees it behind itself.
#include "heed/autograd.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "kernels/elementwise.h"
#include "tensor/impl.h"

namespace heed {
namespace {

thread_local bool recording = true;
thread_local const std::vector<Edge>* walked_inputs = nullptr;  // of the closure that is running
thread_local LeafGradientListener* listener = nullptr;

bool owns_its_memory(const Tensor& t) {
  return TensorImpl::shared(t).use_count() == 1 && TensorImpl::of(t).buffer.use_count() == 1 &&
         t.is_contiguous();
}

// slot += gradient, in place when nobody else can see the slot's memory. Sums are f32 at least.
void accumulate(Tensor& slot, const Tensor& gradient) {
  if (!slot.defined()) {
    slot = gradient;
    return;
  }
  slot = slot.to(gradient_dtype(slot.dtype()));
  if (!owns_its_memory(slot)) slot = slot.clone();
  const Tensor addend = gradient.to(slot.dtype()).contiguous();
  dispatch_float("backward", slot.dtype(),
                 [&]<class T>() { kernels::axpy<T>(T{1}, addend.data<T>(), slot.data<T>(), slot.numel()); });
}

// A leaf's gradient may be changed in place by optimizers, so it never shares memory with anything else.
void accumulate_leaf(TensorImpl& leaf, const Tensor& gradient) {
  if (leaf.grad.defined()) {
    accumulate(leaf.grad, gradient);
  } else {
    const bool shared = TensorImpl::of(gradient).buffer.use_count() > 1 || !gradient.is_contiguous();
    leaf.grad = shared ? gradient.clone() : gradient;
  }
}

// Operations reachable from `root` without those in `seen`, each after everything it depends on.
std::vector<std::shared_ptr<Node>> topological_order(const std::shared_ptr<Node>& root,
                                                     std::unordered_set<Node*> seen = {}) {
  std::vector<std::shared_ptr<Node>> order;
  seen.insert(root.get());
  std::vector<std::pair<std::shared_ptr<Node>, std::size_t>> stack{{root, 0}};
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    if (next == node->inputs.size()) {
      order.push_back(node);
      stack.pop_back();
      continue;
    }
    const std::shared_ptr<Node> child = node->inputs[next++].node;
    if (child && seen.insert(child.get()).second) stack.emplace_back(child, 0);
  }
  return order;
}

// Registers the inputs of the operation whose closure is running; a closure may itself call backward().
class WalkedInputs {
 public:
  explicit WalkedInputs(const std::vector<Edge>* inputs) : before_(std::exchange(walked_inputs, inputs)) {}
  ~WalkedInputs() { walked_inputs = before_; }
  WalkedInputs(const WalkedInputs&) = delete;
  WalkedInputs& operator=(const WalkedInputs&) = delete;

 private:
  const std::vector<Edge>* before_;
};

void walk(Node& node) {
  if (node.walked) {
    throw Error("backward: the graph was already used by an earlier backward(); its saved tensors of " +
                std::string(node.operation) + " are freed (compute the loss again before a second backward)");
  }
  const Tensor gradient = std::move(node.gradient);
  node.gradient = {};
  node.walked = true;
  const Backward backward = std::move(node.backward);
  node.backward = nullptr;
  const std::vector<Edge> inputs = std::move(node.inputs);
  node.inputs.clear();
  if (!gradient.defined()) return;  // everything that used this result passed nothing back
  HEED_ASSERT(gradient.shape() == node.shape && may_be_gradient(node.dtype, gradient.dtype()),
              node.operation);
  const WalkedInputs running(&inputs);
  std::vector<Tensor> gradients = backward(gradient);
  HEED_ASSERT(gradients.size() == inputs.size(), node.operation);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor incoming = std::move(gradients[i]);
    gradients[i] = {};
    if (!incoming.defined()) continue;
    if (inputs[i].leaf) {
      const TensorImpl& leaf = *inputs[i].leaf;
      HEED_ASSERT(incoming.shape() == leaf.shape && may_be_gradient(leaf.dtype, incoming.dtype()),
                  node.operation);
      accumulate_leaf(*inputs[i].leaf, incoming);
    } else if (inputs[i].node) {
      accumulate(inputs[i].node->gradient, incoming);
    }
  }
}

// Counts the edges of a graph that lead to each leaf, and those that were walked.
class LeafCounts {
 public:
  explicit LeafCounts(const std::vector<std::shared_ptr<Node>>& order) {
    for (const auto& node : order) {
      for (const Edge& edge : node->inputs) {
        if (!edge.leaf) continue;
        Left& left = left_[edge.leaf.get()];
        if (left.all++ == 0) leaves_.push_back(TensorImpl::tensor(edge.leaf));
        if (!node->adds_rows) ++left.whole;
      }
    }
  }
  const std::vector<Tensor>& leaves() const { return leaves_; }
  /// Calls `complete` for the leaves to which these inputs of a walked operation were the last edges, and
  /// `rows_left` for those of whose edges only the ones that add rows are left.
  template <class Report>
  void walked(const std::vector<Edge>& inputs, bool rows, const Report& rows_left, const Report& complete) {
    for (const Edge& edge : inputs) {
      if (!edge.leaf) continue;
      Left& left = left_[edge.leaf.get()];
      --left.all;
      if (!rows) --left.whole;
      if (left.all == 0) complete(TensorImpl::tensor(edge.leaf));
      if (left.all > 0 && !rows && left.whole == 0) rows_left(TensorImpl::tensor(edge.leaf));
    }
  }

 private:
  struct Left {
    std::int64_t all = 0, whole = 0;  // edges; those of operations that may add to every row
  };
  std::unordered_map<TensorImpl*, Left> left_;
  std::vector<Tensor> leaves_;
};

}  // namespace

std::vector<Tensor> leaves_between(const std::vector<Tensor>& inputs, const std::vector<Tensor>& results) {
  std::unordered_set<Node*> before;
  for (const Tensor& input : inputs) {
    if (input.defined() && TensorImpl::of(input).node) before.insert(TensorImpl::of(input).node.get());
  }
  Node all;
  for (const Tensor& result : results) {
    if (result.defined() && TensorImpl::of(result).node &&
        !before.contains(TensorImpl::of(result).node.get()))
      all.inputs.push_back({TensorImpl::of(result).node, nullptr});
  }
  const std::shared_ptr<Node> root(&all, [](Node*) {});  // lives on the stack
  return LeafCounts(topological_order(root, std::move(before))).leaves();
}

void mark_as_rows(const Tensor& result) {
  HEED_ASSERT(TensorImpl::of(result).node != nullptr, "the result of no operation");
  TensorImpl::of(result).node->adds_rows = true;
}

LeafGradientListener::LeafGradientListener(Begin begin, Report rows_left, Report complete)
    : begin_(std::move(begin)),
      rows_left_(std::move(rows_left)),
      complete_(std::move(complete)),
      before_(std::exchange(listener, this)) {}
LeafGradientListener::~LeafGradientListener() { listener = before_; }

// Graphs can be thousands of operations deep; taking them apart must not recurse.
Node::~Node() {
  std::vector<Edge> todo = std::move(inputs);
  while (!todo.empty()) {
    const Edge edge = std::move(todo.back());
    todo.pop_back();
    if (edge.node && edge.node.use_count() == 1) {
      edge.node->backward = nullptr;
      todo.insert(todo.end(), edge.node->inputs.begin(), edge.node->inputs.end());
      edge.node->inputs.clear();
    }
  }
}

Tensor gradient_so_far(std::size_t index) {
  HEED_ASSERT(walked_inputs != nullptr && index < walked_inputs->size(), "outside of a backward closure");
  const Edge& edge = (*walked_inputs)[index];
  if (!edge.leaf && !edge.node) return {};
  const Tensor& slot = edge.leaf ? edge.leaf->grad : edge.node->gradient;
  if (!slot.defined() || slot.dtype() != gradient_dtype(slot.dtype())) return {};
  return owns_its_memory(slot) ? slot : Tensor();
}

Tensor take_gradient_so_far(std::size_t index) {
  HEED_ASSERT(walked_inputs != nullptr && index < walked_inputs->size(), "outside of a backward closure");
  const Edge& edge = (*walked_inputs)[index];
  if (!edge.leaf && !edge.node) return {};
  return std::exchange(edge.leaf ? edge.leaf->grad : edge.node->gradient, {});
}

bool gradients_enabled() { return recording; }
NoGradients::NoGradients() : before_(recording) { recording = false; }
NoGradients::~NoGradients() { recording = before_; }
RecordGradients::RecordGradients() : before_(recording) { recording = true; }
RecordGradients::~RecordGradients() { recording = before_; }

bool needs_gradient(std::span<const Tensor> inputs) {
  return recording && std::any_of(inputs.begin(), inputs.end(),
                                  [](const Tensor& t) { return t.defined() && t.requires_grad(); });
}

bool needs_gradient(std::initializer_list<Tensor> inputs) {
  return needs_gradient(std::span<const Tensor>(inputs.begin(), inputs.size()));
}

void record(Tensor& output, const char* operation, const std::vector<Tensor>& inputs, Backward backward) {
  auto node = std::make_shared<Node>();
  node->operation = operation;
  node->shape = output.shape();
  node->dtype = output.dtype();
  node->backward = std::move(backward);
  node->inputs.reserve(inputs.size());
  for (const Tensor& input : inputs) {
    Edge edge;
    if (input.defined()) {
      edge.node = TensorImpl::of(input).node;
      if (!edge.node && TensorImpl::of(input).requires_grad) edge.leaf = TensorImpl::shared(input);
    }
    node->inputs.push_back(std::move(edge));
  }
  TensorImpl::of(output).node = std::move(node);
}

void refuse_gradient(const char* operation, std::initializer_list<Tensor> inputs) {
  if (needs_gradient(inputs)) {
    throw Error(std::string(operation) + ": expected inputs that need no gradient, got one that does " +
                "(this operation has none; detach() the input or use NoGradients)");
  }
}

void Tensor::backward(const Tensor& gradient) const {
  if (!requires_grad())
    throw Error("backward: expected a tensor with gradient history, got " + str() + " without");
  if (!gradient.defined() && numel() != 1) {
    throw Error("backward: expected a single element, got " + str() + " (pass the gradient)");
  }
  const Tensor seed = gradient.defined() ? gradient : full(shape(), 1.0, dtype());
  if (seed.shape() != shape() || !may_be_gradient(dtype(), seed.dtype())) {
    throw Error("backward: expected a gradient of " + str() + ", got " + seed.str());
  }
  const NoGradients guard;
  if (!impl_->node) {
    accumulate_leaf(*impl_, seed);
    return;
  }
  std::vector<std::shared_ptr<Node>> order = topological_order(impl_->node);
  accumulate(impl_->node->gradient, seed);
  if (listener == nullptr || walked_inputs != nullptr) {
    while (!order.empty()) {
      walk(*order.back());
      order.pop_back();
    }
    return;
  }
  LeafCounts counts(order);
  listener->begin_(counts.leaves());
  while (!order.empty()) {
    const std::vector<Edge> inputs = order.back()->inputs;
    const bool rows = order.back()->adds_rows;
    walk(*order.back());
    order.pop_back();
    counts.walked(inputs, rows, listener->rows_left_, listener->complete_);
  }
}

}  // namespace heed
