// Searches for the scales, and folds them into maps and norms.
#include "models/quantize.h"

#include <algorithm>
#include <cmath>

#include "heed/ops/elementwise.h"
#include "ops/quantization.h"
#include "tensor/quantized_matrix.h"

namespace heed {
namespace {

constexpr int kAlphas = 20;

// w [n, k] with column c times scales[row_of(c)].
Tensor scaled_columns(const Tensor& w, const ScaledGroup& group, const std::vector<float>& scales) {
  std::vector<float> numbers = w.to_vector<float>();
  const std::int64_t k = w.size(1);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] *= scales[static_cast<std::size_t>(group.row_of(static_cast<std::int64_t>(i) % k))];
  return Tensor::from(numbers, w.shape());
}

// Divides numbers in place, so that whoever has the tensor sees it: number first + i by scales[i].
void divide(const Tensor& tensor, std::int64_t first, double offset, const std::vector<float>& scales) {
  Tensor shared = tensor;
  auto* numbers = shared.data<float>() + first;
  for (std::size_t i = 0; i < scales.size(); ++i)
    numbers[i] = static_cast<float>((static_cast<double>(numbers[i]) + offset) / scales[i] - offset);
}

std::vector<float> scales_of(const std::vector<double>& means, double alpha) {
  std::vector<float> scales;
  double least = INFINITY, most = 0;
  for (const double mean : means) {
    const double scale = std::max(std::pow(mean, alpha), 1e-4);
    scales.push_back(static_cast<float>(scale));
    least = std::min(least, scale);
    most = std::max(most, scale);
  }
  const auto middle = static_cast<float>(std::sqrt(least * most));
  for (float& scale : scales) scale /= middle;
  return scales;
}

}  // namespace

void fold_scales(Weights& weights, const ScaledGroup& group, const std::vector<float>& scales) {
  for (const std::string& map : group.maps)
    weights.replace(map, scaled_columns(weights[map].dequantized(), group, scales));
  const Weight& source = weights[group.source];
  if (source.shape().rank() == 1) return divide(source.tensor(), 0, group.norm_offset, scales);
  std::vector<float> numbers = source.dequantized().to_vector<float>();
  const std::int64_t k = source.size(1);
  for (std::size_t row = 0; row < scales.size(); ++row) {
    float* from = numbers.data() + (group.first_row + static_cast<std::int64_t>(row)) * k;
    for (std::int64_t i = 0; i < k; ++i) from[i] /= scales[row];
  }
  weights.replace(group.source, Tensor::from(numbers, source.shape()));
  const std::string bias = group.source.substr(0, group.source.rfind(".weight")) + ".bias";
  if (weights.contains(bias)) divide(weights[bias].tensor(), group.first_row, 0, scales);
}

std::vector<float> best_scales(const Weights& weights, const ScaledGroup& group, const Tensor& gram,
                               const std::vector<double>& sizes, const CodeOptions& to) {
  const auto k = std::ssize(sizes);
  std::vector<double> means(static_cast<std::size_t>(k / group.repeats));
  for (std::int64_t c = 0; c < k; ++c)
    means[static_cast<std::size_t>(group.row_of(c))] += sizes[static_cast<std::size_t>(c)];
  const bool seen = std::any_of(means.begin(), means.end(), [](double mean) { return mean > 0; });
  std::vector<float> best(means.size(), 1);
  double least = INFINITY;
  for (int step = 0; step < (seen ? kAlphas : 0); ++step) {
    const std::vector<float> scales = scales_of(means, static_cast<double>(step) / kAlphas);
    const Tensor products = scaled_gram(gram, group, scales);
    double loss = 0;
    for (const std::string& map : group.maps) {
      const Tensor w = scaled_columns(weights[map].dequantized(), group, scales);
      const Tensor made = tensor_of(nearest_codes(w, to), w.shape());
      loss += squared_size((w - made.clone()).contiguous(), products);
    }
    if (loss < least) {
      least = loss;
      best = scales;
    }
  }
  return best;
}

void add_sizes(const Tensor& x, std::vector<double>& sizes) {
  const std::vector<float> numbers = x.detach().to_vector<float>();
  for (std::size_t i = 0; i < numbers.size(); ++i)
    sizes[i % sizes.size()] += static_cast<double>(std::abs(numbers[i]));
}

Tensor scaled_gram(const Tensor& gram, const ScaledGroup& group, const std::vector<float>& scales) {
  std::vector<float> numbers = gram.to_vector<float>();
  const std::int64_t k = gram.size(0);
  const auto scale = [&](std::int64_t c) { return scales[static_cast<std::size_t>(group.row_of(c))]; };
  for (std::int64_t i = 0; i < k; ++i) {
    for (std::int64_t j = 0; j < k; ++j) numbers[static_cast<std::size_t>(i * k + j)] /= scale(i) * scale(j);
  }
  return Tensor::from(numbers, gram.shape());
}

}  // namespace heed
