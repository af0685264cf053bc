// Checks the operands of attention, and turns its options into those of the kernels.
#include "ops/attention_operands.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/ops/attention.h"
#include "heed/ops/elementwise.h"
#include "kernels/copy.h"

namespace heed {
namespace {

// The numbers of each key or value.
std::int64_t width_of(const Tensor& x) {
  return x.size(3) - (x.dtype() == DType::u8 ? kernels::kInt8RowScale : 0);
}

// Which of n heads or queries are wanted: all when none is named.
std::vector<std::int64_t> chosen(const char* what, const std::vector<std::int64_t>& wanted, std::int64_t n) {
  std::vector<std::int64_t> all(wanted);
  for (const std::int64_t i : wanted) {
    if (i < 0 || i >= n) {
      throw Error(std::string(kAttentionName) + ": expected " + what + " below " + std::to_string(n) +
                  ", got " + std::to_string(i));
    }
  }
  for (std::int64_t i = 0; wanted.empty() && i < n; ++i) all.push_back(i);
  return all;
}

// Tiles of queries rely on the order.
void check_key_starts(const AttentionSizes& n, const Tensor& starts) {
  if (!starts.defined()) return;
  const Shape shape{n.batch, n.queries};
  if (starts.shape() != shape || starts.dtype() != DType::i64) {
    throw Error(std::string(kAttentionName) + ": expected key starts i64" + shape.str() + ", got " +
                starts.str());
  }
  const std::vector<std::int64_t> values = starts.to_vector<std::int64_t>();
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (i % static_cast<std::size_t>(n.queries) == 0 || values[i] >= values[i - 1]) continue;
    throw Error(std::string(kAttentionName) + ": expected key starts that do not decrease, got " +
                std::to_string(values[i]) + " after " + std::to_string(values[i - 1]));
  }
}

}  // namespace

AttentionSizes attention_sizes(const Tensor& q, const Tensor& k, const Tensor& v, const char* name) {
  const bool fits = q.rank() == 4 && k.rank() == 4 && v.rank() == 4 && q.size(0) == k.size(0) &&
                    k.size(0) == v.size(0) && k.size(1) == v.size(1) && k.size(2) == v.size(2) &&
                    q.size(3) == width_of(k) && width_of(v) >= 0 && k.size(1) > 0 &&
                    q.size(1) % k.size(1) == 0 && is_floating(q.dtype()) &&
                    (is_floating(k.dtype()) || k.dtype() == DType::u8) && k.dtype() == v.dtype() &&
                    (q.dtype() == DType::f64) == (k.dtype() == DType::f64);
  if (!fits) {
    throw Error(std::string(name) +
                ": expected q [B, H, T, d], k [B, K, S, d] and v [B, K, S, e] of floating types (k and v " +
                "of one, f64 only together; or both as int8 rows) with K dividing H, got " + q.str() + ", " +
                k.str() + " and " + v.str());
  }
  return {q.size(0), q.size(1), k.size(1), q.size(2), k.size(2), q.size(3), width_of(v)};
}

DType attention_compute_type(const Tensor& q) { return q.dtype() == DType::f64 ? DType::f64 : DType::f32; }

void check_attention_options(const AttentionSizes& n, DType compute, const AttentionOptions& o) {
  const std::string where = kAttentionName, type(name_of(compute));
  if (o.mask.defined()) {
    const Shape full{n.batch, n.heads, n.queries, n.keys};
    if (o.mask.rank() > 4 || broadcast_shapes(kAttentionName, o.mask.shape(), full) != full) {
      throw Error(where + ": expected a mask that broadcasts to " + full.str() + ", got " + o.mask.str());
    }
    if (o.mask.dtype() != DType::boolean && o.mask.dtype() != compute) {
      throw Error(where + ": expected a mask of bool or " + type + ", got " + o.mask.str());
    }
  }
  if (o.key_mask.defined() &&
      (o.key_mask.shape() != Shape{n.batch, n.keys} || o.key_mask.dtype() != DType::boolean)) {
    throw Error(where + ": expected a key mask bool" + Shape{n.batch, n.keys}.str() + ", got " +
                o.key_mask.str());
  }
  if (o.alibi_slopes.defined() &&
      (o.alibi_slopes.shape() != Shape{n.heads} || o.alibi_slopes.dtype() != compute)) {
    throw Error(where + ": expected a slope of " + type + " for each of " + std::to_string(n.heads) +
                " heads, got " + o.alibi_slopes.str());
  }
  for (const auto& [name, per_row] :
       {std::pair{"key lengths", o.key_lengths}, {"query offsets", o.query_offsets}}) {
    if (per_row.defined() && (per_row.shape() != Shape{n.batch} || per_row.dtype() != DType::i64)) {
      throw Error(where + ": expected " + name + " i64" + Shape{n.batch}.str() + ", got " + per_row.str());
    }
  }
  if (o.query_offsets.defined()) {
    constexpr std::int64_t kFar = std::int64_t{1} << 40;  // keeps sums of positions far from overflow
    for (const std::int64_t offset : o.query_offsets.to_vector<std::int64_t>()) {
      if (offset < -kFar || offset > kFar) {
        throw Error(where + ": expected query offsets of at most 2^40, got " + std::to_string(offset));
      }
    }
  }
  check_key_starts(n, o.key_starts);
  const Shape relative{n.heads, std::max<std::int64_t>(n.queries + n.keys - 1, 0)};
  if (o.relative_bias.defined() &&
      (o.relative_bias.shape() != relative || o.relative_bias.dtype() != compute)) {
    throw Error(where + ": expected a relative bias " + type + relative.str() + ", got " +
                o.relative_bias.str());
  }
  if (!(o.dropout >= 0.0 && o.dropout < 1.0)) {
    throw Error(where + ": expected dropout in [0, 1), got " + std::to_string(o.dropout));
  }
  if (!(o.score_cap >= 0.0 && std::isfinite(o.score_cap))) {
    throw Error(where + ": expected a score cap of at least 0, got " + std::to_string(o.score_cap));
  }
  if (o.window < 0) throw Error(where + ": expected a window of at least 0, got " + std::to_string(o.window));
  refuse_gradient("ALiBi slopes", {o.alibi_slopes});
}

void check_key_masks(const char* name, const AttentionSizes& n, const Tensor& key_mask,
                     const Tensor& key_lengths) {
  const std::string where = std::string(name) + ": expected ";
  const Shape mask{n.batch, n.keys}, lengths{n.batch};
  if (key_mask.defined() && (key_mask.shape() != mask || key_mask.dtype() != DType::boolean))
    throw Error(where + "a key mask bool" + mask.str() + ", got " + key_mask.str());
  if (key_lengths.defined() && (key_lengths.shape() != lengths || key_lengths.dtype() != DType::i64))
    throw Error(where + "key lengths i64" + lengths.str() + ", got " + key_lengths.str());
}

Tensor visible_keys(const AttentionSizes& n, const Tensor& key_mask, const Tensor& key_lengths) {
  if (!key_lengths.defined()) return key_mask.defined() ? key_mask.contiguous() : Tensor();
  Tensor visible =
      key_mask.defined() ? key_mask.contiguous().clone() : Tensor::full({n.batch, n.keys}, 1, DType::boolean);
  const std::vector<std::int64_t> lengths = key_lengths.to_vector<std::int64_t>();
  for (std::int64_t b = 0; b < n.batch; ++b) {
    bool* row = visible.data<bool>() + b * n.keys;
    const std::int64_t length = std::clamp<std::int64_t>(lengths[static_cast<std::size_t>(b)], 0, n.keys);
    std::fill(row + length, row + n.keys, false);
  }
  return visible;
}

Tensor widened(const Tensor& stored, DType compute) {
  return (stored.dtype() == DType::u8 ? from_int8_rows(stored) : stored).to(compute);
}

double attention_scale(const AttentionOptions& options, const AttentionSizes& n) {
  return options.scale.value_or(1.0 / std::sqrt(static_cast<double>(std::max<std::int64_t>(n.head_dim, 1))));
}

WantedWeights::WantedWeights(const AttentionWeights& weights, const AttentionSizes& n)
    : heads(chosen("heads", weights.heads, n.heads)),
      queries(chosen("queries", weights.queries, n.queries)),
      flags(std::make_unique<bool[]>(static_cast<std::size_t>(n.heads))) {
  if (!std::is_sorted(heads.begin(), heads.end(), std::less_equal<>())) {
    throw Error(std::string(kAttentionName) + ": expected the heads of weights in growing order (sort them)");
  }
  for (const std::int64_t h : heads) flags[static_cast<std::size_t>(h)] = true;
}
}  // namespace heed
