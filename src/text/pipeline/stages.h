// The stages of a tokenizer file around its model: a normalizer changes a text, a pre-tokenizer splits it
// into pieces, which the model tokenizes independently, a post-processor adds special tokens around one text
// or two and trims offsets, and a decoder joins tokens to text.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json_field.h"
#include "heed/text/tokenizer.h"
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

class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  /// Changes the encodings of one text or two, and adds special tokens to them if `add_special_tokens`.
  virtual void apply(std::vector<Encoding>& texts, bool add_special_tokens) const = 0;
  /// How often a text may stand in the result.
  virtual std::int64_t repeats() const { return 1; }
};

/// Parses a `post_processor` object. Throws Error naming file and field if the kind is unknown or its
/// settings are invalid. `depth` counts nested sequences.
std::unique_ptr<const PostProcessor> parse_post_processor(const JsonField& field, int depth = 0);

/// Appends `second` to `first` without copying the longer of the two: adding one token before a text of a
/// million tokens does not copy the text.
void join(Encoding& first, Encoding second);

/// Applies a post-processor, which may be null, to one text or two, and joins the result.
Encoding process(const PostProcessor* processor, Encoding first, std::optional<Encoding> second,
                 bool add_special_tokens);

/// A TemplateProcessing that adds one token before and one after each text.
struct EndToken {
  std::int64_t id;
  std::string token;
};
std::unique_ptr<const PostProcessor> ends_processor(std::optional<EndToken> first,
                                                    std::optional<EndToken> last);
/// A TemplateProcessing that adds tokens of type 0 before the first and after the last text.
std::unique_ptr<const PostProcessor> frame_processor(const std::vector<EndToken>& before,
                                                     const std::vector<EndToken>& after,
                                                     std::int64_t type_of_second = 0);

class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  /// Converts tokens to parts of the text, which the caller concatenates.
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};

/// Parses a `decoder` object. Throws Error naming file and field if the kind is unknown or its settings are
/// invalid. `depth` counts nested sequences.
std::unique_ptr<const TokenDecoder> parse_decoder(const JsonField& field, int depth = 0);

/// Replaces each `from`, from the left, by `to`. An empty `from` is nowhere.
void replace_all(std::string& text, std::string_view from, std::string_view to);

}  // namespace heed
