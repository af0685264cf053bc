// Multi-head attention and its cache.
#include "heed/nn/attention.h"

#include <algorithm>

#include "heed/autograd.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/matmul.h"
#include "heed/ops/shape.h"

namespace heed {
namespace {

// [B, T, H*d] -> [B, H, T, d], a view
Tensor split_heads(const Tensor& x, std::int64_t heads) {
  return permute(reshape(x, {x.size(0), x.size(1), heads, x.size(2) / heads}), {0, 2, 1, 3});
}

// [B, H, T, d] -> [B, T, H*d]
Tensor join_heads(const Tensor& x) {
  return reshape(permute(x, {0, 2, 1, 3}), {x.size(0), x.size(2), x.size(1) * x.size(3)});
}

// Room for at least `length` places, the filled ones kept.
Tensor with_capacity(const Tensor& store, const Tensor& like, std::int64_t filled, std::int64_t length) {
  if (store.defined() && store.size(2) >= length) return store;
  constexpr std::int64_t kStep = 16;
  const std::int64_t capacity = std::max(2 * filled, (length + kStep - 1) / kStep * kStep);
  Tensor larger = Tensor::empty({like.size(0), like.size(1), capacity, like.size(3)}, like.dtype());
  if (filled > 0) slice(larger, 2, 0, filled).copy_from(slice(store, 2, 0, filled));
  return larger;
}

}  // namespace

void KeyValueCache::append(const Tensor& k, const Tensor& v) {
  refuse_gradient("key-value cache", {k, v});
  const std::int64_t longer = length + k.size(2);
  keys = with_capacity(keys, k, length, longer);
  values = with_capacity(values, v, length, longer);
  slice(keys, 2, length, longer).copy_from(k);
  slice(values, 2, length, longer).copy_from(v);
  length = longer;
}

Tensor KeyValueCache::filled_keys() const { return slice(keys, 2, 0, length); }
Tensor KeyValueCache::filled_values() const { return slice(values, 2, 0, length); }

void KeyValueCache::reorder(const Tensor& rows) {
  if (!keys.defined()) return;
  keys = gather(keys, 0, rows);
  values = gather(values, 0, rows);
}

MultiHeadAttention::Projected MultiHeadAttention::project(const Tensor& x) const {
  if (!fused) return {split_heads(q(x), heads), split_heads(k(x), kv_heads), split_heads(v(x), kv_heads)};
  Tensor all = fused->projection(x);  // [B, T, 3*H*d]
  if (fused->clip) all = clamp(all, -*fused->clip, *fused->clip);
  const std::int64_t batch = x.size(0), time = x.size(1), width = all.size(2) / (3 * heads);
  const bool by_part = fused->order == QkvOrder::by_part;
  all = reshape(all, by_part ? Shape{batch, time, 3 * heads, width} : Shape{batch, time, heads, 3 * width});
  const auto part = [&](std::int64_t i) {
    const Tensor heads_of_part =
        by_part ? slice(all, 2, i * heads, (i + 1) * heads) : slice(all, 3, i * width, (i + 1) * width);
    return permute(heads_of_part, {0, 2, 1, 3});  // [B, H, T, d]
  };
  return {part(0), part(1), part(2)};
}

Tensor MultiHeadAttention::operator()(const Tensor& x, AttentionOptions options, KeyValueCache* cache,
                                      Context& context) const {
  auto [queries, keys, values] = project(x);
  if (positions != nullptr) {
    const Places after_cache(cache != nullptr ? cache->length : 0);
    const Places& places = context.places != nullptr ? *context.places : after_cache;
    queries = positions->rotate(queries, places);
    keys = positions->rotate(keys, places);
  }
  if (cache != nullptr) {
    cache->append(keys, values);
    keys = cache->filled_keys();
    values = cache->filled_values();
  }
  if (positions != nullptr) positions->bias(options, queries, keys);
  return attend(queries, keys, values, std::move(options), context);
}

Tensor MultiHeadAttention::cross(const Tensor& x, const Tensor& memory, AttentionOptions options,
                                 KeyValueCache* cache, Context& context) const {
  const Tensor queries = split_heads(q(x), heads);
  if (cache != nullptr) {
    return attend(queries, cache->filled_keys(), cache->filled_values(), std::move(options), context);
  }
  return attend(queries, split_heads(k(memory), kv_heads), split_heads(v(memory), kv_heads),
                std::move(options), context);
}

void MultiHeadAttention::remember(const Tensor& memory, KeyValueCache& cache) const {
  cache.append(split_heads(k(memory), kv_heads), split_heads(v(memory), kv_heads));
}

Tensor MultiHeadAttention::attend(const Tensor& queries, const Tensor& keys, const Tensor& values,
                                  AttentionOptions options, Context& context) const {
  Tensor query = queries, key = keys, value = values;
  tap(context, name + ".q", query);
  tap(context, name + ".k", key);
  tap(context, name + ".v", value);
  if (scale) options.scale = scale;
  if (window > 0) options.window = window;
  if (context.training && dropout > 0.0) {
    if (context.generator == nullptr) throw Error("dropout: expected a generator while training, got none");
    options.dropout = dropout;
    options.stream = context.generator->next();
  }
  Tensor heads_out;  // [B, H, T, d]
  const std::string weights_name = name + ".weights";
  if (context.wants(weights_name)) {
    Tensor weights;
    heads_out = scaled_dot_product_attention(query, key, value, options, &weights);
    Tensor offered = weights;
    context.taps->emit(weights_name, offered);
    if (!offered.is_same(weights)) {
      const std::int64_t group = heads / kv_heads;
      const Shape grouped{weights.size(0), kv_heads, group * weights.size(2), weights.size(3)};
      heads_out = reshape(matmul(reshape(offered, grouped), value),
                          {weights.size(0), heads, weights.size(2), value.size(3)});
    }
  } else {
    heads_out = scaled_dot_product_attention(query, key, value, options);
  }
  Tensor result = out(join_heads(heads_out));
  tap(context, name + ".out", result);
  return result;
}

}  // namespace heed
