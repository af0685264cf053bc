// The position terms of disentangled attention against their definition, and their gradients.
#include "heed/ops/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "heed/error.h"
#include "reference/error.h"
#include "reference/gradient_check.h"

namespace heed {
namespace {

using reference::check_gradients;
using reference::random_tensor;

constexpr std::int64_t kBatch = 2, kHeads = 2, kTime = 5, kRows = 4;

// Distances -4 .. 4 in four rows.
Tensor buckets() {
  return Tensor::from(std::vector<std::int64_t>{0, 0, 1, 1, 2, 2, 3, 3, 3}, {2 * kTime - 1});
}
Tensor products(std::uint64_t seed) { return random_tensor({kBatch, kHeads, kTime, kRows}, seed); }
// The second sequence has three tokens.
Tensor present() {
  Tensor mask = Tensor::full({kBatch, kTime}, 1.0, DType::boolean);
  mask.data<bool>()[kTime + 3] = mask.data<bool>()[kTime + 4] = false;
  return mask;
}

TEST(DisentangledBias, AddsBothTermsByRelativePosition) {
  const Tensor c2p = products(1), p2c = products(2), index = buckets(), mask = present();
  const std::vector<double> own = c2p.to_vector<double>(), others = p2c.to_vector<double>();
  const auto check = [&](const Tensor& y, bool with_own, bool with_others, bool masked) {
    const std::vector<double> got = y.to_vector<double>();
    std::size_t at = 0;
    for (std::int64_t head = 0; head < kBatch * kHeads; ++head) {
      for (std::int64_t t = 0; t < kTime; ++t) {
        for (std::int64_t s = 0; s < kTime; ++s, ++at) {
          const std::int64_t i = index.data<std::int64_t>()[t - s + kTime - 1];
          const bool* row = mask.data<bool>() + head / kHeads * kTime;
          double want = 0;
          if (with_own) want += own[static_cast<std::size_t>((head * kTime + t) * kRows + i)];
          if (with_others) want += others[static_cast<std::size_t>((head * kTime + s) * kRows + i)];
          if (masked && !row[s]) want = -INFINITY;
          if (masked && !row[t]) want = 0;
          EXPECT_EQ(got[at], want) << head << " " << t << " " << s;
        }
      }
    }
  };
  check(disentangled_bias(c2p, p2c, index), true, true, false);
  check(disentangled_bias(c2p, {}, index), true, false, false);
  check(disentangled_bias({}, p2c, index), false, true, false);
  check(disentangled_bias(c2p, p2c, index, mask), true, true, true);
}

TEST(DisentangledBias, GradientsEqualCentralDifferences) {
  check_gradients([](const auto& in) { return disentangled_bias(in[0], in[1], buckets()); },
                  {products(1), products(2)});
  check_gradients([](const auto& in) { return disentangled_bias(in[0], {}, buckets()); }, {products(1)});
  check_gradients([](const auto& in) { return disentangled_bias({}, in[0], buckets()); }, {products(2)});
}

// Nothing flows back from or to what is padding.
TEST(DisentangledBias, PaddingHasNoGradient) {
  const Tensor c2p = products(1).set_requires_grad(), p2c = products(2).set_requires_grad();
  Tensor bias = disentangled_bias(c2p, p2c, buckets(), present());
  bias.backward(Tensor::full(bias.shape(), 1.0, DType::f64));
  for (const Tensor& x : {c2p, p2c}) {
    const std::vector<double> gradient = x.grad().to_vector<double>();
    double sum = 0;
    for (std::int64_t i = 0; i < kBatch * kHeads * kTime * kRows; ++i) {
      const bool padding = i / (kHeads * kTime * kRows) == 1 && i / kRows % kTime >= 3;
      if (padding) {
        EXPECT_EQ(gradient[static_cast<std::size_t>(i)], 0);
      }
      sum += gradient[static_cast<std::size_t>(i)];
    }
    EXPECT_EQ(sum, kHeads * (5 * 5 + 3 * 3));
  }
}

TEST(DisentangledBias, RefusesWhatDoesNotFit) {
  const Tensor c2p = products(1);
  EXPECT_ERROR(disentangled_bias({}, {}, buckets()), "got no products");
  EXPECT_ERROR(disentangled_bias(c2p, random_tensor({2, 2, 5, 3}, 1), buckets()),
               "got f64[2, 2, 5, 4], f64[2, 2, 5, 3], i64[9]");
  EXPECT_ERROR(disentangled_bias(c2p, {}, Tensor::zeros({4}, DType::i64)),
               "got f64[2, 2, 5, 4], f64[2, 2, 5, 4], i64[4]");
  EXPECT_ERROR(disentangled_bias(c2p, {}, Tensor::full({9}, kRows, DType::i64)),
               "expected buckets in [0, 4), got 4");
  EXPECT_ERROR(disentangled_bias(c2p, {}, buckets(), Tensor::full({2, 4}, 1.0, DType::boolean)),
               "i64[9] and bool[2, 4]");
}

}  // namespace
}  // namespace heed
