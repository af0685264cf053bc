// Pre-tokenizers: how a tokenizer file cuts a normalised text into pieces, each of which the model splits on
// its own.
#pragma once

#include <memory>

#include "text/json_field.h"
#include "text/normalized_text.h"

namespace heed {

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(Pieces& pieces) const = 0;

  /// What happens at a word end (text/word_ends.h), where `space` is a space or U+2581: `cut` there whatever
  /// is on either side, `kept` in one piece but with both sides cut on their own, or not known.
  enum class WordEnd { cut, kept, unknown };
  virtual WordEnd at_word_end(char32_t space) const = 0;
};

/// The pre-tokenizer that a `pre_tokenizer` object describes. Throws Error naming file and field where the
/// kind is unknown or its settings are wrong. `depth` counts nested sequences.
std::unique_ptr<const PreTokenizer> parse_pre_tokenizer(const JsonField& field, int depth = 0);

/// Metaspace's settings, which its decoder shares: the character that stands for a space, and when one is put
/// in front.
struct MetaspaceSettings {
  enum class Prepend { first, always, never };
  std::string replacement;
  Prepend prepend;
  bool split;
};
MetaspaceSettings parse_metaspace(const JsonField& field);

}  // namespace heed
