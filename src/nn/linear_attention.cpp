// Linear attention as a part, and the sums that it remembers.
#include "heed/nn/linear_attention.h"

#include <algorithm>

#include "heed/ops/linear_attention.h"
#include "heed/ops/shape.h"
#include "nn/attention_common.h"

namespace heed {
namespace {

/// Sums over the keys of the tokens so far, f64 [R, K, d, e + 1] (LinearAttentionOptions::state).
class LinearAttentionState final : public PartState {
 public:
  /// The sums, which are zeros for a first pass over keys [R, K, T, d] and values [R, K, T, e].
  Tensor sums(const Tensor& keys, const Tensor& values) {
    if (!sums_.defined())
      sums_ = Tensor::zeros({keys.size(0), keys.size(1), keys.size(3), values.size(3) + 1}, DType::f64);
    return sums_;
  }
  void reorder(const RowReorder& rows) override {
    if (!sums_.defined()) return;
    sums_ = gather(sums_, 0, Tensor::from(rows.from, {static_cast<std::int64_t>(rows.from.size())}));
  }
  std::size_t bytes() const override {
    return sums_.defined() ? static_cast<std::size_t>(sums_.numel()) * sizeof(double) : 0;
  }

 private:
  Tensor sums_;
};

}  // namespace

Tensor LinearSelfAttention::operator()(const Tensor& x, Pass& pass, PartState* state) const {
  refuse_documents("linear", pass.self);
  ProjectedHeads heads = project_heads(attention, x);
  LinearAttentionOptions options{.causal = pass.self.causal};
  if (state != nullptr) {
    options.state = static_cast<LinearAttentionState&>(*state).sums(heads.keys, heads.values);
    if (!pass.lengths.empty())  // the rest is padding, which the sums must not hold
      options.key_lengths = Tensor::from(pass.lengths, {x.size(0)});
  } else {
    options.key_mask = pass.self.key_mask;
    options.key_lengths = pass.self.key_lengths;
  }
  return attend_by(
      attention, heads.queries, heads.keys, heads.values, pass,
      [&](AttentionWeights* weights) {
        return linear_attention(heads.queries, heads.keys, heads.values, options, weights);
      },
      nullptr);
}

std::unique_ptr<PartState> LinearSelfAttention::make_state(const Tensor&) const {
  return std::make_unique<LinearAttentionState>();
}

}  // namespace heed
