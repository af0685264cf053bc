// Cross-entropy, alone and fused with the projection to a large vocabulary.
#include "heed/ops/loss.h"

#include <algorithm>

#include "heed/autograd.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/shape.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/gemm.h"
#include "kernels/loss.h"

namespace heed {
namespace {

kernels::CrossEntropy kernel_options(const CrossEntropyOptions& options) {
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

// About 16 MB of logits at a time: enough rows for an efficient product.
std::int64_t rows_per_chunk(std::int64_t vocab) {
  constexpr std::int64_t kElements = 4 << 20;
  return std::max<std::int64_t>(64, kElements / std::max<std::int64_t>(vocab, 1));
}

// Gradients of the summed loss, filled chunk by chunk while the logits are there.
struct ProjectionGradients {
  Tensor x, weight, bias;
};

template <class T>
kernels::CrossEntropySum project_chunk(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                       const std::int64_t* targets, std::int64_t begin, std::int64_t count,
                                       T* logits, const kernels::CrossEntropy& options,
                                       ProjectionGradients* out) {
  const std::int64_t vocab = weight.size(0), d = weight.size(1);
  const T *rows = x.data<T>() + begin * d, *w = weight.data<T>();
  kernels::gemm<T>(false, true, count, vocab, d, T{1}, rows, d, w, d, T{0}, logits, vocab);
  if (bias.defined()) kernels::add_bias(logits, bias.data<T>(), count, vocab);
  if (out == nullptr) {
    return kernels::cross_entropy<T>(logits, targets + begin, nullptr, nullptr, count, vocab, options);
  }
  const auto sum = kernels::cross_entropy_in_place<T>(logits, targets + begin, T{1}, count, vocab, options);
  if (out->x.defined()) {
    kernels::gemm<T>(false, false, count, d, vocab, T{1}, logits, vocab, w, d, T{0},
                     out->x.data<T>() + begin * d, d);
  }
  if (out->weight.defined()) {
    kernels::gemm<T>(true, false, vocab, d, count, T{1}, logits, vocab, rows, d, T{1}, out->weight.data<T>(),
                     d);
  }
  if (out->bias.defined()) {
    const Tensor part = Tensor::empty({vocab}, bias.dtype());
    kernels::bias_gradient(logits, part.data<T>(), count, vocab);
    kernels::axpy<T>(T{1}, part.data<T>(), out->bias.data<T>(), vocab);
  }
  return sum;
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  const Tensor input = logits.contiguous(), labels = targets.contiguous();
  const Shape rows_shape = without_last(logits.shape());
  const std::int64_t vocab = logits.size(-1), rows = rows_shape.numel();
  check("cross_entropy", rows_shape, vocab, labels, options);
  const Tensor logsumexp = Tensor::empty({rows}, logits.dtype());
  kernels::CrossEntropySum sum;
  dispatch_float("cross_entropy", logits.dtype(), [&]<class T>() {
    sum = kernels::cross_entropy<T>(input.data<T>(), labels.data<std::int64_t>(), nullptr,
                                    logsumexp.data<T>(), rows, vocab, kernel_options(options));
  });
  const double factor = reduction_factor(options, sum.count);
  Tensor y = Tensor::scalar(sum.loss * factor, logits.dtype());
  if (needs_gradient({logits})) {
    record(y, "cross_entropy", {input},
           [logits = input.detach(), labels, logsumexp, rows, vocab, factor, options](const Tensor& dy) {
             const Tensor scale = Tensor::full({rows}, dy.item() * factor, dy.dtype());
             Tensor dx = Tensor::empty(logits.shape(), logits.dtype());
             dispatch_float("cross_entropy", logits.dtype(), [&]<class T>() {
               kernels::cross_entropy_backward<T>(logits.data<T>(), labels.data<std::int64_t>(),
                                                  logsumexp.data<T>(), scale.data<T>(), dx.data<T>(), rows,
                                                  vocab, kernel_options(options));
             });
             return std::vector<Tensor>{dx};
           });
  }
  return y;
}

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& targets,
                            const CrossEntropyOptions& options) {
  if (x.rank() < 1 || weight.rank() != 2 || x.size(-1) != weight.size(1) || x.dtype() != weight.dtype() ||
      (bias.defined() && (bias.shape() != Shape{weight.size(0)} || bias.dtype() != x.dtype()))) {
    throw Error("linear_cross_entropy: expected x [..., D], weight [V, D] and bias [V] of one type, got " +
                x.str() + ", " + weight.str() + " and " + bias.str());
  }
  const Tensor input = x.contiguous(), w = weight.contiguous(), labels = targets.contiguous();
  const Tensor b = bias.defined() ? bias.contiguous() : Tensor();
  const Shape rows_shape = without_last(x.shape());
  const std::int64_t vocab = weight.size(0), rows = rows_shape.numel();
  check("linear_cross_entropy", rows_shape, vocab, labels, options);

  const bool recording = needs_gradient({x, weight, bias});
  ProjectionGradients gradients;
  if (recording) {
    if (x.requires_grad()) gradients.x = Tensor::empty(x.shape(), x.dtype());
    if (weight.requires_grad()) gradients.weight = Tensor::zeros(weight.shape(), x.dtype());
    if (bias.defined() && bias.requires_grad()) gradients.bias = Tensor::zeros(bias.shape(), x.dtype());
  }
  const std::int64_t chunk = std::min(rows_per_chunk(vocab), std::max<std::int64_t>(rows, 1));
  const Tensor logits = Tensor::empty({chunk, vocab}, x.dtype());
  kernels::CrossEntropySum total;
  dispatch_float("linear_cross_entropy", x.dtype(), [&]<class T>() {
    for (std::int64_t begin = 0; begin < rows; begin += chunk) {
      const auto part =
          project_chunk<T>(input, w, b, labels.data<std::int64_t>(), begin, std::min(chunk, rows - begin),
                           logits.data<T>(), kernel_options(options), recording ? &gradients : nullptr);
      total.loss += part.loss;
      total.count += part.count;
    }
  });
  const double factor = reduction_factor(options, total.count);
  Tensor y = Tensor::scalar(total.loss * factor, x.dtype());
  if (recording) {
    record(y, "linear_cross_entropy", {input, w, b}, [gradients, factor](const Tensor& dy) {
      const double scale = dy.item() * factor;
      auto scaled = [&](const Tensor& g) { return g.defined() ? mul(g, scale) : Tensor(); };
      return std::vector<Tensor>{scaled(gradients.x), scaled(gradients.weight), scaled(gradients.bias)};
    });
  }
  return y;
}

}  // namespace heed
