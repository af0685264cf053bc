// How weights of a few bits are stored: in blocks of consecutive numbers of a row, each block with its
// scales. The types and their layouts are those of ggml (GGUF files). The plain 16 and 32-bit types are
// blocks of one number.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace heed {

enum class BlockType : std::uint8_t {
  f32,
  f16,
  bf16,
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl,
  iq4_xs,
  mxfp4,
};

/// What a block is made of.
struct BlockLayout {
  BlockType type = BlockType::f32;
  std::string_view name;     ///< as ggml spells it: Q4_K
  std::uint32_t id = 0;      ///< ggml_type, the number in a GGUF file
  std::int64_t numbers = 1;  ///< in a block
  std::int64_t bytes = 0;    ///< of a block
};

const BlockLayout& layout_of(BlockType type);
/// All of them.
std::span<const BlockLayout> block_layouts();
/// The layout of a ggml_type, or nullopt for one that heed does not read.
std::optional<BlockLayout> layout_of_ggml(std::uint32_t id);
/// ggml's name of a type, also of those that heed does not read; empty for a number that is no type.
std::string_view name_of_ggml(std::uint32_t id);

}  // namespace heed
