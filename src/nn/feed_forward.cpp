// The feed-forward network.
#include "heed/nn/feed_forward.h"

#include "heed/ops/shape.h"

namespace heed {

namespace {

// The halves of [..., 2F]: the gate's, then the other.
Tensor gated_halves(const Tensor& both, Activation activation) {
  const std::int64_t d_ff = both.size(-1) / 2;
  return gated(slice(both, -1, 0, d_ff), slice(both, -1, d_ff, 2 * d_ff), activation);
}

}  // namespace

Tensor FeedForward::operator()(const Tensor& x, Pass& pass, PartState*) const {
  Tensor inner = fused_gate ? gated_halves(up(x), activation)
                 : gate     ? gated((*gate)(x), up(x), activation)
                            : up(x, activation);  // [..., F]
  pass.tap("inner", inner);
  Tensor y = down(apply_dropout(inner, dropout, pass.context));
  pass.tap("out", y);
  return y;
}

}  // namespace heed
