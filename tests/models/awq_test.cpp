// Scales that norms, values and gates exchange with the maps that read them.
#include "models/quantize.h"

#include <gtest/gtest.h>

#include <cmath>

#include "heed/autograd.h"
#include "heed/ops.h"
#include "models/weight_builder.h"
#include "ops/quantization.h"
#include "reference/gradient_check.h"

namespace heed {
namespace {

using reference::random_tensor;

double distance_of(const Tensor& a, const Tensor& b) {
  const auto left = a.to_vector<float>(), right = b.to_vector<float>();
  double most = 0;
  for (std::size_t i = 0; i < left.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(left[i]) - static_cast<double>(right[i])));
  return most;
}

std::vector<float> some_scales(std::size_t count) {
  std::vector<float> scales;
  for (std::size_t i = 0; i < count; ++i) scales.push_back(0.3F + static_cast<float>(i % 5));
  return scales;
}

// A norm with an offset, two maps that read it, and a map that reads rows of one of these, each of them for
// two heads of 4 numbers.
struct ScaledPart {
  ScaledPart()
      : builder({.config = Config::parse("{}", "config.json"), .generator = &generator}),
        norm(builder.rms_norm("norm", 32, 1e-6, 1)),
        first(builder.linear("first", 24, 32)),
        second(builder.linear("second", 8, 32)),
        after(builder.linear("after", 16, 16)) {
    files.emplace(builder.finish());
    for (const char* name : {"norm.weight", "first.bias", "second.bias"}) {
      Tensor vector = files->weights[name].tensor();
      for (std::int64_t i = 0; i < vector.numel(); ++i)
        vector.data<float>()[i] = 0.1F * static_cast<float>(i % 7);
    }
  }
  // Columns of `after` read the rows 8 to 15 of `first`, of two heads, twice.
  Tensor operator()(const Tensor& x) const {
    const NoGradients guard;
    const Tensor read = norm(x), values = slice(first(read), 1, 8, 16);
    const Tensor heads = reshape(values, {x.size(0), 2, 1, 4});
    const Tensor twice = reshape(concat({heads, heads}, 2), {x.size(0), 16});
    return concat({second(read), after(twice), slice(first(read), 1, 0, 8)}, 1);
  }

  Generator generator{4};
  WeightBuilder builder;
  Norm norm;
  Linear first, second, after;
  std::optional<ModelContents> files;
};

TEST(Awq, FoldingScalesChangesNoResult) {
  ScaledPart part;
  const Tensor x = random_tensor({5, 32}, 6).to(DType::f32), before = part(x);
  const ScaledGroup reads_norm{
      .maps = {"first.weight", "second.weight"}, .source = "norm.weight", .norm_offset = 1};
  const ScaledGroup reads_rows{
      .maps = {"after.weight"}, .source = "first.weight", .first_row = 8, .repeats = 2, .head_dim = 4};
  const std::vector<float> weight = part.files->weights["first.weight"].dequantized().to_vector<float>();
  fold_scales(part.files->weights, reads_norm, some_scales(32));
  fold_scales(part.files->weights, reads_rows, some_scales(8));
  EXPECT_NE(part.files->weights["first.weight"].dequantized().to_vector<float>(), weight);
  EXPECT_LE(distance_of(part(x), before), 1e-5);
}

TEST(Awq, ScalesAreThoseThatLoseLeast) {
  ScaledPart part;
  const ScaledGroup group{
      .maps = {"first.weight", "second.weight"}, .source = "norm.weight", .norm_offset = 1};
  Tensor x = random_tensor({60, 32}, 6).to(DType::f32), gram = Tensor::zeros({32, 32});
  for (std::int64_t i = 0; i < x.numel(); i += 32) x.data<float>()[i] *= 50;  // the first column
  add_gram(x, gram);
  std::vector<double> sizes(32);
  add_sizes(x, sizes);
  EXPECT_GT(sizes[0], 20 * sizes[1]);
  const CodeOptions to{4, 32, DType::f32};
  const auto loss = [&](const std::vector<float>& scales) {
    ScaledPart own;
    fold_scales(own.files->weights, group, scales);
    double sum = 0;
    for (const std::string& map : group.maps) {
      const Tensor w = own.files->weights[map].dequantized();
      Tensor v = Tensor::empty(w.shape());
      nearest_codes(w, to)->dequantize(v.data<float>());
      sum += squared_size((w - v).contiguous(), scaled_gram(gram, group, scales));
    }
    return sum;
  };
  const std::vector<float> scales = best_scales(part.files->weights, group, gram, sizes, to);
  EXPECT_GT(scales[0], 2 * scales[1]);
  EXPECT_LT(loss(scales), 0.85 * loss(std::vector<float>(32, 1)));
  // Inputs that were never seen.
  EXPECT_EQ(best_scales(part.files->weights, group, Tensor::zeros({32, 32}), std::vector<double>(32), to),
            std::vector<float>(32, 1));
}

}  // namespace
}  // namespace heed
