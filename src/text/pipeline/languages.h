// The languages of translation models: their codes, and the tokens around a text that name its language.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heed/text/tokenizer.h"
#include "text/loading/tokenizer_config.h"
#include "text/pipeline/added_tokens.h"
#include "text/pipeline/stages.h"

namespace heed {

/// How the texts of a class of tokenizers name their language.
struct LanguageRule {
  std::string_view tokenizer_class;
  std::string_view codes;   ///< in the order of their ids, with a space between
  std::string_view source;  ///< the source language if the files name none
  bool first;               ///< `fr A </s>` instead of `A </s> fr`
  bool starts_decoder;      ///< see Languages
  bool underscored;         ///< the token of the language `fr` is `__fr__`
};

inline constexpr const char* kM2m100Class = "M2M100Tokenizer";

/// Returns the rule of a tokenizer_class (with or without Fast at its end), or null if it has none.
const LanguageRule* language_rule(std::string_view tokenizer_class);
std::vector<std::string_view> language_codes(std::string_view codes);

/// Returns M2M100's token for a language, as in `__fr__`.
std::string m2m100_token(std::string_view code);

/// The languages of a tokenizer, and the post-processors that add the tokens of the chosen two.
class LanguageMarks {
 public:
  /// `languages.list` must not be empty. The rule and src_lang, tgt_lang and legacy_behaviour of the
  /// configuration choose the rest. Throws Error if a chosen language is not in the list.
  LanguageMarks(Languages languages, const LanguageRule& rule, const TokenizerConfig& config, EndToken end);

  const Languages& languages() const { return languages_; }
  /// See Tokenizer::set_languages.
  void choose(std::optional<std::string_view> source, std::optional<std::string_view> target);
  const PostProcessor& source() const { return *source_; }
  const PostProcessor& target() const { return *target_; }

 private:
  void make_processors();

  Languages languages_;
  bool first_;
  EndToken end_;
  std::unique_ptr<const PostProcessor> source_, target_;
};

/// Returns the languages of a pipeline: the codes that have a token, and special tokens that look like a
/// code (letters with an underscore), which models fine-tuned for more languages have.
std::vector<Language> find_languages(const LanguageRule& rule, const AddedTokens& added,
                                     const TokenTable& vocabulary);

}  // namespace heed
