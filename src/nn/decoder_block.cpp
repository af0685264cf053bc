// Blocks of decoder-only models, and their stack.
#include "heed/nn/decoder_block.h"

#include "heed/ops/elementwise.h"

namespace heed {

Tensor CausalLayer::operator()(const Tensor& x, const AttentionOptions& options, KeyValueCache* cache,
                               Context& context) const {
  context.check_stop();
  const auto attend = [&](const Tensor& input) {
    return apply_dropout(self_attn(input, options, cache, context), dropout, context);
  };
  const auto feed = [&](const Tensor& input) {
    return apply_dropout(feed_forward(input, context), dropout, context);
  };
  const Tensor normed = attn_norm(x);
  Tensor result;
  if (order == ResidualOrder::parallel) {
    result = feed(feed_forward_norm(x)) + attend(normed) + x;
  } else if (order == ResidualOrder::from_norm) {
    const Tensor middle = feed_forward_norm(normed + attend(normed));
    result = middle + feed(middle);
  } else {
    const Tensor middle = x + attend(normed);
    result = middle + feed(feed_forward_norm(middle));
  }
  tap(context, name + ".out", result);
  return result;
}

Tensor CausalStack::operator()(Tensor x, const AttentionOptions& options, std::vector<KeyValueCache>* caches,
                               Context& context) const {
  tap(context, name + ".embed", x);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    x = layers[i](x, options, caches != nullptr ? &(*caches)[i] : nullptr, context);
  }
  return final_norm(x);
}

}  // namespace heed
