// Which family a SentencePiece model belongs to: its configuration files say so, or its own pieces.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "text/sentencepiece_file.h"

namespace heed {

enum class TokenizerFamily {
  xlm_roberta,
  camembert,
  mbart,
  mbart50,
  nllb,
  m2m100,
  albert,
  t5,
  pegasus,
  deberta
};

inline constexpr const char *kFairseqFile = "sentencepiece.bpe.model", *kPlainFile = "spiece.model",
                            *kDebertaFile = "spm.model";

/// Returns the family of a model whose file in `directory` is `name`. It is named by the tokenizer_class of
/// tokenizer_config.json, else by the tokenizer_class or model_type of config.json. Without these, a
/// spiece.model is T5's unless it has a piece of ALBERT's, and a spm.model is DeBERTa's. Throws Error if no
/// family has these names.
TokenizerFamily detect_family(const std::filesystem::path& directory, const SentencePieceFile& file,
                              std::string_view name);

/// Returns the family's tokenizer_class.
const char* tokenizer_class_of(TokenizerFamily family);

}  // namespace heed
