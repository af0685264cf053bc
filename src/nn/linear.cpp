// Embedding lookups and dropout as layers use them.
#include "heed/nn/linear.h"

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/nn/norm.h"
#include "heed/ops/activation.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"

namespace heed {
namespace {

// The rows whose target counts.
Tensor rows_with_target(const Tensor& targets, std::int64_t ignored) {
  std::vector<std::int64_t> rows;
  const std::int64_t* t = targets.data<std::int64_t>();
  for (std::int64_t row = 0; row < targets.numel(); ++row)
    if (t[row] != ignored) rows.push_back(row);
  return Tensor::from(rows, {std::ssize(rows)});
}

// The losses of `rows` in their places, 0 elsewhere.
Tensor at_rows(const Tensor& losses, const Tensor& rows, const Shape& shape) {
  const std::int64_t count = rows.numel();
  std::vector<std::int64_t> from(static_cast<std::size_t>(shape.numel()), count);
  for (std::int64_t i = 0; i < count; ++i) from[static_cast<std::size_t>(rows.data<std::int64_t>()[i])] = i;
  const Tensor with_zero = concat({losses, Tensor::zeros({1}, losses.dtype())}, 0);
  return reshape(gather(with_zero, 0, Tensor::from(from, {shape.numel()})), shape);
}

}  // namespace

Tensor Linear::cross_entropy(const Tensor& x, const Tensor& targets,
                             const CrossEntropyOptions& options) const {
  if (const Tensor rows = rows_with_target(targets.contiguous(), options.ignore_index);
      rows.numel() > 0 && rows.numel() < targets.numel()) {
    // The others need no logits.
    const Tensor counted = gather(reshape(x, {targets.numel(), x.size(-1)}), 0, rows);
    const Tensor loss = cross_entropy(counted, gather(reshape(targets, {targets.numel()}), 0, rows), options);
    return options.reduction == Reduction::none ? at_rows(loss, rows, targets.shape()) : loss;
  }
  if (weight.defined() && !weight.adapters().empty() && gradients_enabled())
    return heed::cross_entropy((*this)(x), targets, options);
  if (x.dtype() != DType::f32 || needs_gradient({x, weight.tensor(), bias})) {
    const Tensor numbers = weight.stays_quantized() ? weight.dequantized() : weight.tensor();
    return linear_cross_entropy(x, numbers, bias, targets, options);
  }
  const auto logits = [&](const Tensor& rows) { return (*this)(rows); };
  return chunked_cross_entropy(x, weight.size(0), logits, targets, options);
}

Tensor Embedding::operator()(const Tensor& ids) const { return table.embedding(ids, scale, padding_id); }

Tensor apply_dropout(const Tensor& x, double p, Context& context) {
  if (!context.training || p == 0.0) return x;
  if (context.generator == nullptr)
    throw Error("dropout: no random generator (set Context::generator for training)");
  return dropout(x, p, context.generator->next());
}

// Norms as linear maps of the parts of a sum.

Tensor Norm::of_part(const Tensor& part, const Tensor& whole) const {
  if (kind == NormKind::group) throw Error("norm: expected a layer or RMS norm of a sum, got a group norm");
  const auto centered = [&](const Tensor& given) {
    const Tensor x = given.to(DType::f64);
    return kind == NormKind::layer ? x - mean(x, -1, true) : x;
  };
  const Tensor x = centered(whole);
  const Tensor inverse = rsqrt(mean(x * x, -1, true) + eps);  // of the deviation
  return centered(part) * inverse * (weight.to(DType::f64) + offset);
}

}  // namespace heed
