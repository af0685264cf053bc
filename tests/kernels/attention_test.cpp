// Attention against its definition in double (tests/reference/attention.h): every kind of mask, grouped
// heads, odd sizes, strided layouts, dropout; gradients against central differences of that definition.
#include "kernels/attention.h"

#include <algorithm>
#include <limits>
#include <string>

#include "heed/dtype.h"
#include "kernels/attention_cases.h"
#include "kernels/copy.h"
#include "kernels/kernel_case.h"

namespace heed {
namespace {

TYPED_TEST(Kernel, AttentionIsItsDefinition) {
  using T = TypeParam;
  on_every_target([] {
    for (const AttentionCase& c : attention_cases()) {
      SCOPED_TRACE(c.name);
      AttentionInputs<T> setup(c.a);
      std::vector<T> weights(static_cast<std::size_t>(c.a.batch * c.a.heads * c.a.queries * c.a.keys), T(55));
      setup.run();
      const auto without = setup.o;
      setup.forward.weights = weights.data();
      setup.run();
      EXPECT_EQ(setup.o, without);  // listening changes nothing
      const auto want = c.a(as_double(setup.q), as_double(setup.k), as_double(setup.v));
      reference::expect_near(setup.o, want.out, c.a.keys, 2);
      reference::expect_near(setup.logsumexp, want.logsumexp, c.a.head_dim, 8);
      reference::expect_near(weights, want.weights, c.a.keys);
    }
  });
}

TYPED_TEST(Kernel, AttentionOfTheLiterature) {
  using T = TypeParam;
  auto a = shape(1, 1, 1, 3, 3, 2, 2);
  AttentionInputs<T> setup(a);
  setup.q = {1, 0, 0, 1, 1, 1};
  setup.k = {1, 1, 0, 1, 1, 0};
  setup.v = {1, 0, 0, 1, 0, 0};
  std::vector<T> weights(9);
  setup.forward.weights = weights.data();
  setup.run();
  const double want_weights[] = {.401, .198, .401, .401, .401, .198, .503, .248, .248};
  const double want[] = {.401, .198, .401, .401, .503, .248};
  for (std::size_t i = 0; i < 9; ++i) EXPECT_NEAR(static_cast<double>(weights[i]), want_weights[i], 6e-4);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(static_cast<double>(setup.o[i]), want[i], 6e-4);
}

TYPED_TEST(Kernel, AttentionWeightsOfChosenHeads) {
  using T = TypeParam;
  const auto a = shape(2, 3, 3, 4, 5, 4, 4);
  AttentionInputs<T> setup(a);
  std::vector<T> all(2 * 3 * 20), chosen(2 * 2 * 20);
  setup.forward.weights = all.data();
  setup.run();
  const bool wanted[] = {true, false, true};
  setup.forward.weights = chosen.data();
  setup.forward.weight_heads = wanted;
  setup.run();
  for (std::size_t b = 0; b < 2; ++b) {
    for (std::size_t i = 0; i < 20; ++i) {
      EXPECT_EQ(chosen[(b * 2 + 0) * 20 + i], all[(b * 3 + 0) * 20 + i]);
      EXPECT_EQ(chosen[(b * 2 + 1) * 20 + i], all[(b * 3 + 2) * 20 + i]);
    }
  }
}

TYPED_TEST(Kernel, AttentionWeightsOfChosenQueries) {
  using T = TypeParam;
  auto a = shape(2, 3, 1, 40, 50, 4, 4);
  a.causal = true;
  const std::size_t T_ = 40, S = 50;
  AttentionInputs<T> setup(a);
  std::vector<T> all(2 * 3 * T_ * S), chosen(2 * 1 * 3 * S);
  setup.forward.weights = all.data();
  setup.run();
  const bool wanted[] = {false, true, false};
  const std::int64_t queries[] = {39, 0, 17};
  setup.forward.weights = chosen.data();
  setup.forward.weight_heads = wanted;
  setup.forward.weight_rows = queries;
  setup.forward.weight_row_count = 3;
  setup.run();
  for (std::size_t b = 0; b < 2; ++b) {
    for (std::size_t i = 0; i < 3; ++i) {
      const std::size_t row = ((b * 3 + 1) * T_ + static_cast<std::size_t>(queries[i])) * S;
      for (std::size_t s = 0; s < S; ++s) EXPECT_EQ(chosen[(b * 3 + i) * S + s], all[row + s]);
    }
  }
}

/// The output for one query of a case, computed by itself: one row of the batch, one query at its position,
/// and a cache with `spare` more places that hold no numbers.
template <class T>
std::vector<T> alone(const AttentionInputs<T>& s, std::int64_t b, std::int64_t t, std::int64_t spare) {
  const kernels::AttentionShape& n = s.shape;
  const std::int64_t capacity = n.keys + spare;
  const auto spread = [&](const std::vector<T>& from, std::int64_t width) {
    std::vector<T> to(static_cast<std::size_t>(n.kv_heads * capacity * width),
                      std::numeric_limits<T>::quiet_NaN());
    for (std::int64_t h = 0; h < n.kv_heads; ++h) {
      const auto first = from.begin() + (b * n.kv_heads + h) * n.keys * width;
      std::copy(first, first + n.keys * width, to.begin() + h * capacity * width);
    }
    return to;
  };
  const std::vector<T> k = spread(s.k, n.head_dim), v = spread(s.v, n.value_dim);
  std::vector<T> out(static_cast<std::size_t>(n.heads * n.value_dim));
  kernels::AttentionShape one = n;
  one.batch = 1, one.queries = 1, one.keys = capacity;
  one.k = {0, capacity * n.head_dim, n.head_dim}, one.v = {0, capacity * n.value_dim, n.value_dim};
  one.o = {0, n.value_dim, n.value_dim};
  kernels::AttentionOptions<T> options = s.options;
  const std::int64_t length = s.lengths.empty() ? n.keys : s.lengths[static_cast<std::size_t>(b)];
  const std::int64_t place =
      t + (s.offsets.empty() ? n.keys - n.queries : s.offsets[static_cast<std::size_t>(b)]);
  options.key_lengths = &length, options.query_offsets = &place;
  kernels::AttentionForward<T> forward;
  forward.q = s.q.data() + b * n.q.batch + t * n.q.row;
  forward.k = k.data(), forward.v = v.data(), forward.o = out.data();
  kernels::attention(one, options, forward);
  return out;
}

TYPED_TEST(Kernel, AttentionIsBatchInvariant) {
  using T = TypeParam;
  auto ragged = shape(3, 4, 2, 40, 1100, 24, 40);
  ragged.lengths = {1100, 129, 40}, ragged.offsets = {1060, 89, 0}, ragged.causal = true;
  ragged.slopes = {0.5, 0.25, 0.125, 0.0625};
  auto window = shape(2, 1, 1, 70, 150, 7, 5);
  window.window = 60;
  auto full = shape(2, 2, 2, 33, 140, 16, 16), capped = ragged;
  capped.cap = 0.4;
  on_every_target([&] {
    for (const auto& a : {ragged, window, full, capped}) {
      AttentionInputs<T> setup(a);
      setup.run();
      for (std::int64_t b = 0; b < a.batch; ++b) {
        for (const std::int64_t t : {std::int64_t{0}, std::int64_t{17}, a.queries - 1}) {
          for (const std::int64_t spare : {0, 200}) {
            const std::vector<T> got = alone(setup, b, t, spare);
            for (std::int64_t h = 0; h < a.heads; ++h) {
              const auto want = setup.o.begin() + ((b * a.heads + h) * a.queries + t) * a.value_dim;
              ASSERT_TRUE(std::equal(want, want + a.value_dim, got.begin() + h * a.value_dim))
                  << "row " << b << " query " << t << " head " << h << " spare " << spare;
            }
          }
        }
      }
    }
  });
}

TYPED_TEST(Kernel, AttentionTakesPaddingAtTheEndForLengths) {
  using T = TypeParam;
  auto masked = shape(2, 2, 2, 40, 300, 8, 8), measured = masked;
  measured.lengths = {300, 131};
  masked.key_mask.assign(600, 1);
  std::fill(masked.key_mask.begin() + 300 + 131, masked.key_mask.end(), 0);
  for (const std::int64_t queries : {40, 3}) {
    masked.queries = measured.queries = queries;
    AttentionInputs<T> by_mask(masked), by_length(measured);
    by_mask.run();
    by_length.run();
    EXPECT_EQ(by_mask.o, by_length.o);
  }
}

/// Rows of `lengths` of x [B, H, T, width], one after another: [N, H, width].
template <class T>
std::vector<T> packed(const std::vector<T>& x, const std::vector<std::int64_t>& lengths, std::int64_t heads,
                      std::int64_t time, std::int64_t width) {
  std::vector<T> result;
  for (std::int64_t b = 0; b < std::ssize(lengths); ++b) {
    for (std::int64_t t = 0; t < lengths[static_cast<std::size_t>(b)]; ++t) {
      for (std::int64_t h = 0; h < heads; ++h) {
        const auto from = x.begin() + ((b * heads + h) * time + t) * width;
        result.insert(result.end(), from, from + width);
      }
    }
  }
  return result;
}

TYPED_TEST(Kernel, AttentionOfPackedRowsIsThatOfPaddedOnes) {
  using T = TypeParam;
  const std::vector<std::int64_t> lengths = {1, 300, 17, 128, 129, 64, 5}, few = {2, 8, 1};
  auto plain = shape(7, 4, 2, 300, 300, 24, 40), near = plain, biased = plain, capped = plain;
  near.window = 70;
  biased.relative = numbers<double>(4 * 599, 95), biased.slopes = {0.5, 0.25, 0.125, 0.0625};
  capped.cap = 0.4, capped.causal = true;
  on_every_target([&] {
    for (auto a : {plain, near, biased, capped, shape(3, 2, 2, 8, 8, 16, 16)}) {
      a.lengths = a.batch == 3 ? few : lengths;
      AttentionInputs<T> rows(a);
      rows.run();
      const std::vector<T> q = packed(rows.q, a.lengths, a.heads, a.queries, a.head_dim),
                           k = packed(rows.k, a.lengths, a.kv_heads, a.keys, a.head_dim),
                           v = packed(rows.v, a.lengths, a.kv_heads, a.keys, a.value_dim),
                           want = packed(rows.o, a.lengths, a.heads, a.queries, a.value_dim);
      std::vector<std::int64_t> starts{0};
      for (const std::int64_t length : a.lengths) starts.push_back(starts.back() + length);
      kernels::AttentionShape n = rows.shape;
      n.q = {0, a.head_dim, a.heads * a.head_dim, starts.data()};
      n.k = {0, a.head_dim, a.kv_heads * a.head_dim, starts.data()};
      n.v = {0, a.value_dim, a.kv_heads * a.value_dim, starts.data()};
      n.o = {0, a.value_dim, a.heads * a.value_dim, starts.data()};
      auto options = rows.options;
      options.query_lengths = a.lengths.data();
      kernels::AttentionForward<T> forward;
      forward.q = q.data(), forward.k = k.data(), forward.v = v.data();
      expect_same_for_all_threads([&] {
        std::vector<T> o(want.size(), T(99));
        forward.o = o.data();
        kernels::attention(n, options, forward);
        EXPECT_EQ(o, want);
        return o;
      });
    }
  });
}

/// Keys and values stored in 16 bits: the same bits as their float values.
template <class S>
void expect_storage() {
  for (const std::int64_t queries : {1, 40}) {
    auto a = shape(2, 4, 2, queries, 150, 24, 21);
    a.cap = 0.8;
    AttentionInputs<float> wide(a);
    std::vector<S> k, v;
    for (float& x : wide.k) k.emplace_back(x), x = static_cast<float>(k.back());
    for (float& x : wide.v) v.emplace_back(x), x = static_cast<float>(v.back());
    on_every_target([&] {
      wide.run();
      kernels::AttentionForward<S> forward;
      std::vector<float> o(wide.o.size());
      forward.q = wide.q.data(), forward.k = k.data(), forward.v = v.data(), forward.o = o.data();
      kernels::attention(wide.shape, wide.options, forward);
      EXPECT_EQ(o, wide.o);
    });
  }
}

TEST(KernelStorage, AttentionOverCachesOf16Bits) {
  expect_storage<bfloat16>();
  expect_storage<float16>();
}

TEST(KernelStorage, AttentionOverInt8Rows) {
  for (const std::int64_t queries : {1, 40}) {
    AttentionInputs<float> wide(shape(2, 4, 2, queries, 150, 24, 21));
    const auto store = [](std::vector<float>& x, std::int64_t d) {
      const std::int64_t rows = std::ssize(x) / d;
      std::vector<std::uint8_t> stored(static_cast<std::size_t>(rows * (kernels::kInt8RowScale + d)));
      kernels::to_int8_rows(rows, d, x.data(), stored.data());
      kernels::from_int8_rows(rows, d, stored.data(), x.data());
      return stored;
    };
    const auto k = store(wide.k, 24), v = store(wide.v, 21);
    kernels::AttentionShape small = wide.shape;
    for (auto [strides, d] : {std::pair{&small.k, std::int64_t{24}}, {&small.v, std::int64_t{21}}}) {
      for (std::int64_t* stride : {&strides->batch, &strides->head, &strides->row})
        *stride = *stride / d * (kernels::kInt8RowScale + d);
    }
    on_every_target([&] {
      wide.run();
      kernels::AttentionForward<std::uint8_t> forward;
      std::vector<float> o(wide.o.size());
      forward.q = wide.q.data(), forward.k = k.data(), forward.v = v.data(), forward.o = o.data();
      kernels::attention(small, wide.options, forward);
      EXPECT_EQ(o, wide.o);
    });
  }
}

TYPED_TEST(Kernel, AttentionReadsStridedLayouts) {
  using T = TypeParam;
  // q, k, v interleaved as one projection writes them, [B, T, 3, H, d], o as [B, T, H, d].
  const std::int64_t B = 2, H = 3, n = 9, d = 5;
  auto a = shape(B, H, H, n, n, d, d);
  a.causal = true;
  AttentionInputs<T> plain(a);
  plain.run();
  std::vector<T> packed(static_cast<std::size_t>(B * n * 3 * H * d)),
      out(static_cast<std::size_t>(B * n * H * d));
  const auto place = [&](std::int64_t b, std::int64_t t, std::int64_t which, std::int64_t h, std::int64_t c) {
    return static_cast<std::size_t>((((b * n + t) * 3 + which) * H + h) * d + c);
  };
  const auto each = [&](auto body) {
    for (std::int64_t i = 0; i < B * H * n * d; ++i) {
      body(static_cast<std::size_t>(i), i / (H * n * d), i / (n * d) % H, i / d % n, i % d);
    }
  };
  each([&](std::size_t i, std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t c) {
    packed[place(b, t, 0, h, c)] = plain.q[i];
    packed[place(b, t, 1, h, c)] = plain.k[i];
    packed[place(b, t, 2, h, c)] = plain.v[i];
  });
  AttentionInputs<T> strided(a);
  strided.shape.q = strided.shape.k = strided.shape.v = {n * 3 * H * d, d, 3 * H * d};
  strided.shape.o = {n * H * d, d, H * d};
  strided.forward.q = packed.data();
  strided.forward.k = packed.data() + H * d;
  strided.forward.v = packed.data() + 2 * H * d;
  strided.forward.o = out.data();
  strided.run();
  each([&](std::size_t i, std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t c) {
    EXPECT_EQ(out[static_cast<std::size_t>(((b * n + t) * H + h) * d + c)], plain.o[i]);
  });
}

/// dq, dk, dv, dbias, d_relative by central differences, without stepping over what cannot be seen.
std::vector<double> oracle_gradient(const reference::Attention& a, int which,
                                    const AttentionInputs<double>& s) {
  const auto forward = [&](const std::vector<double>& x) {
    if (which >= 3) {
      auto changed = a;
      (which == 3 ? changed.bias : changed.relative) = x;
      return changed(s.q, s.k, s.v).out;
    }
    return a(which == 0 ? x : s.q, which == 1 ? x : s.k, which == 2 ? x : s.v).out;
  };
  const std::vector<double>& x = which == 0   ? s.q
                                 : which == 1 ? s.k
                                 : which == 2 ? s.v
                                 : which == 3 ? s.bias
                                              : s.relative;
  return reference::numeric_gradient(forward, x, s.d_o);
}

TEST(KernelGradient, Attention) {
  for (const AttentionCase& c : attention_cases()) {
    if (c.a.queries * c.a.keys > 400) continue;  // central differences there would take minutes
    SCOPED_TRACE(c.name);
    AttentionInputs<double> reference_setup(c.a);
    std::vector<std::vector<double>> want;
    for (int which = 0; which < 5; ++which) want.push_back(oracle_gradient(c.a, which, reference_setup));
    on_every_target([&] {
      AttentionInputs<double> setup(c.a);
      const auto got = setup.run_backward();
      AttentionInputs<float> single(c.a);
      const auto got32 = single.run_backward();
      const std::vector<double>* results[] = {&got.dq, &got.dk, &got.dv, &got.dbias, &got.d_relative};
      const std::vector<float>* results32[] = {&got32.dq, &got32.dk, &got32.dv, &got32.dbias,
                                               &got32.d_relative};
      for (std::size_t which = 0; which < want.size(); ++which) {
        for (std::size_t i = 0; i < want[which].size(); ++i) {
          ASSERT_NEAR((*results[which])[i], want[which][i], 1e-8) << "gradient " << which << " at " << i;
        }
        reference::expect_near(*results32[which], *results[which], c.a.keys, 4);
      }
    });
  }
}

TEST(KernelGradient, AttentionOverSeveralBlocks) {
  // Directional derivatives: one central difference along a random direction of all inputs together.
  for (const AttentionCase& c : attention_cases()) {
    SCOPED_TRACE(c.name);
    AttentionInputs<double> setup(c.a);
    const auto g = setup.run_backward();
    const auto loss = [&](double step) {
      auto move = [&](std::vector<double> x, std::uint64_t seed) {
        const auto direction = numbers<double>(static_cast<std::int64_t>(x.size()), seed);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] += step * direction[i];
        return x;
      };
      auto a = c.a;
      a.bias = move(c.a.bias, 204);
      a.relative = move(c.a.relative, 205);
      const auto out = a(move(setup.q, 201), move(setup.k, 202), move(setup.v, 203)).out;
      double total = 0;
      for (std::size_t i = 0; i < out.size(); ++i) total += out[i] * setup.d_o[i];
      return total;
    };
    double along = 0;
    const std::vector<double>* parts[] = {&g.dq, &g.dk, &g.dv, &g.dbias, &g.d_relative};
    for (std::uint64_t p = 0; p < 5; ++p) {
      const auto direction = numbers<double>(static_cast<std::int64_t>(parts[p]->size()), 201 + p);
      for (std::size_t i = 0; i < direction.size(); ++i) along += direction[i] * (*parts[p])[i];
    }
    EXPECT_NEAR(along, (loss(1e-5) - loss(-1e-5)) / 2e-5, 1e-6 * (1 + std::abs(along)));
  }
}

TEST(KernelGradient, AttentionBiasThatIsShared) {
  auto full = shape(2, 4, 2, 5, 7, 4, 6);
  const std::int64_t T = 5, S = 7;
  for (const kernels::MaskStrides strides :
       {kernels::MaskStrides{0, T * S, S, 1}, {T * S, 0, S, 1}, {0, 0, S, 1}, {0, 0, 0, 1}, {0, 1, 0, 0}}) {
    full.bias.assign(static_cast<std::size_t>(2 * 4 * T * S), 0.0);
    const auto small = numbers<double>(4 * T * S, 95);
    const auto place = [&](std::size_t i) {
      const std::int64_t n = static_cast<std::int64_t>(i);
      return static_cast<std::size_t>(n / (4 * T * S) * strides.batch + n / (T * S) % 4 * strides.head +
                                      n / S % T * strides.query + n % S * strides.key);
    };
    for (std::size_t i = 0; i < full.bias.size(); ++i) full.bias[i] = small[place(i)];
    AttentionInputs<double> expanded(full), shared(full);
    const auto each = expanded.run_backward();
    shared.bias = small;
    shared.options.bias = shared.bias.data();
    shared.options.bias_strides = strides;
    const auto got = shared.run_backward();
    std::vector<double> want(small.size());
    std::vector<char> touched(small.size());
    for (std::size_t i = 0; i < full.bias.size(); ++i) want[place(i)] += each.dbias[i], touched[place(i)] = 1;
    for (std::size_t i = 0; i < want.size(); ++i) {
      if (touched[i]) {
        EXPECT_NEAR(got.dbias[i], want[i], 1e-12);
      }
    }
    EXPECT_EQ(got.dk, each.dk);
  }
}

TYPED_TEST(Kernel, AttentionDoesNotDependOnThreads) {
  using T = TypeParam;
  auto a = shape(3, 4, 2, 70, 70, 32, 32);
  a.causal = true, a.dropout = 0.1, a.random = {8, 8};
  a.bias = numbers<double>(3 * 4 * 70 * 70, 96);
  a.relative = numbers<double>(4 * 139, 97);
  expect_same_for_all_threads([&] {
    AttentionInputs<T> setup(a);
    const auto g = setup.run_backward();
    auto all = setup.o;
    for (const auto* part : {&g.dq, &g.dk, &g.dv, &g.dbias, &g.d_relative})
      all.insert(all.end(), part->begin(), part->end());
    return all;
  });
}

TYPED_TEST(Kernel, AttentionOfNothing) {
  using T = TypeParam;
  for (const auto& a : {shape(0, 2, 2, 3, 3, 4, 4), shape(1, 2, 2, 0, 3, 4, 4), shape(1, 2, 2, 3, 0, 4, 4)}) {
    AttentionInputs<T> setup(a);
    const auto g = setup.run_backward();
    for (const T v : setup.o) EXPECT_EQ(v, T(0));
    for (const auto* part : {&g.dq, &g.dk, &g.dv}) {
      for (const T v : *part) EXPECT_EQ(v, T(0));
    }
  }
}

}  // namespace
}  // namespace heed
