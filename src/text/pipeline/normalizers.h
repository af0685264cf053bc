// Normalizers: change a text before it is pre-tokenized, as a tokenizer file describes.
#pragma once

#include <memory>

#include "core/json_field.h"
#include "text/pipeline/normalized_text.h"

namespace heed {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(NormalizedText& text) const = 0;
  /// Returns true if the two sides of a word end (text/word_ends.h) are normalized independently, provided
  /// that letters and digits there remain letters and digits.
  virtual bool preserves_word_ends() const { return true; }
};

/// Parses a `normalizer` object. Throws Error naming file and field if the kind is unknown or its settings
/// are invalid. `depth` counts nested sequences.
std::unique_ptr<const Normalizer> parse_normalizer(const JsonField& field, int depth = 0);

/// Makes letters small, then applies `rest`, which may be null.
std::unique_ptr<const Normalizer> lowercase_before(std::unique_ptr<const Normalizer> rest);

/// Maximum depth of nested sequences.
inline constexpr int kMaxNesting = 16;

/// Unicode's normalization forms, with alignment.
enum class UnicodeForm { nfd, nfc, nfkd, nfkc };
void normalize_unicode(NormalizedText& text, UnicodeForm form);

/// Removes the characters for which `keep` is false.
template <class Keep>
void filter_characters(NormalizedText& text, Keep keep) {
  Rewrite rewrite(text);
  bool changed = false;
  while (!rewrite.done()) {
    if (keep(rewrite.peek())) {
      rewrite.keep();
    } else {
      rewrite.drop(1);
      changed = true;
    }
  }
  if (changed) text = rewrite.finish();
}

}  // namespace heed
