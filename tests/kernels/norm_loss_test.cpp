// Normalization, cross-entropy, embedding and optimizers against their formulas in double.
#include "kernels/embedding.h"
#include "kernels/kernel_case.h"
#include "kernels/loss.h"
#include "kernels/norm.h"
#include "kernels/optimizer.h"

namespace heed {
namespace {

struct Params {
  std::int64_t rows, d;
  bool centered;
  double eps;
};

/// y of x, weight and bias, laid end to end in one vector, so that one gradient check covers all three.
std::vector<double> norm_oracle(const Params& p, const std::vector<double>& all) {
  const double* x = all.data();
  const double* weight = x + p.rows * p.d;
  const double* bias = weight + p.d;
  std::vector<double> y;
  for (std::int64_t r = 0; r < p.rows; ++r) {
    double mean = 0, square = 0;
    for (std::int64_t j = 0; j < p.d && p.centered; ++j) mean += x[r * p.d + j] / static_cast<double>(p.d);
    for (std::int64_t j = 0; j < p.d; ++j)
      square += std::pow(x[r * p.d + j] - mean, 2) / static_cast<double>(p.d);
    for (std::int64_t j = 0; j < p.d; ++j) {
      y.push_back((x[r * p.d + j] - mean) / std::sqrt(square + p.eps) * weight[j] +
                  (p.centered ? bias[j] : 0));
    }
  }
  return y;
}

template <class T>
struct NormRun {
  std::vector<T> y, sum, mean, rstd, dx, dweight, dbias;
};

template <class T>
NormRun<T> run_norm(const Params& p, const std::vector<T>& all, const T* residual, const std::vector<T>& dy) {
  const std::size_t n = static_cast<std::size_t>(p.rows * p.d), d = static_cast<std::size_t>(p.d);
  NormRun<T> r{
      std::vector<T>(n), std::vector<T>(n), std::vector<T>(static_cast<std::size_t>(p.rows)), {}, {}, {}, {}};
  r.rstd = r.mean;
  r.dx.resize(n);
  r.dweight.resize(d);
  r.dbias.resize(d);
  const T* x = all.data();
  const T* weight = x + n;
  T* const mean = p.centered ? r.mean.data() : nullptr;
  const kernels::Norm<T> forward{.rows = p.rows,
                                 .d = p.d,
                                 .eps = p.eps,
                                 .x = x,
                                 .residual = residual,
                                 .weight = weight,
                                 .bias = p.centered ? weight + d : nullptr,
                                 .y = r.y.data(),
                                 .sum = residual ? r.sum.data() : nullptr,
                                 .mean = mean,
                                 .rstd = r.rstd.data()};
  if (p.centered) {
    kernels::layer_norm(forward);
  } else {
    kernels::rms_norm(forward);
  }
  kernels::norm_backward<T>({.rows = p.rows,
                             .d = p.d,
                             .x = residual ? r.sum.data() : x,
                             .weight = weight,
                             .mean = mean,
                             .rstd = r.rstd.data(),
                             .dy = dy.data(),
                             .dx = r.dx.data(),
                             .dweight = r.dweight.data(),
                             .dbias = p.centered ? r.dbias.data() : nullptr});
  return r;
}

TYPED_TEST(Kernel, Norms) {
  using T = TypeParam;
  on_every_target([] {
    for (const bool centered : {true, false}) {
      for (const std::int64_t d : kSizes) {
        const Params p{5, d, centered, 1e-5};
        const auto all = numbers<T>(5 * d + 2 * d, 20), dy = numbers<T>(5 * d, 21);
        const auto plain = run_norm<T>(p, all, nullptr, dy);
        reference::expect_near(plain.y, norm_oracle(p, as_double(all)), d, 4);
        // With a residual: the same as normalizing the sum.
        const auto residual = numbers<T>(5 * d, 22);
        auto summed = all;
        for (std::size_t i = 0; i < residual.size(); ++i) summed[i] += residual[i];
        const auto fused = run_norm<T>(p, all, residual.data(), dy);
        const auto separate = run_norm<T>(p, summed, nullptr, dy);
        EXPECT_EQ(fused.y, separate.y);
        EXPECT_EQ(fused.dx, separate.dx);
        EXPECT_TRUE(std::equal(fused.sum.begin(), fused.sum.end(), summed.begin()));
      }
    }
  });
}

TEST(KernelGradient, Norms) {
  on_every_target([] {
    for (const bool centered : {true, false}) {
      for (const std::int64_t d : {2, 7, 33}) {
        const Params p{3, d, centered, 1e-5};
        const auto all = numbers<double>(3 * d + 2 * d, 23), dy = numbers<double>(3 * d, 24);
        const auto run = run_norm<double>(p, all, nullptr, dy);
        const auto want = reference::numeric_gradient(
            [&](const std::vector<double>& v) { return norm_oracle(p, v); }, all, dy, 1e-6);
        std::vector<double> got = run.dx;
        got.insert(got.end(), run.dweight.begin(), run.dweight.end());
        got.insert(got.end(), run.dbias.begin(), run.dbias.end());
        for (std::size_t i = 0; i < got.size(); ++i)
          EXPECT_NEAR(got[i], want[i], 2e-6 * (1 + std::abs(want[i])));
      }
    }
  });
}

TEST(KernelGradient, NormsWithoutWeightsAndWithASecondPath) {
  const std::int64_t rows = 3, d = 9;
  const Params p{rows, d, true, 1e-5};
  auto all = numbers<double>(rows * d + 2 * d, 25);
  for (std::int64_t j = 0; j < d; ++j) all[static_cast<std::size_t>(rows * d + j)] = 1;
  const auto dy = numbers<double>(rows * d, 26), other = numbers<double>(rows * d, 27);
  const auto with_ones = run_norm<double>(p, all, nullptr, dy);
  std::vector<double> dx = dy;
  kernels::NormBackward<double> b;
  b.rows = rows, b.d = d, b.x = all.data(), b.mean = with_ones.mean.data(), b.rstd = with_ones.rstd.data();
  b.dy = dx.data(), b.dsum = other.data(), b.dx = dx.data();
  kernels::norm_backward(b);
  for (std::size_t i = 0; i < dx.size(); ++i) EXPECT_NEAR(dx[i], with_ones.dx[i] + other[i], 1e-14);
}

TYPED_TEST(Kernel, LayerNormSurvivesALargeMean) {
  using T = TypeParam;
  const Params p{1, 64, true, 1e-5};
  auto all = numbers<T>(64 * 3, 28);
  for (std::size_t i = 0; i < 64; ++i) all[i] += 100;
  const auto run = run_norm<T>(p, all, nullptr, std::vector<T>(64, 1));
  reference::expect_near(run.y, norm_oracle(p, as_double(all)), 64, 20);
}

TYPED_TEST(Kernel, NormGradientsDoNotDependOnThreads) {
  using T = TypeParam;
  const Params p{500, 96, true, 1e-5};
  const auto all = numbers<T>(500 * 96 + 192, 29), dy = numbers<T>(500 * 96, 30);
  expect_same_for_all_threads([&] {
    const auto run = run_norm<T>(p, all, nullptr, dy);
    auto result = run.dx;
    result.insert(result.end(), run.dweight.begin(), run.dweight.end());
    result.insert(result.end(), run.dbias.begin(), run.dbias.end());
    return result;
  });
}

std::vector<double> loss_oracle(const std::vector<double>& x, const std::vector<std::int64_t>& targets,
                                const kernels::CrossEntropyOptions& o) {
  const std::size_t vocab = x.size() / targets.size();
  std::vector<double> losses;
  for (std::size_t r = 0; r < targets.size(); ++r) {
    double sum = 0;
    for (std::size_t v = 0; v < vocab; ++v) sum += std::exp(x[r * vocab + v]);
    const double lse = std::log(sum);
    double smooth = 0;
    for (std::size_t v = 0; v < vocab; ++v) smooth += (lse - x[r * vocab + v]) / static_cast<double>(vocab);
    const bool ignored = targets[r] == o.ignore_index;
    const double nll = ignored ? 0 : lse - x[r * vocab + static_cast<std::size_t>(targets[r])];
    losses.push_back(ignored ? 0 : (1 - o.smoothing) * nll + o.smoothing * smooth + o.z_loss * lse * lse);
  }
  return losses;
}

template <class T>
void check_loss(std::int64_t vocab, const kernels::CrossEntropyOptions& options) {
  const std::vector<std::int64_t> targets = {0, vocab - 1, -100, vocab / 2};
  const auto x = numbers<T>(4 * vocab, 31, -5, 5);
  const auto dlosses = numbers<T>(4, 32);
  const auto want = loss_oracle(as_double(x), targets, options);
  std::vector<T> losses(4), lse(4), dx(x.size());
  const kernels::CrossEntropy<T> args{x.data(), targets.data(), 4, vocab, options};
  const auto sum = kernels::cross_entropy(args, losses.data(), lse.data());
  reference::expect_near(losses, want, vocab, 5);
  EXPECT_EQ(sum.count, 3);
  EXPECT_NEAR(sum.loss, want[0] + want[1] + want[3], 40 * reference::tolerance<T>(vocab));
  kernels::cross_entropy_backward(args, lse.data(), dlosses.data(), dx.data());
  const auto gradient = reference::numeric_gradient(
      [&](const std::vector<double>& v) { return loss_oracle(v, targets, options); }, as_double(x),
      as_double(dlosses));
  for (std::size_t i = 0; i < dx.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(dx[i]), gradient[i], 1e-8 + 10 * reference::tolerance<T>(vocab));
  }
  auto in_place = x;
  const kernels::CrossEntropy<T> of_copy{in_place.data(), targets.data(), 4, vocab, options};
  const auto again = kernels::cross_entropy_in_place(of_copy, in_place.data(), T(1));
  EXPECT_EQ(again.loss, sum.loss);
  EXPECT_EQ(again.count, 3);
  const std::vector<T> ones(4, 1);
  kernels::cross_entropy_backward(args, lse.data(), ones.data(), dx.data());
  reference::expect_near(in_place, as_double(dx));
}

TYPED_TEST(Kernel, CrossEntropy) {
  using T = TypeParam;
  on_every_target([] {
    for (const std::int64_t vocab : {1, 7, 16, 17, 101}) {
      check_loss<T>(vocab, {0, 0, -100});
      check_loss<T>(vocab, {0.1, 0, -100});
      check_loss<T>(vocab, {0.1, 0.01, -100});
    }
  });
}

TYPED_TEST(Kernel, CrossEntropyOfHugeLogitsIsFinite) {
  using T = TypeParam;
  const std::vector<T> x = {1000, 0, -1000};
  const std::int64_t target = 2;
  T loss = 0;
  const auto sum = kernels::cross_entropy<T>({x.data(), &target, 1, 3, {}}, &loss, nullptr);
  EXPECT_EQ(loss, T(2000));
  EXPECT_EQ(sum.loss, 2000);
}

TYPED_TEST(Kernel, Embedding) {
  using T = TypeParam;
  on_every_target([] {
    for (const std::int64_t d : kSizes) {
      const auto table = numbers<T>(6 * d, 33), dy = numbers<T>(5 * d, 34);
      const std::vector<std::int64_t> ids = {5, 0, 5, 2, 3};
      std::vector<T> y(static_cast<std::size_t>(5 * d)), dtable(table.size(), T(1));
      const kernels::RowLookup rows{ids.data(), 5, d};
      kernels::embedding(table.data(), rows, T(3), y.data());
      kernels::embedding_backward(dy.data(), rows, T(3), dtable.data(), 2);
      std::vector<double> want(table.size(), 1);
      for (std::size_t i = 0; i < 5; ++i) {
        for (std::size_t j = 0; j < static_cast<std::size_t>(d); ++j) {
          const std::size_t row = static_cast<std::size_t>(ids[i] * d) + j,
                            place = i * static_cast<std::size_t>(d) + j;
          ASSERT_EQ(y[place], 3 * table[row]);
          if (ids[i] != 2) want[row] += 3 * static_cast<double>(dy[place]);
        }
      }
      reference::expect_near(dtable, want);
    }
  });
}

TEST(Embedding, TellsTheFirstIdOutside) {
  const std::vector<std::int64_t> ids = {0, 4, -100, 5, -1};
  EXPECT_EQ(kernels::first_outside(ids.data(), 5, 5, 0), 2);
  EXPECT_EQ(kernels::first_outside(ids.data(), 5, 5, -100), 3);
  EXPECT_EQ(kernels::first_outside(ids.data(), 2, 5, 0), -1);
  EXPECT_EQ(kernels::first_outside(nullptr, 0, 5, 0), -1);
}

TYPED_TEST(Kernel, EmbeddingGradientDoesNotDependOnThreads) {
  using T = TypeParam;
  std::vector<std::int64_t> ids(400);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i * 7 % 13);
  const auto dy = numbers<T>(400 * 200, 35);
  expect_same_for_all_threads([&] {
    std::vector<T> dtable(13 * 200);
    kernels::embedding_backward(dy.data(), {ids.data(), 400, 200}, T(1), dtable.data());
    return dtable;
  });
}

TYPED_TEST(Kernel, AdamWFollowsItsFormula) {
  using T = TypeParam;
  on_every_target([] {
    for (const std::int64_t n : kSizes) {
      auto param = numbers<T>(n, 36);
      std::vector<T> m(param.size()), v(param.size());
      std::vector<double> p = as_double(param), dm(p.size()), dv(p.size());
      for (std::int64_t step = 1; step <= 4; ++step) {
        const auto grad = numbers<T>(n, 40 + static_cast<std::uint64_t>(step));
        kernels::AdamW o;
        o.lr = 0.01, o.grad_scale = 0.5, o.weight_decay = 0.1, o.step = step;
        kernels::adamw(param.data(), grad.data(), m.data(), v.data(), n, o);
        for (std::size_t i = 0; i < p.size(); ++i) {
          const double g = 0.5 * static_cast<double>(grad[i]);
          p[i] *= 1 - 0.01 * 0.1;
          dm[i] = 0.9 * dm[i] + 0.1 * g;
          dv[i] = 0.999 * dv[i] + 0.001 * g * g;
          const double m_hat = dm[i] / (1 - std::pow(0.9, step)), v_hat = dv[i] / (1 - std::pow(0.999, step));
          p[i] -= 0.01 * m_hat / (std::sqrt(v_hat) + 1e-8);
        }
      }
      reference::expect_near(param, p, 4);
      reference::expect_near(m, dm, 4);
      reference::expect_near(v, dv, 4);
    }
  });
}

}  // namespace
}  // namespace heed
