// Linear attention as a part, and the sums that it remembers.
#include "heed/nn/attention.h"

#include <algorithm>
#include <string>
#include <utility>

#include "heed/ops/attention_variants.h"
#include "heed/ops/shape.h"
#include "nn/attention_common.h"
#include "nn/key_value_state.h"
#include "ops/attention.h"

namespace heed {
namespace {

[[noreturn]] void refuse_to_forget(std::int64_t length) {
  throw Error("linear attention: expected to forget all tokens or none, got all after " +
              std::to_string(length) + " (decoding keeps sums over the keys)");
}

/// Sums over the keys of the tokens so far, f64 [R, K, d, e + 1] (LinearAttentionOptions::state).
class LinearAttentionState final : public PartState {
 public:
  /// The sums, which are zeros for a first pass over keys [R, K, T, d] and values [R, K, T, e].
  Tensor sums(const Tensor& keys, const Tensor& values) {
    if (!sums_.defined())
      sums_ = Tensor::zeros({keys.size(0), keys.size(1), keys.size(3), values.size(3) + 1}, DType::f64);
    return sums_;
  }
  /// Remembers keys and values for listeners, and returns those of all tokens. Throws Error where listening
  /// did not begin with the first token.
  std::pair<Tensor, Tensor> hear(const Tensor& keys, const Tensor& values, const SequenceLengths& past) {
    if (past.longest > heard_)
      throw Error(
          "linear attention: expected a listener for weights from the first token on, got one after " +
          std::to_string(past.longest) + " (decoding keeps sums over the keys)");
    all_.append(keys, values, past, CacheDType::f32);
    heard_ = past.longest + keys.size(2);
    return {all_.keys(heard_), all_.values(heard_)};
  }
  void reorder(const RowReorder& rows) override {
    all_.reorder(rows);
    if (!sums_.defined()) return;
    sums_ = gather(sums_, 0, Tensor::from(rows.from, {static_cast<std::int64_t>(rows.from.size())}));
  }
  void truncate(std::int64_t length) override {
    if (length > 0) refuse_to_forget(length);
    sums_ = {};
    heard_ = 0;
  }
  void join(const PartState& other, const RowJoin&) override {
    sums_ = concat({sums_, static_cast<const LinearAttentionState&>(other).sums_}, 0);
    all_ = {};  // listeners hear rows that began together
    heard_ = 0;
  }
  std::unique_ptr<PartState> copy_row(std::int64_t row, std::int64_t row_length,
                                      std::int64_t length) const override {
    if (length != row_length) refuse_to_forget(length);
    auto copy = std::make_unique<LinearAttentionState>();
    copy->sums_ = slice(sums_, 0, row, row + 1).clone();
    return copy;
  }
  std::int64_t chunk_size() const override { return kLinearAttentionChunk; }
  std::size_t bytes() const override {
    return all_.bytes() + (sums_.defined() ? static_cast<std::size_t>(sums_.numel()) * sizeof(double) : 0);
  }

 private:
  Tensor sums_;
  KeyValueState all_;  // empty without listeners
  std::int64_t heard_ = 0;
};

// The position of each row's first query.
Tensor first_positions(const Pass& pass, std::int64_t rows) {
  if (pass.self.query_offsets.defined()) return pass.self.query_offsets;
  return Tensor::full({rows}, static_cast<double>(pass.past.longest), DType::i64);
}

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
        if (weights == nullptr || state == nullptr)
          return linear_attention(heads.queries, heads.keys, heads.values, options, weights);
        const Tensor result = linear_attention(heads.queries, heads.keys, heads.values, options);
        const auto [keys, values] =
            static_cast<LinearAttentionState&>(*state).hear(heads.keys, heads.values, pass.past);
        linear_attention_weights(heads.queries, keys, first_positions(pass, x.size(0)), pass.self.key_lengths,
                                 *weights);
        heads.values = values;  // of which replaced weights make the result
        return result;
      },
      nullptr);
}

std::unique_ptr<PartState> LinearSelfAttention::make_state(const Tensor&) const {
  return std::make_unique<LinearAttentionState>();
}

}  // namespace heed
