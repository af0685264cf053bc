// From text to text with an encoder-decoder: tokenise, search, detokenise.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "heed/generate/search.h"
#include "heed/text/tokenizer.h"

namespace heed {

/// What to do with a line that has more tokens than the model has positions.
enum class LongLines : std::uint8_t {
  cut,    ///< translate what fits
  split,  ///< translate it in parts, cut at ends of sentences where possible, and join the translations
  error,  ///< throw Error
};

struct TranslateOptions {
  GenerationOptions generation = {};
  std::int64_t batch_tokens = 4096;  ///< see search_sources
  LongLines long_lines = LongLines::cut;
  /// Put before every text that is not blank, e.g. "translate English to German: ".
  std::string prefix = {};
  /// Number of texts translated before these: where the texts are a window of a longer input, messages and
  /// random draws are those of the whole.
  std::size_t first_line = 0;
  /// Taps to keep, see SearchOptions; not together with LongLines::split.
  std::vector<std::string> capture = {};
  /// Told about every line that was changed before translation: index in `texts`, plus first_line, and what
  /// happened.
  std::function<void(std::size_t line, const std::string& message)> warn = {};
};

/// One translation of a line.
struct TranslationCandidate {
  std::string text;
  std::vector<std::string> tokens;  ///< one for each of hypothesis.ids
  Hypothesis hypothesis;            ///< cross-attention is cut to the source's own tokens
};

struct Translation {
  std::vector<std::string> source_tokens;
  std::vector<TranslationCandidate> candidates;  ///< the best first, never empty
  const std::string& text() const { return candidates.front().text; }
};

/// Translates every text; the result has their order and number. An empty (or blank) text gives empty
/// candidates. Invalid UTF-8 is replaced by U+FFFD. Without a maximum length in the options, the model's
/// positions are it, or 512 tokens where it has no limit.
std::vector<Translation> translate(const EncoderDecoderModel& model, const Tokenizer& tokenizer,
                                   std::span<const std::string> texts, const TranslateOptions& options);

}  // namespace heed
