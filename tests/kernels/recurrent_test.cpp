// Steps of LSTM and GRU against their formulas in double, and their gradients against central differences.
#include "kernels/recurrent.h"

#include "kernels/kernel_case.h"

namespace heed {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

constexpr std::int64_t kRows = 3;

/// h' and c', each [rows, H], of sums [rows, 4H] and then c [rows, H].
std::vector<double> lstm_oracle(std::int64_t hidden, const std::vector<double>& all) {
  std::vector<double> states, cells;
  for (std::int64_t b = 0; b < kRows; ++b) {
    const double* sums = all.data() + b * 4 * hidden;
    for (std::int64_t i = 0; i < hidden; ++i) {
      const double c = all[static_cast<std::size_t>(kRows * 4 * hidden + b * hidden + i)];
      cells.push_back(sigmoid(sums[hidden + i]) * c + sigmoid(sums[i]) * std::tanh(sums[2 * hidden + i]));
      states.push_back(sigmoid(sums[3 * hidden + i]) * std::tanh(cells.back()));
    }
  }
  states.insert(states.end(), cells.begin(), cells.end());
  return states;
}

/// h' of the sums of inputs and of states, both [rows, 3H], and h [rows, H].
std::vector<double> gru_oracle(std::int64_t hidden, const std::vector<double>& all) {
  std::vector<double> states;
  for (std::int64_t b = 0; b < kRows; ++b) {
    const double *a = all.data() + b * 3 * hidden, *s = a + kRows * 3 * hidden;
    for (std::int64_t i = 0; i < hidden; ++i) {
      const double h = all[static_cast<std::size_t>(kRows * 6 * hidden + b * hidden + i)];
      const double reset = sigmoid(a[i] + s[i]), update = sigmoid(a[hidden + i] + s[hidden + i]);
      const double candidate = std::tanh(a[2 * hidden + i] + reset * s[2 * hidden + i]);
      states.push_back((1 - update) * candidate + update * h);
    }
  }
  return states;
}

template <class T>
std::vector<T> part(const std::vector<T>& all, std::int64_t from, std::int64_t count) {
  return std::vector<T>(all.begin() + from, all.begin() + from + count);
}

template <class T>
std::vector<T> joined(std::initializer_list<std::vector<T>> parts) {
  std::vector<T> all;
  for (const auto& each : parts) all.insert(all.end(), each.begin(), each.end());
  return all;
}

template <class T>
void check_lstm(std::int64_t hidden) {
  const std::int64_t n = kRows * hidden;
  const kernels::Recurrence shape{kRows, 1, hidden};
  const std::vector<T> all = numbers<T>(5 * n, 1), d = numbers<T>(2 * n, 2);
  Misaligned<T> gates(part(all, 0, 4 * n)), c(part(all, 4 * n, n)), cells{std::vector<T>(c.values().size())};
  std::vector<T> h(static_cast<std::size_t>(n)), y = h;
  kernels::lstm_step<T>(shape, {0, gates.data(), h.data(), c.data(), y.data(), cells.data()});
  EXPECT_EQ(h, y);
  EXPECT_EQ(c.values(), cells.values());
  reference::expect_near(joined({h, c.values()}), lstm_oracle(hidden, as_double(all)), 4);

  std::vector<T> dh = part(d, 0, n), dc = part(d, n, n);
  const std::vector<T> before = part(all, 4 * n, n), dy(static_cast<std::size_t>(n), T(0.5));
  kernels::lstm_step_backward<T>(
      shape, {0, gates.data(), cells.data(), before.data(), dy.data(), dh.data(), dc.data()});
  std::vector<double> upstream = as_double(d);
  for (std::int64_t i = 0; i < n; ++i) upstream[static_cast<std::size_t>(i)] += 0.5;
  const auto forward = [&](const std::vector<double>& x) { return lstm_oracle(hidden, x); };
  const auto want = reference::numeric_gradient(forward, as_double(all), upstream);
  const std::vector<T> got = joined({gates.values(), dc});
  ASSERT_EQ(got.size(), want.size());
  const double tolerance = sizeof(T) == 4 ? 2e-6 : 1e-8;
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], tolerance) << i;
  EXPECT_EQ(dh, std::vector<T>(static_cast<std::size_t>(n), T(0)));
}

template <class T>
void check_gru(std::int64_t hidden) {
  const std::int64_t n = kRows * hidden;
  const kernels::Recurrence shape{kRows, 1, hidden};
  const std::vector<T> all = numbers<T>(7 * n, 3), d = numbers<T>(n, 4);
  Misaligned<T> gates(part(all, 0, 3 * n)), sums(part(all, 3 * n, 3 * n));
  std::vector<T> h = part(all, 6 * n, n), y(h.size());
  kernels::gru_step<T>(shape, {0, gates.data(), sums.data(), 3 * hidden, h.data(), y.data(), true});
  EXPECT_EQ(h, y);
  reference::expect_near(h, gru_oracle(hidden, as_double(all)), 4);

  std::vector<T> dh = d;
  const std::vector<T> before = part(all, 6 * n, n);
  kernels::gru_step_backward<T>(shape,
                                {0, gates.data(), sums.data(), y.data(), before.data(), nullptr, dh.data()});
  const auto forward = [&](const std::vector<double>& x) { return gru_oracle(hidden, x); };
  const auto want = reference::numeric_gradient(forward, as_double(all), as_double(d));
  const std::vector<T> got = joined({gates.values(), sums.values(), dh});
  ASSERT_EQ(got.size(), want.size());
  const double tolerance = sizeof(T) == 4 ? 2e-6 : 1e-8;
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], tolerance) << i;
}

TYPED_TEST(Kernel, LstmStepEqualsItsFormula) {
  on_every_target([] {
    for (const std::int64_t hidden : kSizes) check_lstm<TypeParam>(hidden);
  });
}

TYPED_TEST(Kernel, GruStepEqualsItsFormula) {
  on_every_target([] {
    for (const std::int64_t hidden : kSizes) check_gru<TypeParam>(hidden);
  });
}

TEST(Recurrence, RowsBeginAtTheirOwnEndInReverse) {
  const std::vector<std::int64_t> lengths{4, 2, 0};
  kernels::Recurrence shape{3, 4, 1, lengths.data()};
  EXPECT_EQ(shape.before(1, 0), -1);
  EXPECT_EQ(shape.before(1, 1), 0);
  shape.reverse = true;
  EXPECT_EQ(shape.before(0, 3), -1);
  EXPECT_EQ(shape.before(1, 1), -1);
  EXPECT_EQ(shape.before(1, 0), 1);
  EXPECT_FALSE(shape.is_padding(1, 1));
  EXPECT_TRUE(shape.is_padding(1, 2));
  EXPECT_TRUE(shape.is_padding(2, 0));
}

// Padding leaves the state as it is, gives 0, and has no gradient.
TEST(Recurrence, PaddingMovesNothing) {
  const std::vector<std::int64_t> lengths{0, 1};
  const kernels::Recurrence shape{2, 1, 2, lengths.data()};
  std::vector<double> gates(16, 0.25), h{1, 2, 3, 4}, c{5, 6, 7, 8}, y(4, 9), cells(4, 0);
  kernels::lstm_step<double>(shape, {0, gates.data(), h.data(), c.data(), y.data(), cells.data()});
  EXPECT_EQ(part(h, 0, 2), (std::vector<double>{1, 2}));
  EXPECT_EQ(part(c, 0, 2), (std::vector<double>{5, 6}));
  EXPECT_EQ(part(y, 0, 2), (std::vector<double>{0, 0}));
  EXPECT_NE(part(h, 2, 2), (std::vector<double>{3, 4}));
  std::vector<double> dh{1, 2, 3, 4}, dc = dh;
  kernels::lstm_step_backward<double>(
      shape, {0, gates.data(), cells.data(), nullptr, nullptr, dh.data(), dc.data()});
  EXPECT_EQ(part(dh, 0, 2), (std::vector<double>{1, 2}));
  EXPECT_EQ(part(dc, 0, 2), (std::vector<double>{1, 2}));
  EXPECT_EQ(part(gates, 0, 8), std::vector<double>(8, 0));
}

}  // namespace
}  // namespace heed
