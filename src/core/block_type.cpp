// The layouts of ggml's blocks, found by dtype and by name.
#include "core/block_type.h"

#include <array>

#include "heed/error.h"

namespace heed {
namespace {

constexpr std::array<BlockLayout, 16> kLayouts = {{
    {BlockType::f32, "F32", 0, 1, 4},
    {BlockType::f16, "F16", 1, 1, 2},
    {BlockType::bf16, "BF16", 30, 1, 2},
    {BlockType::q8_0, "Q8_0", 8, 32, 34},
    {BlockType::q4_0, "Q4_0", 2, 32, 18},
    {BlockType::q4_1, "Q4_1", 3, 32, 20},
    {BlockType::q5_0, "Q5_0", 6, 32, 22},
    {BlockType::q5_1, "Q5_1", 7, 32, 24},
    {BlockType::q2_k, "Q2_K", 10, 256, 84},
    {BlockType::q3_k, "Q3_K", 11, 256, 110},
    {BlockType::q4_k, "Q4_K", 12, 256, 144},
    {BlockType::q5_k, "Q5_K", 13, 256, 176},
    {BlockType::q6_k, "Q6_K", 14, 256, 210},
    {BlockType::iq4_nl, "IQ4_NL", 20, 32, 18},
    {BlockType::iq4_xs, "IQ4_XS", 23, 256, 136},
    {BlockType::mxfp4, "MXFP4", 39, 32, 17},
}};

struct OtherType {
  std::uint32_t id;
  std::string_view name;
};
constexpr OtherType kOthers[] = {
    {9, "Q8_1"},   {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"},
    {21, "IQ3_S"}, {22, "IQ2_S"}, {24, "I8"},      {25, "I16"},    {26, "I32"},     {27, "I64"},
    {28, "F64"},   {29, "IQ1_M"}, {34, "TQ1_0"},   {35, "TQ2_0"},  {40, "NVFP4"},
};

}  // namespace

const BlockLayout& layout_of(BlockType type) {
  const BlockLayout& layout = kLayouts[static_cast<std::size_t>(type)];
  HEED_ASSERT(layout.type == type, "layouts in the order of their types");
  return layout;
}

std::span<const BlockLayout> block_layouts() { return kLayouts; }

std::optional<BlockLayout> layout_of_ggml(std::uint32_t id) {
  for (const BlockLayout& layout : kLayouts) {
    if (layout.id == id) return layout;
  }
  return std::nullopt;
}

std::string_view name_of_ggml(std::uint32_t id) {
  if (const auto layout = layout_of_ggml(id)) return layout->name;
  for (const OtherType& other : kOthers) {
    if (other.id == id) return other.name;
  }
  return {};
}

}  // namespace heed
