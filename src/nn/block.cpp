// Blocks and stacks.
#include "heed/nn/block.h"

#include "heed/ops/elementwise.h"

namespace heed {

Tensor Residual::add(const Tensor& x, const Tensor& y) { return x + y; }

Tensor FeedForward::operator()(const Tensor& x, Context& context) const {
  const Tensor inner = gate ? gated((*gate)(x), up(x), activation) : up(x, activation);  // [..., F]
  return down(apply_dropout(inner, dropout, context));
}

Tensor EncoderLayer::operator()(const Tensor& x, const AttentionOptions& options, Context& context) const {
  context.check_stop();
  const Tensor attended = self_attn_residual(
      x, context, [&](const Tensor& input) { return self_attn(input, options, nullptr, context); });
  Tensor result = feed_forward_residual(attended, context,
                                        [&](const Tensor& input) { return feed_forward(input, context); });
  tap(context, name + ".out", result);
  return result;
}

Tensor DecoderLayer::operator()(const Tensor& x, const Tensor& memory, const AttentionOptions& self_options,
                                const AttentionOptions& cross_options, DecoderLayerCache* cache,
                                Context& context) const {
  context.check_stop();
  const Tensor attended = self_attn_residual(x, context, [&](const Tensor& input) {
    return self_attn(input, self_options, cache != nullptr ? &cache->self : nullptr, context);
  });
  const Tensor crossed = cross_attn_residual(attended, context, [&](const Tensor& input) {
    return cross_attn.cross(input, memory, cross_options, cache != nullptr ? &cache->cross : nullptr,
                            context);
  });
  Tensor result = feed_forward_residual(crossed, context,
                                        [&](const Tensor& input) { return feed_forward(input, context); });
  tap(context, name + ".out", result);
  return result;
}

Tensor Encoder::operator()(Tensor x, const AttentionOptions& options, Context& context) const {
  tap(context, name + ".embed", x);
  for (const EncoderLayer& layer : layers) x = layer(x, options, context);
  return final_norm ? (*final_norm)(x) : x;
}

Tensor Decoder::operator()(Tensor x, const Tensor& memory, const AttentionOptions& self_options,
                           const AttentionOptions& cross_options, std::vector<DecoderLayerCache>* caches,
                           Context& context) const {
  tap(context, name + ".embed", x);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    x = layers[i](x, memory, self_options, cross_options, caches != nullptr ? &(*caches)[i] : nullptr,
                  context);
  }
  return final_norm ? (*final_norm)(x) : x;
}

}  // namespace heed
