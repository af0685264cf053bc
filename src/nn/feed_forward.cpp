// The feed-forward network.
#include "heed/nn/feed_forward.h"

#include "heed/ops/elementwise.h"

namespace heed {

Tensor FeedForward::operator()(const Tensor& x, Pass& pass, PartState*) const {
  const Tensor inner = gate ? gated((*gate)(x), up(x), activation) : up(x, activation);  // [..., F]
  return down(apply_dropout(inner, dropout, pass.context));
}

}  // namespace heed
