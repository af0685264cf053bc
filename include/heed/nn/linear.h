// The smallest parts of a network: linear maps, embeddings, and dropout as a layer applies it. A part is its
// weights and a call operator; whoever builds it gives it the tensors.
#pragma once

#include <optional>

#include "heed/nn/context.h"
#include "heed/ops/matmul.h"
#include "heed/tensor.h"

namespace heed {

/// y = x W^T + b, with an activation fused behind it.
struct Linear {
  Tensor weight;  // [out, in], or [in, out]
  Tensor bias;    // [out], or undefined
  WeightLayout layout = WeightLayout::out_in;
  Tensor operator()(const Tensor& x, Activation activation = Activation::none) const {
    return linear(x, weight, bias, activation, layout);
  }
};

/// Rows of a table, scaled (Vaswani et al. 2017, section 3.4, scale by sqrt(D)).
struct Embedding {
  Tensor table;  // [V, D]
  double scale = 1.0;
  std::optional<std::int64_t> padding_id;
  Tensor operator()(const Tensor& ids) const;
};

/// Dropout while training, nothing otherwise. Throws Error when the context trains without a generator.
Tensor apply_dropout(const Tensor& x, double p, Context& context);

/// Offers `value` to the listeners of `name`, if there are any.
inline void tap(Context& context, const std::string& name, Tensor& value) {
  if (context.wants(name)) context.taps->emit(name, value);
}

}  // namespace heed
