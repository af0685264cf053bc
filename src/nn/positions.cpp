// Positions: sinusoidal and learned tables, and ALiBi's slopes.
#include "heed/nn/positions.h"

#include <bit>
#include <cmath>

#include "heed/ops/elementwise.h"
#include "heed/ops/shape.h"

namespace heed {

Tensor Positions::embed(const Tensor& x, std::int64_t) const { return x; }
Tensor Positions::rotate(const Tensor& x, std::int64_t) const { return x; }
void Positions::bias(AttentionOptions&, std::int64_t, std::int64_t) const {}

Tensor sinusoidal_table(std::int64_t count, std::int64_t width, SinusoidLayout layout) {
  Tensor table = Tensor::empty({count, width});
  float* row = table.data<float>();
  const std::int64_t sines = (width + 1) / 2;
  for (std::int64_t p = 0; p < count; ++p, row += width) {
    for (std::int64_t i = 0; i < sines; ++i) {
      const double angle = static_cast<double>(p) /
                           std::pow(10000.0, 2.0 * static_cast<double>(i) / static_cast<double>(width));
      const std::int64_t sine = layout == SinusoidLayout::halves ? i : 2 * i;
      const std::int64_t cosine = layout == SinusoidLayout::halves ? sines + i : 2 * i + 1;
      row[sine] = static_cast<float>(std::sin(angle));
      if (cosine < width) row[cosine] = static_cast<float>(std::cos(angle));
    }
  }
  return table;
}

Tensor AdditivePositions::embed(const Tensor& x, std::int64_t first) const {
  const std::int64_t count = x.size(1), available = table_.size(0) - offset_;
  if (first + count > available) {
    throw Error("positions: expected at most " + std::to_string(available) + " tokens, got " +
                std::to_string(first + count) + " (cut the text, or use a model with more positions)");
  }
  const Tensor rows = slice(table_, 0, offset_ + first, offset_ + first + count);
  return x + (rows.dtype() == x.dtype() ? rows : rows.to(x.dtype()));
}

std::vector<double> alibi_slopes(std::int64_t heads) {
  std::vector<double> slopes;
  const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  for (std::int64_t h = 1; h <= power; ++h) {
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(h) / static_cast<double>(power)));
  }
  for (std::int64_t h = 1; static_cast<std::int64_t>(slopes.size()) < heads; h += 2) {
    slopes.push_back(std::exp2(-4.0 * static_cast<double>(h) / static_cast<double>(power)));
  }
  return slopes;
}

AlibiPositions::AlibiPositions(std::int64_t heads) {
  if (heads < 1) throw Error("ALiBi: expected at least 1 head, got " + std::to_string(heads));
  slopes_ = Tensor::from(alibi_slopes(heads), {heads}).to(DType::f32);
}

void AlibiPositions::bias(AttentionOptions& options, std::int64_t, std::int64_t) const {
  options.alibi_slopes = slopes_;
}

}  // namespace heed
