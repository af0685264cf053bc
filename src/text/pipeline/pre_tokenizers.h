// Pre-tokenizers: split a normalized text into pieces, which the model tokenizes independently.
#pragma once

#include <memory>

#include "core/json_field.h"
#include "text/pipeline/normalized_text.h"

namespace heed {

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(Pieces& pieces) const = 0;

  /// What a pre-tokenizer does at a word end (text/word_ends.h), where `space` is a space or U+2581. `cut`:
  /// it always splits there. `kept`: both sides are in one piece but are split independently. `unknown`:
  /// neither is known.
  enum class WordEnd { cut, kept, unknown };
  virtual WordEnd at_word_end(char32_t space) const = 0;
};

/// Parses a `pre_tokenizer` object. Throws Error naming file and field if the kind is unknown or its settings
/// are invalid. `depth` counts nested sequences.
std::unique_ptr<const PreTokenizer> parse_pre_tokenizer(const JsonField& field, int depth = 0);

/// Settings that Metaspace shares with its decoder: the character that represents a space, and when one is
/// prepended.
struct MetaspaceSettings {
  enum class Prepend { first, always, never };
  std::string replacement;
  Prepend prepend;
  bool split;
};
MetaspaceSettings parse_metaspace(const JsonField& field);

}  // namespace heed
