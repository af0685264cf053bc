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

// A store of [R, K, capacity, d] with more room, what is filled kept. The rest is 0: attention multiplies
// what a shorter row has not got by weights of 0, which NaN would outlive.
Tensor with_capacity(const Tensor& store, const Tensor& like, std::int64_t filled, std::int64_t capacity) {
  Tensor larger = Tensor::zeros({like.size(0), like.size(1), capacity, like.size(3)}, like.dtype());
  if (filled > 0) slice(larger, 2, 0, filled).copy_from(slice(store, 2, 0, filled));
  return larger;
}

// Places [first, first + count) of one row of a store, as one block per head.
Tensor block_of(const Tensor& store, std::int64_t row, std::int64_t first, std::int64_t count) {
  return slice(slice(store, 0, row, row + 1), 2, first, first + count);
}

}  // namespace

void KeyValueCache::reserve(const Tensor& k, const Tensor& v, std::int64_t places) {
  if (keys.defined() && keys.size(2) >= places) return;
  constexpr std::int64_t kStep = 16;
  const std::int64_t capacity = std::max(2 * length, (places + kStep - 1) / kStep * kStep);
  keys = with_capacity(keys, k, length, capacity);
  values = with_capacity(values, v, length, capacity);
}

void KeyValueCache::append(const Tensor& k, const Tensor& v) {
  refuse_gradient("key-value cache", {k, v});
  const std::int64_t rows = k.size(0), time = k.size(2);
  reserve(k, v, length + time);
  if (lengths.empty()) {
    slice(keys, 2, length, length + time).copy_from(k);
    slice(values, 2, length, length + time).copy_from(v);
  }
  written_.resize(static_cast<std::size_t>(rows));
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto r = static_cast<std::size_t>(row);
    if (!lengths.empty()) {
      block_of(keys, row, lengths[r], time).copy_from(slice(k, 0, row, row + 1));
      block_of(values, row, lengths[r], time).copy_from(slice(v, 0, row, row + 1));
      lengths[r] += time;
    }
    for (std::int64_t t = 0; t < time; ++t) written_[r].push_back(writings_++);
  }
  length += time;
}

void KeyValueCache::drop_padding(std::int64_t time, std::span<const std::int64_t> kept) {
  if (lengths.empty()) lengths.assign(kept.size(), length);
  for (std::size_t row = 0; row < kept.size(); ++row) {
    lengths[row] -= time - kept[row];
    written_[row].resize(static_cast<std::size_t>(lengths[row]));
  }
  length = *std::max_element(lengths.begin(), lengths.end());
}

Tensor KeyValueCache::filled_keys() const { return slice(keys, 2, 0, length); }
Tensor KeyValueCache::filled_values() const { return slice(values, 2, 0, length); }

Places KeyValueCache::places() const {
  if (lengths.empty()) return Places(length);
  return Places(Tensor::from(lengths, {static_cast<std::int64_t>(lengths.size())}));
}

void KeyValueCache::reorder(const Tensor& rows) {
  if (!keys.defined()) return;
  const std::vector<std::int64_t> from = rows.to_vector<std::int64_t>();
  if (rows.numel() <= keys.size(0)) {
    reorder_in_place(from);
  } else {
    keys = gather(keys, 0, rows);
    values = gather(values, 0, rows);
  }
  std::vector<std::vector<std::int64_t>> written;
  std::vector<std::int64_t> taken;
  for (const std::int64_t row : from) {
    written.push_back(written_[static_cast<std::size_t>(row)]);
    if (!lengths.empty()) taken.push_back(length_of(row));
  }
  written_ = std::move(written);
  if (lengths.empty() || taken.empty()) return;
  lengths = std::move(taken);
  length = *std::max_element(lengths.begin(), lengths.end());
}

void KeyValueCache::reorder_in_place(std::span<const std::int64_t> rows) {
  struct Move {
    std::int64_t row, first;
    Tensor keys, values;
  };
  std::vector<Move> moves;  // copied first, as rows are overwritten
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const auto from = static_cast<std::size_t>(rows[row]);
    if (from == row) continue;
    const auto& mine = written_[row];
    const auto& taken = written_[from];
    const auto common = std::mismatch(taken.begin(), taken.end(), mine.begin(), mine.end()).first;
    const std::int64_t first = common - taken.begin(), count = length_of(rows[row]) - first;
    if (count == 0) continue;
    moves.push_back({static_cast<std::int64_t>(row), first, block_of(keys, rows[row], first, count).clone(),
                     block_of(values, rows[row], first, count).clone()});
  }
  for (const Move& move : moves) {
    block_of(keys, move.row, move.first, move.keys.size(2)).copy_from(move.keys);
    block_of(values, move.row, move.first, move.values.size(2)).copy_from(move.values);
  }
  const auto count = static_cast<std::int64_t>(rows.size());
  keys = slice(keys, 0, 0, count);
  values = slice(values, 0, 0, count);
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
    const Places after_cache = cache != nullptr ? cache->places() : Places();
    const Places& places = context.places != nullptr ? *context.places : after_cache;
    queries = positions->rotate(queries, places);
    keys = positions->rotate(keys, places);
  }
  if (cache != nullptr) {
    if (!cache->lengths.empty()) options.query_offsets = cache->places().each;
    cache->append(keys, values);
    if (!cache->lengths.empty()) options.key_lengths = cache->places().each;
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
    AttentionWeights all;
    heads_out = scaled_dot_product_attention(query, key, value, options, &all);
    const Tensor weights = all.values;
    Tensor offered = weights;
    context.taps->emit(weights_name, offered);
    if (!offered.is_same(weights)) {
      const std::int64_t group = heads / kv_heads;
      const Shape grouped{weights.size(0), kv_heads, group * weights.size(2), weights.size(3)};
      heads_out = reshape(matmul(reshape(offered, grouped), value.to(offered.dtype())),
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
