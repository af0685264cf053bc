// How llama.cpp's names of pre-tokenizers (tokenizer.ggml.pre) split a text before byte pair encoding.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace heed {

/// One way to split.
struct GgufPreTokenizer {
  std::string_view names;  ///< of the models that have it, separated by spaces
  /// Applied one after the other: what a pattern matches and what is between become pieces.
  std::span<const std::string_view> patterns;
  bool adds_bos = false;           ///< unless the file says otherwise
  bool ignores_merges = false;     ///< a piece that is a token needs no merges
  bool composes = false;           ///< Unicode's form NFC first, as these models' own files have it
  bool joins_pairs_twice = false;  ///< RoBERTa: two separators between the texts of a pair
};

/// The one of that name, or null.
const GgufPreTokenizer* gguf_pre_tokenizer(std::string_view name);
/// The name of one that splits by these patterns, or nothing if there is none.
std::string_view gguf_pre_tokenizer_name(std::span<const std::string> patterns, bool composes,
                                         bool ignores_merges);

}  // namespace heed
