// The character map of SentencePiece models (`precompiled_charsmap`): a double-array trie of byte strings,
// and the replacement of each.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/pipeline/normalized_text.h"

namespace heed {

/// A prefix tree over bytes in an array of units. A unit has the byte that leads to its node, and the index
/// that those of the node's children are relative to: each child is at this index XOR its byte. The node of
/// a string with a value has its value at that index.
class DoubleArray {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  explicit DoubleArray(std::vector<std::uint32_t> units = {}) : units_(std::move(units)) {}

  std::size_t size() const { return units_.size(); }
  static std::uint32_t root() { return 0; }
  /// Returns the child of a node by `byte`, or kNone if no string continues this way or it would be outside.
  std::uint32_t next(std::uint32_t node, char byte) const {
    const auto label = static_cast<unsigned char>(byte);
    const std::uint32_t child = children(node) ^ label;
    return label != 0 && leads_to(child, label) ? child : kNone;
  }
  /// Returns true if there is a unit `at` whose byte is `label`.
  bool leads_to(std::uint32_t at, std::uint32_t label) const {
    return at < units_.size() && (units_[at] & (1u << 31 | 0xFF)) == label;
  }
  /// Returns the index that a node's children are relative to.
  std::uint32_t children(std::uint32_t node) const {
    const std::uint32_t unit = units_[node];
    return node ^ ((unit >> 10) << ((unit & (1u << 9)) >> 6));
  }
  bool has_value(std::uint32_t node) const { return (units_[node] >> 8 & 1) != 0; }
  /// Returns the value of a node that has one, or kNone if it would be outside.
  std::uint32_t value(std::uint32_t node) const {
    const std::uint32_t at = children(node);
    return at < units_.size() ? units_[at] & ~(1u << 31) : kNone;
  }

 private:
  std::vector<std::uint32_t> units_;
};

class Charsmap {
 public:
  /// Returns the map of these bytes: the size of the array in four bytes, the array, and the replacements,
  /// each ended by a zero byte. Returns nullopt if they are too few. What is in the array is not checked: a
  /// damaged map may replace nothing.
  static std::optional<Charsmap> parse(std::string_view bytes);

  /// Replaces as the tokenizers library does: grapheme clusters, then characters.
  void apply(NormalizedText& text) const;

  struct Match {
    std::string_view replacement;
    std::size_t bytes = 0;  ///< of the text that are replaced; 0: none
  };
  /// Returns the entry of the longest beginning of `text` that has one, as SentencePiece does.
  Match longest(std::string_view text) const;

  /// Returns true if no text leads SentencePiece's library, which follows a map unchecked, outside it, to
  /// more prefixes than the library has room for, or to a replacement longer than kLongestReplacement.
  bool is_safe() const;
  static constexpr std::size_t kLongestReplacement = 256;  ///< bytes; the longest in Unicode's maps has 33

  /// Returns true if a string of the map has a space after its first byte.
  bool continues_by_space() const;

 private:
  Charsmap(DoubleArray trie, std::string replacements);
  /// Returns the replacement of a chunk: the entry of its shortest prefix that has one.
  std::optional<std::string_view> find(std::string_view chunk) const;
  bool needs_nothing(std::string_view text) const;

  DoubleArray trie_;
  std::string replacements_;               // each ends with a zero byte
  std::array<bool, 128> ascii_changes_{};  // true if the ASCII character by itself is replaced
};

}  // namespace heed
