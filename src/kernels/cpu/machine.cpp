// The machine's limits. Arithmetic: enough chains of multiply-adds to hide the latency of every unit there is
// (4 cycles times 2 units on today's processors), few enough for the 16 registers of AVX2. Reading: sums,
// with several loads under way at a time; the processor's own prefetching does the rest.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/machine.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include <atomic>
#include <chrono>

#include "kernels/cpu/bytes-inl.h"
#include "kernels/cpu/gemm_paths.h"
#include "kernels/cpu/simd-inl.h"
#include "kernels/machine.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

inline constexpr int64_t kChains = 12;
inline constexpr int64_t kTileChains = 4;

/// x = x * factor + term in every lane of twelve chains, `rounds` times; returns what depends on all of them.
template <class T>
T multiply_add_chains(int64_t rounds, T factor, T term) {
  const auto a = broadcast(factor), b = broadcast(term);
  auto x0 = broadcast(T(0)), x1 = broadcast(T(1)), x2 = broadcast(T(2)), x3 = broadcast(T(3)),
       x4 = broadcast(T(4)), x5 = broadcast(T(5)), x6 = broadcast(T(6)), x7 = broadcast(T(7)),
       x8 = broadcast(T(8)), x9 = broadcast(T(9)), x10 = broadcast(T(10)), x11 = broadcast(T(11));
  for (int64_t i = 0; i < rounds; ++i) {
    x0 = hn::MulAdd(x0, a, b), x1 = hn::MulAdd(x1, a, b), x2 = hn::MulAdd(x2, a, b);
    x3 = hn::MulAdd(x3, a, b), x4 = hn::MulAdd(x4, a, b), x5 = hn::MulAdd(x5, a, b);
    x6 = hn::MulAdd(x6, a, b), x7 = hn::MulAdd(x7, a, b), x8 = hn::MulAdd(x8, a, b);
    x9 = hn::MulAdd(x9, a, b), x10 = hn::MulAdd(x10, a, b), x11 = hn::MulAdd(x11, a, b);
  }
  const auto sum = [](auto u, auto v) HWY_ATTR { return hn::Add(u, v); };
  return total<T>(sum(sum(sum(sum(x0, x1), sum(x2, x3)), sum(sum(x4, x5), sum(x6, x7))),
                      sum(sum(x8, x9), sum(x10, x11))));
}

/// Twelve chains of products of bytes, `rounds` times; returns what depends on all of them. Of vpmaddubsw,
/// each has an addition of 16 bits, as most products with codes of 4 bits have. Of AMX, four chains of tiles.
template <class T>
T byte_chains([[maybe_unused]] int64_t rounds, [[maybe_unused]] ByteProducts products) {
#if HEED_BYTES
  const Bytes a = words(0x01020304), b = words(0x04030201);
  Bytes x[kChains];
  HWY_UNROLL(12)
  for (int c = 0; c < kChains; ++c) x[c] = words(c);
  const auto step = [&](const auto& add) HWY_ATTR {
    for (int64_t i = 0; i < rounds; ++i) {
      HWY_UNROLL(12)
      for (int c = 0; c < kChains; ++c) x[c] = add(x[c]);
    }
  };
#if HEED_TILES
  if (products == ByteProducts::tiles) {
    const detail::TileRegisters registers(detail::kWholeTiles);
    for (int64_t i = 0; i < rounds; ++i) {
      detail::add_byte_products<0, 4, 5>();
      detail::add_byte_products<1, 4, 5>();
      detail::add_byte_products<2, 4, 5>();
      detail::add_byte_products<3, 4, 5>();
    }
    return T(0);
  }
#endif
  if (products == ByteProducts::fours) {
    step([&](Bytes sum) HWY_ATTR { return add_products<kFours>(sum, a, b); });
  } else {
#if HEED_X86_BYTES
    // The operand changes, so that no compiler takes the product out of the loop.
    step([&](Bytes sum) HWY_ATTR { return add_pairs(sum, a, sum); });
#else
    if (products == ByteProducts::signed_fours) {
      step([&](Bytes sum) HWY_ATTR { return add_products<kSignedFours>(sum, a, b); });
    } else {
      step([&](Bytes sum) HWY_ATTR { return add_products<kLong>(sum, a, sum); });
    }
#endif
  }
  for (int c = 1; c < kChains; ++c) x[0] = add_words(x[0], x[c]);
  return static_cast<T>(hn::GetLane(Ints{x[0]}));
#else
  return T(0);
#endif
}

/// Operations of one round of byte_chains(), two for each product.
template <class T>
double byte_operations([[maybe_unused]] ByteProducts products) {
#if HEED_TILES
  if (products == ByteProducts::tiles)
    return static_cast<double>(2 * kTileChains * detail::kTileRows * detail::kTileRows * detail::kTileBytes);
#endif
  return HEED_BYTES ? static_cast<double>(2 * kChains * lanes<float>() * 4) : 0;
}

/// Operations of one round.
template <class T>
double round_operations() {
  return static_cast<double>(2 * kChains * static_cast<int64_t>(hn::Lanes(Tag<T>())));
}

template <class T>
T sum_of(const T* x, int64_t n) {
  return row_sum(x, n);
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {
namespace {

HEED_EXPORT(multiply_add_chains);
HEED_EXPORT(round_operations);
HEED_EXPORT(sum_of);
HEED_EXPORT(byte_chains);
HEED_EXPORT(byte_operations);

// What the loops computed goes here, so that no compiler may leave them out.
std::atomic<float> sink;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Rounds of `chains` per second, of all threads together.
template <class Chains>
double round_rate(double seconds, const Chains& chains) {
  const std::int64_t team = threads();
  for (std::int64_t rounds = 20000;; rounds *= 2) {
    const auto start = std::chrono::steady_clock::now();
    parallel_for(team, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) sink = static_cast<float>(chains(rounds));
    });
    const double elapsed = seconds_since(start);
    if (2 * elapsed >= seconds) return static_cast<double>(team * rounds) / elapsed;
  }
}

}  // namespace

template <class T>
double arithmetic_rate(double seconds) {
  return HEED_DISPATCH(round_operations, T)() * round_rate(seconds, [](std::int64_t rounds) {
           return HEED_DISPATCH(multiply_add_chains, T)(rounds, T(0.5), T(1));
         });
}

double int8_rate(double seconds) {
  const ByteProducts products = detail::byte_products();
  const double operations = HEED_DISPATCH(byte_operations, float)(products);
  if (operations == 0) return 0;
  return operations * round_rate(seconds, [products](std::int64_t rounds) {
           return HEED_DISPATCH(byte_chains, float)(rounds, products);
         });
}

const char* int8_instruction() {
  const std::int64_t bits = detail::vector_bits();
  if (bits == 0) return "none";
  switch (detail::byte_products()) {
    case ByteProducts::base: return bits == 128 ? "smull" : "vpmaddubsw";
    case ByteProducts::signed_fours: return "sdot";
    case ByteProducts::fours: return bits == 128 ? "usdot" : "vpdpbusd";
    case ByteProducts::tiles: return "tdpbsud";
  }
  HEED_ASSERT(false, "products of bytes");
}

double read_rate(const void* data, std::int64_t bytes) {
  constexpr std::int64_t kPiece = 1 << 14;  // floats that a sum reads at a time
  const auto* x = static_cast<const float*>(data);
  const std::int64_t n = bytes / static_cast<std::int64_t>(sizeof(float));
  const auto start = std::chrono::steady_clock::now();
  parallel_for(n, kPiece, [&](std::int64_t begin, std::int64_t end) {
    float sum = 0;
    for (std::int64_t i = begin; i < end; i += kPiece)
      sum += HEED_DISPATCH(sum_of, float)(x + i, std::min(kPiece, end - i));
    sink = sum;
  });
  return static_cast<double>(bytes) / std::max(seconds_since(start), 1e-9);
}

template double arithmetic_rate<float>(double);
template double arithmetic_rate<double>(double);

}  // namespace heed::kernels
#endif  // HWY_ONCE
