// The feed-forward network.
#include "heed/nn/feed_forward.h"

#include "heed/ops/shape.h"

namespace heed {

namespace {

// Of [..., 2F], one half is the gate's.
Tensor gated_halves(const Tensor& both, bool gate_last, Activation activation) {
  const std::int64_t d_ff = both.size(-1) / 2;
  const Tensor first = slice(both, -1, 0, d_ff), second = slice(both, -1, d_ff, 2 * d_ff);
  return gate_last ? gated(second, first, activation) : gated(first, second, activation);
}

Tensor gated_maps(const Linear& gate, const Linear& up, const Tensor& x, Activation activation) {
  const std::vector<Tensor> both = linear_all(x, {&gate, &up});
  return gated(both[0], both[1], activation);
}

}  // namespace

Tensor FeedForward::operator()(const Tensor& x, Pass& pass, PartState*) const {
  Tensor inner = fused_gate ? gated_halves(up(x), gate_last, activation)
                 : gate     ? gated_maps(*gate, up, x, activation)
                            : up(x, activation);  // [..., F]
  pass.tap("inner", inner);
  Tensor y = down(apply_dropout(inner, dropout, pass.context));
  pass.tap("out", y);
  return y;
}

}  // namespace heed
