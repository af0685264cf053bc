// Intel's AMX (2023 on). A tile register is a matrix of at most 16 rows of 64 bytes; one instruction adds the
// product of two of them to a third, of sums. Of the second operand, four bytes (or two bf16 numbers) of a
// column lie side by side, so that a row of it is four (or two) steps of k for 16 columns.
#pragma once

#if defined(__x86_64__)

#include <cstddef>
#include <cstdint>

namespace heed::kernels::detail {

inline constexpr std::int64_t kTileRows = 16, kTileBytes = 64;  // of a row

/// The shape of each tile register, as the processor reads it.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  constexpr void set(std::size_t tile, std::int64_t count, std::int64_t bytes) {
    rows[tile] = static_cast<std::uint8_t>(count);
    row_bytes[tile] = static_cast<std::uint16_t>(bytes);
  }
};

/// All of them as large as they may be.
inline constexpr TileShapes kWholeTiles = [] {
  TileShapes shapes;
  for (std::size_t tile = 0; tile < 8; ++tile) shapes.set(tile, kTileRows, kTileBytes);
  return shapes;
}();

/// The registers, zeros at first, have these shapes for as long as it lives.
class TileRegisters {
 public:
  explicit TileRegisters(const TileShapes& shapes) { asm volatile("ldtilecfg %0" : : "m"(shapes)); }
  ~TileRegisters() { asm volatile("tilerelease"); }
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;
};

// The intrinsics of gcc 12 do not say that a load reads memory, so the compiler might move it before the
// stores of what it loads.

/// Rows `distance` bytes apart.
template <int Tile>
[[gnu::always_inline]] inline void load_tile(const void* from, std::int64_t distance) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(distance), "i"(Tile) : "memory");
}
template <int Tile>
[[gnu::always_inline]] inline void store_tile(void* to, std::int64_t distance) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(distance), "i"(Tile) : "memory");
}
template <int Tile>
[[gnu::always_inline]] inline void zero_tile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(Tile));
}
/// Sums += the products of the signed bytes of X with those of W, which are signed or not.
template <int Sums, int X, int W, bool Signed = false>
[[gnu::always_inline]] inline void add_byte_products() {
  if constexpr (Signed) {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sums), "i"(X), "i"(W));
  } else {
    asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sums), "i"(X), "i"(W));
  }
}
/// Sums += the products of the bf16 numbers of X and W.
template <int Sums, int X, int W>
[[gnu::always_inline]] inline void add_bf16_products() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sums), "i"(X), "i"(W));
}

}  // namespace heed::kernels::detail

#endif
