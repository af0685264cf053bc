// Matrices in blocks: from the layouts of ggml (ggml-common.h, ggml-quants.c) to packed panels and to
// numbers.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/blocks.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include <map>

#include "kernels/blocks.h"
#include "kernels/cpu/blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

template <class T>
void unpack(const PackedMatrix& w, int64_t panel, int64_t from, int64_t depth, T* to) {
  unpack_steps(w, panel, from, depth, to);
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {
namespace {

HEED_EXPORT(unpack);

/// A block of one row, taken apart.
struct OpenBlock {
  std::array<std::uint8_t, kMostNumbers> codes{};
  std::array<std::uint8_t, 4> d{};
  std::array<std::uint8_t, 2> minimum{};
  std::array<std::uint8_t, kMostGroups> sub{}, sub_min{};
  std::uint8_t zero = 0;
};

class BlockReader {
 public:
  BlockReader(const std::byte* block, OpenBlock& open)
      : b_(reinterpret_cast<const std::uint8_t*>(block)), open_(open) {}

  void read(BlockType type) {
    switch (type) {
      case BlockType::q8_0:
        halves(0);
        for (std::size_t i = 0; i < 32; ++i) open_.codes[i] = static_cast<std::uint8_t>(b_[2 + i] ^ 0x80U);
        return;
      case BlockType::q4_0:
      case BlockType::iq4_nl: halves(0); return nibbles(2, 0);
      case BlockType::q4_1: halves(0, 2); return nibbles(4, 0);
      case BlockType::q5_0:
        halves(0);
        nibbles(6, 0);
        return fifth_bits(2);
      case BlockType::q5_1:
        halves(0, 2);
        nibbles(8, 0);
        return fifth_bits(4);
      case BlockType::q2_k: return read_q2();
      case BlockType::q3_k: return read_q3();
      case BlockType::q4_k:
        halves(0, 2);
        scales_of_six_bits(4);
        return nibbles_of_64(16);
      case BlockType::q5_k:
        halves(0, 2);
        scales_of_six_bits(4);
        nibbles_of_64(48);
        for (std::size_t i = 0; i < 256; ++i) add(i, (b_[16 + i % 32] >> i / 32 & 1U) << 4U);
        return;
      case BlockType::q6_k: return read_q6();
      case BlockType::iq4_xs: return read_iq4_xs();
      case BlockType::mxfp4: open_.d[0] = b_[0]; return nibbles(1, 0);
      case BlockType::f32:
      case BlockType::f16:
      case BlockType::bf16: break;
    }
    HEED_ASSERT(false, "a type without codes");
  }

 private:
  void add(std::size_t i, unsigned bits) {
    open_.codes[i] = static_cast<std::uint8_t>(open_.codes[i] | bits);
  }
  void halves(std::size_t d) { open_.d = {b_[d], b_[d + 1], 0, 0}; }
  void halves(std::size_t d, std::size_t minimum) {
    halves(d);
    open_.minimum = {b_[minimum], b_[minimum + 1]};
  }
  // 32 codes from 16 bytes: the lower nibbles first.
  void nibbles(std::size_t at, std::size_t first) {
    for (std::size_t i = 0; i < 16; ++i) {
      open_.codes[first + i] = b_[at + i] & 15U;
      open_.codes[first + 16 + i] = static_cast<std::uint8_t>(b_[at + i] >> 4U);
    }
  }
  // 256 codes: of each 32 bytes the lower nibbles, then the upper ones.
  void nibbles_of_64(std::size_t at) {
    for (std::size_t i = 0; i < 256; ++i)
      open_.codes[i] = b_[at + i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15U;
  }
  void fifth_bits(std::size_t at) {
    for (std::size_t i = 0; i < 32; ++i) add(i, (b_[at + i / 8] >> i % 8 & 1U) << 4U);
  }
  // Eight scales and eight minima of 6 bits in 12 bytes.
  void scales_of_six_bits(std::size_t at) {
    const std::uint8_t* s = b_ + at;
    for (std::size_t i = 0; i < 4; ++i) {
      open_.sub[i] = s[i] & 63U;
      open_.sub_min[i] = s[4 + i] & 63U;
      open_.sub[4 + i] = static_cast<std::uint8_t>((s[8 + i] & 15U) | s[i] >> 6U << 4U);
      open_.sub_min[4 + i] = static_cast<std::uint8_t>(s[8 + i] >> 4U | s[4 + i] >> 6U << 4U);
    }
  }
  // Two bits of each code in 64 bytes, from `at` on.
  void pairs_of_bits(std::size_t at) {
    for (std::size_t i = 0; i < 256; ++i)
      open_.codes[i] = b_[at + i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3U;
  }
  void read_q2() {
    halves(80, 82);
    std::copy(b_, b_ + 16, open_.sub.begin());
    pairs_of_bits(16);
  }
  void read_q3() {
    halves(108);
    pairs_of_bits(32);
    for (std::size_t i = 0; i < 256; ++i) add(i, (b_[i % 32] >> i / 32 & 1U) << 2U);
    const std::uint8_t* s = b_ + 96;
    for (std::size_t i = 0; i < 16; ++i) {
      const unsigned low = i < 8 ? s[i] & 15U : s[i - 8] >> 4U, high = s[8 + i % 4] >> (i / 4 * 2) & 3U;
      open_.sub[i] = static_cast<std::uint8_t>((low | high << 4U) - 32U);
    }
  }
  void read_q6() {
    halves(208);
    std::copy(b_ + 192, b_ + 208, open_.sub.begin());
    for (std::size_t i = 0; i < 256; ++i) {
      const std::size_t half = i / 128, l = i % 32, quarter = i / 32 % 4;
      const unsigned low = b_[64 * half + quarter % 2 * 32 + l] >> (quarter / 2 * 4) & 15U;
      open_.codes[i] = static_cast<std::uint8_t>(low | (b_[128 + 32 * half + l] >> (2 * quarter) & 3U) << 4U);
    }
  }
  void read_iq4_xs() {
    halves(0);
    for (std::size_t i = 0; i < 8; ++i) {
      const unsigned low = b_[4 + i / 2] >> (i % 2 * 4) & 15U, high = b_[2 + i / 4] >> (i % 4 * 2) & 3U;
      open_.sub[i] = static_cast<std::uint8_t>((low | high << 4U) - 32U);
      nibbles(8 + 16 * i, 32 * i);
    }
  }

  const std::uint8_t* b_;
  OpenBlock& open_;
};

// The bits from `shift` on of the codes of one row, in its words of a plane.
void place_codes(const OpenBlock& open, const BlockForm& form, int bits, int shift, std::int64_t row,
                 std::byte* plane) {
  auto* words = reinterpret_cast<std::uint32_t*>(plane);
  const std::int64_t steps = 32 / bits;
  for (std::int64_t first = 0; first < form.numbers; first += steps) {
    std::uint32_t word = 0;
    for (std::int64_t s = 0; s < steps; ++s) {
      const std::uint32_t code = open.codes[static_cast<std::size_t>(first + s)];
      word |= (code >> shift & ((1U << bits) - 1)) << (s % 4 * 8 + s / 4 * bits);
    }
    words[first / steps * kNr + row] = word;
  }
}

void place_block(const OpenBlock& open, const BlockForm& form, std::int64_t row, std::byte* block) {
  const auto put = [](const std::uint8_t* from, std::int64_t count, std::byte* to) {
    std::memcpy(to, from, static_cast<std::size_t>(count));
  };
  std::byte* at = block;
  put(open.d.data(), form.scale_size(), at + form.scale_size() * row);
  at += form.scale_size() * kNr;
  if (form.minimum) {
    put(open.minimum.data(), 2, at + 2 * row);
    at += 2 * kNr;
  }
  for (int g = 0; g < form.sub; ++g, at += kNr) put(&open.sub[static_cast<std::size_t>(g)], 1, at + row);
  for (int g = 0; g < form.sub_min; ++g, at += kNr)
    put(&open.sub_min[static_cast<std::size_t>(g)], 1, at + row);
  if (form.zero) {
    put(&open.zero, 1, at + row);
    at += kNr;
  }
  place_codes(open, form, form.low, 0, row, at);
  if (form.high > 0) place_codes(open, form, form.high, form.low, row, at + form.plane_bytes(form.low));
}

// The longest block that divides both a group and a row.
std::int64_t numbers_in_block(const GroupRows& w) {
  std::int64_t numbers = kMostNumbers;
  while (w.group % numbers != 0 && numbers > kLeastGroup) numbers /= 2;
  return numbers;
}

void open_block(const BlockRows& w, std::int64_t row, std::int64_t block, OpenBlock& open) {
  const BlockLayout& layout = layout_of(w.type);
  const std::int64_t place = w.order != nullptr ? w.order[row] : row;
  BlockReader(w.data + (place * (w.k / layout.numbers) + block) * layout.bytes, open).read(w.type);
}

void open_block(const GroupRows& w, std::int64_t row, std::int64_t block, OpenBlock& open) {
  const std::int64_t numbers = numbers_in_block(w), group = block * numbers / w.group;
  const std::int64_t at = row * (w.k / w.group) + group;
  const float scale = w.scales[at];
  const std::uint8_t* codes = w.codes + row * w.k + block * numbers;
  std::copy(codes, codes + numbers, open.codes.begin());
  if (w.zeros != nullptr) open.zero = w.zeros[at];
  const auto put = [&](const auto& value) { std::memcpy(open.d.data(), &value, sizeof value); };
  switch (w.scale_type) {
    case DType::f16: return put(float16(scale));
    case DType::bf16: return put(bfloat16(scale));
    default: return put(scale);
  }
}

// Panel `index` of w, whose missing rows are zeros.
template <class Rows>
void place_panel(const Rows& w, const BlockForm& form, std::int64_t index, std::byte* panel) {
  const std::int64_t first = index * kNr, rows = std::min(kNr, w.n - first), blocks = w.k / form.numbers;
  if (rows < kNr) std::memset(panel, 0, static_cast<std::size_t>(blocks * form.bytes()));
  OpenBlock open;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < blocks; ++i) {
      open_block(w, first + r, i, open);
      place_block(open, form, r, panel + i * form.bytes());
    }
  }
}

// The first `rows` rows of a panel, [rows, k].
void write_numbers(const PackedMatrix& w, std::int64_t panel, std::int64_t rows, std::int64_t k, float* y) {
  const std::int64_t step = w.form()->numbers;
  std::vector<float> numbers(static_cast<std::size_t>(kNr * step));
  for (std::int64_t from = 0; from < k; from += step) {
    HEED_DISPATCH(unpack, float)(w, panel, from, step, numbers.data());
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t s = 0; s < step; ++s)
        y[r * k + from + s] = numbers[static_cast<std::size_t>(s * kNr + r)];
    }
  }
}

std::int64_t panels(std::int64_t n) { return (n + kNr - 1) / kNr; }

template <class Rows>
std::shared_ptr<const PackedMatrix> pack_rows(const Rows& w, const BlockForm& form) {
  auto packed = std::make_shared<PackedMatrix>(form, w.n, w.k);
  parallel_for(panels(w.n), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) place_panel(w, form, i, packed->panel(i));
  });
  return packed;
}

template <class Rows>
void dequantize_rows(const Rows& w, const BlockForm& form, float* y) {
  parallel_for(panels(w.n), 1, [&](std::int64_t begin, std::int64_t end) {
    const PackedMatrix packed(form, kNr, w.k);
    for (std::int64_t i = begin; i < end; ++i) {
      place_panel(w, form, i, packed.panel(0));
      write_numbers(packed, 0, std::min(kNr, w.n - i * kNr), w.k, y + i * kNr * w.k);
    }
  });
}

BlockForm form_of(const GroupRows& w) {
  static const std::map<GroupCode, CodeType> codes = {{GroupCode::integer, CodeType::integer},
                                                      {GroupCode::nf4, CodeType::nf4},
                                                      {GroupCode::e4m3, CodeType::e4m3}};
  BlockForm form;
  form.scale = w.scale_type == DType::f16    ? ScaleType::f16
               : w.scale_type == DType::bf16 ? ScaleType::bf16
                                             : ScaleType::f32;
  form.code = codes.at(w.code);
  form.low = w.bits <= 4 ? 4 : 8;
  form.numbers = form.group = numbers_in_block(w);
  form.zero = w.zeros != nullptr;
  form.center = w.center;
  return form;
}

}  // namespace

const BlockForm& form_of(BlockType type) {
  static constexpr BlockForm kQ8{.low = 8, .center = 128}, kQ40{.center = 8}, kQ41{.minimum = true},
      kQ50{.high = 1, .center = 16}, kQ51{.high = 1, .minimum = true},
      kQ2{.low = 2, .numbers = 256, .group = 16, .sub = 16, .minimum = true, .sub_nibbles = true},
      kQ3{.low = 2, .high = 1, .numbers = 256, .group = 16, .sub = 16, .center = 4},
      kQ4{.numbers = 256, .sub = 8, .sub_min = 8, .minimum = true},
      kQ5{.high = 1, .numbers = 256, .sub = 8, .sub_min = 8, .minimum = true},
      kQ6{.high = 2, .numbers = 256, .group = 16, .sub = 16, .center = 32}, kNl{.code = CodeType::non_linear},
      kXs{.code = CodeType::non_linear, .numbers = 256, .sub = 8},
      kMx{.scale = ScaleType::e8m0, .code = CodeType::e2m1};
  switch (type) {
    case BlockType::q8_0: return kQ8;
    case BlockType::q4_0: return kQ40;
    case BlockType::q4_1: return kQ41;
    case BlockType::q5_0: return kQ50;
    case BlockType::q5_1: return kQ51;
    case BlockType::q2_k: return kQ2;
    case BlockType::q3_k: return kQ3;
    case BlockType::q4_k: return kQ4;
    case BlockType::q5_k: return kQ5;
    case BlockType::q6_k: return kQ6;
    case BlockType::iq4_nl: return kNl;
    case BlockType::iq4_xs: return kXs;
    case BlockType::mxfp4: return kMx;
    case BlockType::f32:
    case BlockType::f16:
    case BlockType::bf16: break;
  }
  HEED_ASSERT(false, "a type without codes");
}

std::shared_ptr<const PackedMatrix> pack(const BlockRows& w) { return pack_rows(w, form_of(w.type)); }
std::shared_ptr<const PackedMatrix> pack(const GroupRows& w) { return pack_rows(w, form_of(w)); }
void dequantize(const BlockRows& w, float* y) { dequantize_rows(w, form_of(w.type), y); }
void dequantize(const GroupRows& w, float* y) { dequantize_rows(w, form_of(w), y); }

void dequantize(const PackedMatrix& w, std::int64_t n, std::int64_t k, float* y) {
  parallel_for(panels(n), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      write_numbers(w, i, std::min(kNr, n - i * kNr), k, y + i * kNr * k);
  });
}

}  // namespace heed::kernels
#endif
