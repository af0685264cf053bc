// Normalizers: what a tokenizer file does to a text before it is cut.
#pragma once

#include <memory>

#include "text/json_field.h"
#include "text/normalized_text.h"

namespace heed {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(NormalizedText& text) const = 0;
  /// Whether the two sides of a word end (text/word_ends.h) are normalized on their own, as long as letters
  /// and digits stay such there.
  virtual bool keeps_word_ends() const { return true; }
};

/// The normalizer that a `normalizer` object describes. Throws Error naming file and field where the kind is
/// unknown or its settings are wrong. `depth` counts nested sequences.
std::unique_ptr<const Normalizer> parse_normalizer(const JsonField& field, int depth = 0);

/// How deep sequences may be nested in sequences.
inline constexpr int kMaxNesting = 16;

/// Unicode's normalisation forms, aligned.
enum class UnicodeForm { nfd, nfc, nfkd, nfkc };
void normalize_unicode(NormalizedText& text, UnicodeForm form);

/// Leaves out the characters for which `keep` is false.
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
