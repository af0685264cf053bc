// Cross-entropy, alone and fused with the projection to a large vocabulary.
#include "heed/ops/loss.h"

#include <algorithm>
#include <cmath>

#include "heed/autograd.h"
#include "heed/ops/activation.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/matmul.h"
#include "heed/ops/shape.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/loss.h"
#include "ops/weight_product.h"

namespace heed {
namespace {

kernels::CrossEntropyOptions kernel_options(const CrossEntropyOptions& options) {
  return {options.label_smoothing, options.z_loss, options.ignore_index};
}

void check(const char* name, const Shape& rows, std::int64_t vocab, const Tensor& targets,
           const CrossEntropyOptions& options) {
  const std::string where = name;
  if (targets.shape() != rows) {
    throw Error(where + ": expected targets " + rows.str() + ", got " + targets.str());
  }
  if (!(options.label_smoothing >= 0.0 && options.label_smoothing < 1.0)) {
    throw Error(where + ": expected label smoothing in [0, 1), got " +
                std::to_string(options.label_smoothing));
  }
  if (!(options.logit_cap >= 0.0 && std::isfinite(options.logit_cap))) {
    throw Error(where + ": expected a logit cap of at least 0, got " + std::to_string(options.logit_cap));
  }
  const std::int64_t* t = targets.data<std::int64_t>();
  const std::int64_t outside = kernels::first_outside(t, targets.numel(), vocab, options.ignore_index);
  if (outside >= 0) {
    throw Error(where + ": expected targets in [0, " + std::to_string(vocab) + ") or " +
                std::to_string(options.ignore_index) + " (ignored), got " + std::to_string(t[outside]));
  }
}

Shape without_last(const Shape& shape) {
  if (shape.rank() < 1) throw Error("cross_entropy: expected at least one axis, got a scalar");
  return Shape(std::span<const std::int64_t>(shape.begin(), static_cast<std::size_t>(shape.rank() - 1)));
}

// What the sum of losses is multiplied by to give the result.
double reduction_factor(const CrossEntropyOptions& options, std::int64_t count) {
  if (options.reduction == Reduction::sum) return 1.0;
  return count > 0 ? 1.0 / static_cast<double>(count) : 0.0;
}

// At most 128 MB of logits at a time, in chunks of one size. The weight is read three times and its gradient
// read and written once for each chunk, so that few large ones are wanted.
std::int64_t rows_per_chunk(std::int64_t rows, std::int64_t vocab) {
  constexpr std::int64_t kElements = 32 << 20;
  const std::int64_t most = std::max<std::int64_t>(64, kElements / std::max<std::int64_t>(vocab, 1));
  const std::int64_t chunks = std::max<std::int64_t>(1, (rows + most - 1) / most);
  return (rows + chunks - 1) / chunks;
}

std::int64_t counted_rows(const Tensor& targets, std::int64_t ignore_index) {
  const std::int64_t* t = targets.data<std::int64_t>();
  return targets.numel() - std::count(t, t + targets.numel(), ignore_index);
}

// A projection, its loss, and the gradients, which are filled chunk by chunk while the logits are there: in
// the forward pass, or, where every row has a gradient of its own, in the backward pass.
struct ProjectedLoss {
  Tensor x, weight, bias, targets, logits;
  kernels::CrossEntropyOptions options;
  double scale = 1;  // of the loss, within the gradients
  double cap = 0;    // of the logits, if > 0
  kernels::Precision precision = recording_precision();
  Tensor tanhs = {};                                      // of the logits divided by the cap, like `logits`
  bool of_x = false, of_weight = false, of_bias = false;  // the gradients that are wanted
  Tensor dx = {}, dweight = {}, dbias = {};

  std::int64_t rows() const { return targets.numel(); }
  std::int64_t vocab() const { return weight.size(0); }
  std::vector<Tensor> gradients() const { return {dx, dweight, dbias}; }
  void make_gradients() {
    const auto make = [this](bool wanted, const Tensor& of) {
      if (!wanted) return Tensor();
      // Without rows nothing overwrites them.
      return rows() == 0 ? Tensor::zeros(of.shape(), x.dtype()) : Tensor::empty(of.shape(), x.dtype());
    };
    dx = make(of_x, x), dweight = make(of_weight, weight), dbias = make(of_bias, bias);
  }
  // Calls each(begin, count) for chunks of rows, with room for their logits.
  template <class Each>
  void for_chunks(const Each& each) {
    const std::int64_t chunk = rows_per_chunk(rows(), cap > 0 ? 2 * vocab() : vocab());
    logits = Tensor::empty({chunk, vocab()}, x.dtype());
    if (cap > 0) tanhs = Tensor::empty({chunk, vocab()}, x.dtype());
    for (std::int64_t begin = 0; begin < rows(); begin += chunk) each(begin, std::min(chunk, rows() - begin));
    logits = tanhs = Tensor();
  }
};

template <class T>
void projection_gradients(const ProjectedLoss& p, std::int64_t begin, std::int64_t count) {
  const std::int64_t vocab = p.weight.size(0), d = p.weight.size(1);
  const T *rows = p.x.data<T>() + begin * d, *dlogits = p.logits.data<T>();
  if (p.dx.defined()) {
    kernels::gemm<T>({.m = count,
                      .n = d,
                      .k = vocab,
                      .a = kernels::row_major(dlogits, vocab),
                      .b = matrix_of(p.weight),
                      .c = p.dx.data<T>() + begin * d,
                      .ldc = d,
                      .precision = p.precision});
  }
  if (p.dweight.defined()) {
    kernels::gemm<T>({.m = vocab,
                      .n = d,
                      .k = count,
                      .a = kernels::row_major(dlogits, vocab).transposed(),
                      .b = kernels::row_major(rows, d),
                      .c = p.dweight.data<T>(),
                      .ldc = d,
                      .beta = begin == 0 ? T{0} : T{1},  // the first chunk overwrites
                      .precision = p.precision});
  }
  if (p.dbias.defined()) {
    const Tensor part = begin == 0 ? p.dbias : Tensor::empty({vocab}, p.dbias.dtype());
    kernels::bias_gradient(dlogits, part.data<T>(), count, vocab);
    if (begin > 0) kernels::axpy<T>(T{1}, part.data<T>(), p.dbias.data<T>(), vocab);
  }
}

// logits = cap * tanh(logits / cap), with the tanh kept for the gradient.
template <class T>
void cap_logits(const ProjectedLoss& p, std::int64_t n) {
  T *logits = p.logits.data<T>(), *tanhs = p.tanhs.data<T>();
  kernels::scale<T>(logits, static_cast<T>(1.0 / p.cap), logits, n);
  kernels::tanh<T>(logits, tanhs, n);
  kernels::scale<T>(tanhs, static_cast<T>(p.cap), logits, n);
}

// The logits of a chunk, as cross-entropy reads them.
template <class T>
kernels::CrossEntropy<T> project_chunk(const ProjectedLoss& p, std::int64_t begin, std::int64_t count) {
  const std::int64_t vocab = p.vocab(), d = p.weight.size(1);
  T* logits = p.logits.data<T>();
  kernels::gemm<T>({.m = count,
                    .n = vocab,
                    .k = d,
                    .a = kernels::row_major(p.x.data<T>() + begin * d, d),
                    .b = matrix_of(p.weight).transposed(),
                    .c = logits,
                    .ldc = vocab,
                    .precision = p.precision});
  if (p.bias.defined()) kernels::add_bias(logits, p.bias.data<T>(), count, vocab);
  if (p.cap > 0) cap_logits<T>(p, count * vocab);
  return {logits, p.targets.data<std::int64_t>() + begin, count, vocab, p.options};
}

// From the gradient of the chunk's logits, which replaces them.
template <class T>
void chunk_backward(const ProjectedLoss& p, std::int64_t begin, std::int64_t count) {
  T* logits = p.logits.data<T>();
  if (p.cap > 0) kernels::tanh_backward<T>(p.tanhs.data<T>(), logits, logits, count * p.vocab());
  projection_gradients<T>(p, begin, count);
}

// The reduced loss, with its gradients.
double reduced_loss(ProjectedLoss& p) {
  double total = 0;
  p.make_gradients();
  dispatch_float("linear_cross_entropy", p.x.dtype(), [&]<class T>() {
    p.for_chunks([&](std::int64_t begin, std::int64_t count) {
      const kernels::CrossEntropy<T> args = project_chunk<T>(p, begin, count);
      total += kernels::cross_entropy_in_place<T>(args, p.logits.data<T>(), static_cast<T>(p.scale)).loss;
      chunk_backward<T>(p, begin, count);
    });
  });
  return total * p.scale;
}

// The losses of rows, which keep the logsumexp of each: the backward pass computes the logits again. `inputs`
// are x, weight and bias with their histories.
Tensor losses_of_rows(ProjectedLoss p, const Shape& shape, const std::vector<Tensor>& inputs) {
  Tensor losses = Tensor::empty(shape, p.x.dtype());
  const Tensor logsumexp = Tensor::empty({p.rows()}, p.x.dtype());
  dispatch_float("linear_cross_entropy", p.x.dtype(), [&]<class T>() {
    p.for_chunks([&](std::int64_t begin, std::int64_t count) {
      kernels::cross_entropy<T>(project_chunk<T>(p, begin, count), losses.data<T>() + begin,
                                logsumexp.data<T>() + begin);
    });
  });
  record(losses, "linear_cross_entropy", inputs, [p = std::move(p), logsumexp](const Tensor& dy) {
    ProjectedLoss again = p;
    again.make_gradients();
    const Tensor dlosses = dy.contiguous();
    dispatch_float("linear_cross_entropy", dlosses.dtype(), [&]<class T>() {
      again.for_chunks([&](std::int64_t begin, std::int64_t count) {
        const kernels::CrossEntropy<T> args = project_chunk<T>(again, begin, count);
        kernels::cross_entropy_backward<T>(args, logsumexp.data<T>() + begin, dlosses.data<T>() + begin,
                                           again.logits.data<T>());
        chunk_backward<T>(again, begin, count);
      });
    });
    return again.gradients();
  });
  return losses;
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  const Tensor input = logits.contiguous(), labels = targets.contiguous();
  const Shape rows_shape = without_last(logits.shape());
  const std::int64_t vocab = logits.size(-1), rows = rows_shape.numel();
  check("cross_entropy", rows_shape, vocab, labels, options);
  if (options.logit_cap > 0) {
    CrossEntropyOptions rest = options;
    rest.logit_cap = 0;
    return cross_entropy(softcap(logits, options.logit_cap), targets, rest);
  }
  const bool per_row = options.reduction == Reduction::none;
  const Tensor logsumexp = Tensor::empty({rows}, logits.dtype());
  Tensor losses = per_row ? Tensor::empty(rows_shape, logits.dtype()) : Tensor();
  kernels::CrossEntropySum sum;
  dispatch_float("cross_entropy", logits.dtype(), [&]<class T>() {
    sum = kernels::cross_entropy<T>(
        {input.data<T>(), labels.data<std::int64_t>(), rows, vocab, kernel_options(options)},
        per_row ? losses.data<T>() : nullptr, logsumexp.data<T>());
  });
  const double factor = reduction_factor(options, sum.count);
  Tensor y = per_row ? losses : Tensor::scalar(sum.loss * factor, logits.dtype());
  if (needs_gradient({logits})) {
    record(y, "cross_entropy", {input},
           [logits = input.detach(), labels, logsumexp, rows, vocab, factor, per_row,
            options](const Tensor& dy) {
             const Tensor scale =
                 per_row ? dy.contiguous() : Tensor::full({rows}, dy.item() * factor, dy.dtype());
             Tensor dx = Tensor::empty(logits.shape(), logits.dtype());
             dispatch_float("cross_entropy", logits.dtype(), [&]<class T>() {
               kernels::cross_entropy_backward<T>(
                   {logits.data<T>(), labels.data<std::int64_t>(), rows, vocab, kernel_options(options)},
                   logsumexp.data<T>(), scale.data<T>(), dx.data<T>());
             });
             return std::vector<Tensor>{dx};
           });
  }
  return y;
}

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& targets,
                            const CrossEntropyOptions& options) {
  if (x.rank() < 1 || weight.rank() != 2 || x.size(-1) != weight.size(1) ||
      !is_read_in_place(weight, x.dtype()) ||
      (bias.defined() && (bias.shape() != Shape{weight.size(0)} || bias.dtype() != x.dtype()))) {
    throw Error("linear_cross_entropy: expected x [..., D], weight [V, D] and bias [V] of one type, got " +
                x.str() + ", " + weight.str() + " and " + bias.str());
  }
  if (!needs_gradient({x, weight, bias})) {
    const auto logits = [&](const Tensor& rows) { return linear(rows, weight, bias); };
    return chunked_cross_entropy(x, weight.size(0), logits, targets, options);
  }
  const Tensor input = x.contiguous(), w = weight.contiguous(), labels = targets.contiguous();
  const Tensor b = bias.defined() ? bias.contiguous() : Tensor();
  const Shape rows_shape = without_last(x.shape());
  check("linear_cross_entropy", rows_shape, weight.size(0), labels, options);

  ProjectedLoss p{input.detach(), w.detach(), b.defined() ? b.detach() : b,
                  labels,         {},         kernel_options(options)};
  p.cap = options.logit_cap;
  p.of_x = x.requires_grad();
  p.of_weight = weight.requires_grad();
  p.of_bias = bias.defined() && bias.requires_grad();
  if (options.reduction == Reduction::none) return losses_of_rows(std::move(p), rows_shape, {input, w, b});
  p.scale = reduction_factor(options, counted_rows(labels, options.ignore_index));
  Tensor y = Tensor::scalar(reduced_loss(p), x.dtype());
  record(y, "linear_cross_entropy", {input, w, b}, [gradients = p.gradients()](const Tensor& dy) {
    const double scale = dy.item();
    for (const Tensor& g : gradients) {  // a walk is the only one to see them: scaled in place
      if (!g.defined() || scale == 1.0) continue;
      dispatch_float("linear_cross_entropy", g.dtype(), [&]<class T>() {
        kernels::scale<T>(g.data<T>(), static_cast<T>(scale), g.data<T>(), g.numel());
      });
    }
    return gradients;
  });
  return y;
}

Tensor chunked_cross_entropy(const Tensor& x, std::int64_t vocab,
                             const std::function<Tensor(const Tensor&)>& logits, const Tensor& targets,
                             const CrossEntropyOptions& options) {
  const NoGradients guard;
  const Tensor labels = targets.contiguous();
  const Shape rows_shape = without_last(x.shape());
  const std::int64_t rows = rows_shape.numel(), chunk = rows_per_chunk(rows, vocab);
  check("linear_cross_entropy", rows_shape, vocab, labels, options);
  const bool per_row = options.reduction == Reduction::none;
  const Tensor losses = per_row ? Tensor::empty(rows_shape, x.dtype()) : Tensor();
  const Tensor flat = reshape(x, {rows, x.size(-1)});
  double total = 0;
  for (std::int64_t begin = 0; begin < rows; begin += chunk) {
    const std::int64_t count = std::min(chunk, rows - begin);
    Tensor part = logits(slice(flat, 0, begin, begin + count));
    part = options.logit_cap > 0 ? softcap(part, options.logit_cap) : part.contiguous();
    dispatch_float("linear_cross_entropy", part.dtype(), [&]<class T>() {
      const kernels::CrossEntropy<T> args{part.data<T>(), labels.data<std::int64_t>() + begin, count, vocab,
                                          kernel_options(options)};
      total += kernels::cross_entropy<T>(args, per_row ? losses.data<T>() + begin : nullptr, nullptr).loss;
    });
  }
  if (per_row) return losses;
  return Tensor::scalar(total * reduction_factor(options, counted_rows(labels, options.ignore_index)),
                        x.dtype());
}

}  // namespace heed
