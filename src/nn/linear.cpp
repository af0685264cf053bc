// Embedding lookups and dropout as layers use them.
#include "heed/nn/linear.h"

#include "heed/autograd.h"
#include "heed/ops/dropout.h"

namespace heed {

Tensor Linear::cross_entropy(const Tensor& x, const Tensor& targets,
                             const CrossEntropyOptions& options) const {
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

}  // namespace heed
