// Disentangled attention.
#include "heed/nn/attention.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "heed/ops/attention.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/embedding.h"
#include "heed/ops/matmul.h"
#include "heed/ops/shape.h"

namespace heed {
namespace {

// The buckets of distances -(time - 1) .. time - 1, as i64 [2 * time - 1].
Tensor buckets_of(const DisentangledBuckets& buckets, std::int64_t time) {
  Tensor all = Tensor::empty({2 * time - 1}, DType::i64);
  for (std::int64_t i = 0; i < all.numel(); ++i) all.data<std::int64_t>()[i] = buckets.of(i - time + 1);
  return all;
}

// x [B, H, T, d] times each head of the projected positions [R, H * d], scaled: [B, H, T, R]
Tensor position_products(const Tensor& x, const Tensor& projected, double scale) {
  const Tensor heads = reshape(projected, {projected.size(0), x.size(1), x.size(3)});
  return matmul(x, permute(heads * scale, {1, 2, 0}));
}

Tensor split(const Tensor& x, std::int64_t heads) {  // [B, T, H * d] -> [B, H, T, d]
  return permute(reshape(x, {x.size(0), x.size(1), heads, x.size(2) / heads}), {0, 2, 1, 3});
}

}  // namespace

std::int64_t DisentangledBuckets::of(std::int64_t distance) const {
  const std::int64_t middle = buckets / 2, away = std::abs(distance);
  std::int64_t row = distance;
  if (buckets > 0 && away > middle) {
    // In float, as the checkpoints were trained: a distance on the border of two rows must fall the same way.
    const auto half = static_cast<float>(middle);
    const float along =
        std::log(static_cast<float>(away) / half) /
        std::log(static_cast<float>(static_cast<double>(max_distance - 1) / static_cast<double>(middle))) *
        static_cast<float>(middle - 1);
    row = static_cast<std::int64_t>(std::ceil(along)) + middle;
    if (distance < 0) row = -row;
  }
  return std::clamp<std::int64_t>(row + span, 0, 2 * span - 1);
}

Tensor DisentangledAttention::operator()(const Tensor& x, Pass& pass, PartState*) const {
  const std::int64_t time = x.size(1);
  const double scale = attention.scale.value_or(1.0);
  Tensor queries = split(attention.q(x), attention.heads), keys = split(attention.k(x), attention.heads);
  const Tensor& present = pass.self.key_mask;
  if (present.defined()) queries = queries * reshape(present, {x.size(0), 1, time, 1}).to(queries.dtype());

  // Only the rows between the buckets of the largest distances are projected.
  const Tensor buckets = buckets_of(positions->buckets, time);
  std::int64_t* bucket = buckets.data<std::int64_t>();
  const std::int64_t first = bucket[0], count = bucket[buckets.numel() - 1] - first + 1;
  for (std::int64_t i = 0; i < buckets.numel(); ++i) bucket[i] -= first;
  const Tensor rows = Tensor::empty({count}, DType::i64);
  for (std::int64_t i = 0; i < count; ++i) rows.data<std::int64_t>()[i] = first + i;
  Tensor relative = embedding(positions->table, rows);  // [R, D]
  if (positions->norm) relative = (*positions->norm)(relative);
  relative = apply_dropout(relative, positions->dropout, pass.context);

  Tensor c2p, p2c;
  if (position_key) c2p = position_products(queries, (*position_key)(relative), scale);
  if (position_query) p2c = position_products(keys, (*position_query)(relative), scale);
  AttentionOptions options;
  options.mask = disentangled_bias(c2p, p2c, buckets, present);
  return attention.attend(queries, keys, split(attention.v(x), attention.heads), options, pass);
}

}  // namespace heed
