// Position ids, sinusoidal and learned tables, and score biases.
#include "heed/nn/positions.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

#include "heed/ops/elementwise.h"
#include "heed/ops/embedding.h"
#include "heed/ops/shape.h"

namespace heed {

PositionIds::PositionIds(Tensor of_rows) : ids(std::move(of_rows)) {
  if (ids.dtype() != DType::i64 || (ids.rank() != 1 && ids.rank() != 2)) {
    throw Error("position ids: expected i64[B] or i64[B, T], got " + ids.str());
  }
  ids = ids.contiguous();
}

Tensor PositionIds::of_tokens(std::int64_t batch, std::int64_t time) const {
  if (ids.defined() && ids.shape() == Shape{batch, time}) return ids;
  if (ids.defined() && ids.shape() != Shape{batch}) {
    throw Error("position ids: expected those of " + std::to_string(batch) + " rows of " +
                std::to_string(time) + " tokens, got " + ids.str());
  }
  Tensor positions = Tensor::empty({batch, time}, DType::i64);
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t start = ids.defined() ? ids.data<std::int64_t>()[b] : first;
    for (std::int64_t t = 0; t < time; ++t) positions.data<std::int64_t>()[b * time + t] = start + t;
  }
  return positions;
}

Tensor unpadded_positions(const Tensor& present, std::int64_t absent) {
  if (present.dtype() != DType::boolean || present.rank() != 2) {
    throw Error("unpadded positions: expected bool[B, T], got " + present.str());
  }
  const Tensor dense = present.contiguous();
  Tensor positions = Tensor::empty(present.shape(), DType::i64);
  const std::int64_t time = present.size(1);
  for (std::int64_t b = 0; b < present.size(0); ++b) {
    std::int64_t count = 0;
    for (std::int64_t i = b * time; i < (b + 1) * time; ++i) {
      positions.data<std::int64_t>()[i] = dense.data<bool>()[i] ? count++ : absent;
    }
  }
  return positions;
}

Tensor sinusoidal_table(std::int64_t count, std::int64_t d_model, SinusoidLayout layout) {
  Tensor table = Tensor::empty({count, d_model});
  float* row = table.data<float>();
  const std::int64_t sines = (d_model + 1) / 2;
  for (std::int64_t p = 0; p < count; ++p, row += d_model) {
    for (std::int64_t i = 0; i < sines; ++i) {
      const double angle = static_cast<double>(p) /
                           std::pow(10000.0, 2.0 * static_cast<double>(i) / static_cast<double>(d_model));
      const std::int64_t sine = layout == SinusoidLayout::halves ? i : 2 * i;
      const std::int64_t cosine = layout == SinusoidLayout::halves ? sines + i : 2 * i + 1;
      row[sine] = static_cast<float>(std::sin(angle));
      if (cosine < d_model) row[cosine] = static_cast<float>(std::cos(angle));
    }
  }
  return table;
}

// In float, step by step as transformers does.
Tensor sinusoidal_table_to_10000(std::int64_t first, std::int64_t count, std::int64_t d_model) {
  const Tensor table = Tensor::zeros({1 + count, d_model});
  float* const row = table.data<float>() + d_model;  // after the row of zeros
  const std::int64_t half = d_model / 2;
  const auto step =
      static_cast<float>(-std::log(10000.0) / static_cast<double>(std::max<std::int64_t>(half - 1, 1)));
  for (std::int64_t i = 0; i < half; ++i) {
    const float frequency = std::exp(static_cast<float>(i) * step);
    for (std::int64_t r = 0; r < count; ++r) {
      const float angle = static_cast<float>(first + r) * frequency;
      row[r * d_model + i] = std::sin(angle);
      row[r * d_model + half + i] = std::cos(angle);
    }
  }
  return table;
}

Tensor AdditivePositions::rows(std::int64_t batch, std::int64_t time, const PositionIds& positions) const {
  const Tensor rows = positions.of_tokens(batch, time).clone();
  const std::int64_t available = table_.size(0) - offset_, count = rows.numel();
  std::int64_t* row = rows.data<std::int64_t>();
  const auto [least, most] = std::minmax_element(row, row + count);
  const std::int64_t lowest = count > 0 ? *least : 0, end = count > 0 ? *most + 1 : 0;
  if (lowest < -offset_)
    throw Error("positions: expected position ids of at least 0, got " + std::to_string(lowest));
  if (end > available) {
    throw Error("positions: expected at most " + std::to_string(available) + " tokens, got " +
                std::to_string(end) + " (cut the text, or use a model with more positions)");
  }
  for (std::int64_t i = 0; i < count; ++i) row[i] += offset_;
  return rows;
}

Tensor AdditivePositions::embed(const Tensor& x, const PositionIds& positions) const {
  const bool shared = !positions.ids.defined();  // by all rows of the batch
  const Tensor rows = this->rows(shared ? 1 : x.size(0), x.size(1), positions);
  table_.raw_data();  // a table of another dtype in the file is converted once, not in every pass
  const Tensor added = embedding(table_, rows, 1.0, padding_row_);
  return x + (added.dtype() == x.dtype() ? added : added.to(x.dtype()));
}

std::vector<double> alibi_slopes(std::int64_t heads, double flattest) {
  if (heads < 1) throw Error("ALiBi: expected at least 1 head, got " + std::to_string(heads));
  const auto count = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(heads)));
  const auto slope = [&](std::int64_t i) {
    return std::exp2(-flattest * static_cast<double>(i) / static_cast<double>(count));
  };
  std::vector<double> slopes;
  // Every second slope of `count` heads is a slope of half as many.
  for (std::int64_t i = count == heads ? 1 : 2; i <= count; i += count == heads ? 1 : 2) {
    slopes.push_back(slope(i));
  }
  for (std::int64_t i = 1; static_cast<std::int64_t>(slopes.size()) < heads; i += 2) {
    slopes.push_back(slope(i));
  }
  return slopes;
}

AlibiPositions::AlibiPositions(const std::vector<double>& slopes, bool skips_padding)
    : slopes_(Tensor::from(slopes, {static_cast<std::int64_t>(slopes.size())}).to(DType::f32)),
      skips_padding_(skips_padding) {}

namespace {

// Whether a row has padding between two tokens.
bool has_holes(const Tensor& present) {
  const bool* row = present.data<bool>();
  for (std::int64_t b = 0; b < present.size(0); ++b, row += present.size(1)) {
    const bool *end = row + present.size(1), *gap = std::find(std::find(row, end, true), end, false);
    if (std::find(gap, end, true) != end) return true;
  }
  return false;
}

}  // namespace

void AlibiPositions::add_to(AttentionOptions& options, const Tensor& queries, const Tensor&) const {
  if (skips_padding_ && options.key_mask.defined() && has_holes(options.key_mask.contiguous())) {
    // Softmax is shift-invariant, so the key's position replaces the distance.
    const Tensor positions = unpadded_positions(options.key_mask).to(DType::f32);  // [B, S]
    const std::int64_t batch = positions.size(0), keys = positions.size(1), heads = slopes_.size(0);
    options.mask =
        (reshape(positions, {batch, 1, 1, keys}) * reshape(slopes_, {1, heads, 1, 1})).to(queries.dtype());
    return;
  }
  options.alibi_slopes = slopes_.to(queries.dtype());
}

std::int64_t RelativeBuckets::of(std::int64_t offset) const {
  const std::int64_t rows = bidirectional ? count / 2 : count, near = rows / 2;
  const std::int64_t from = bidirectional && offset > 0 ? rows : 0;
  const std::int64_t distance = bidirectional ? std::abs(offset) : std::max<std::int64_t>(-offset, 0);
  if (distance < near) return from + distance;
  // In float, as the checkpoints were trained: a distance on the border of two rows must fall the same way.
  const auto span =
      static_cast<float>(std::log(static_cast<double>(max_distance) / static_cast<double>(near)));
  const float along = std::log(static_cast<float>(distance) / static_cast<float>(near)) / span *
                      static_cast<float>(rows - near);
  return from + std::min(near + static_cast<std::int64_t>(along), rows - 1);
}

RelativePositions::RelativePositions(Tensor table, const RelativeBuckets& buckets)
    : table_(std::move(table)), buckets_(buckets) {
  const std::int64_t near = buckets.count / (buckets.bidirectional ? 4 : 2);
  if (table_.rank() != 2 || table_.size(0) < buckets.count || near < 1 || buckets.max_distance <= near) {
    throw Error("relative positions: expected a table [buckets, H] and a largest distance above " +
                std::to_string(near) + ", got " + table_.str() + " for " + std::to_string(buckets.count) +
                " buckets and " + std::to_string(buckets.max_distance));
  }
}

void RelativePositions::add_to(AttentionOptions& options, const Tensor& queries, const Tensor& keys) const {
  const std::int64_t last = keys.size(2) - 1, count = queries.size(2) + last;
  const Tensor rows = Tensor::empty({count}, DType::i64);
  for (std::int64_t i = 0; i < count; ++i) rows.data<std::int64_t>()[i] = buckets_.of(i - last);
  const Tensor each = transpose(embedding(table_, rows), 0, 1);  // [H, T + S - 1]
  options.relative_bias = each.dtype() == queries.dtype() ? each : each.to(queries.dtype());
}

}  // namespace heed
