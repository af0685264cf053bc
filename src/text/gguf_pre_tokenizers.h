// How llama.cpp's names of pre-tokenizers (tokenizer.ggml.pre) split a text before byte pair encoding.
#pragma once

#include <span>
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

}  // namespace heed
