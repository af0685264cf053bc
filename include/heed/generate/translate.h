// Translation and other sequence-to-sequence tasks, from text to text: tokenizes, searches, and decodes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/generate/search.h"
#include "heed/text/task_options.h"

namespace HEED_API heed {

class Tokenizer;

/// The treatment of a line that has more tokens than the model has positions, or than
/// GenerationOptions::max_source_length.
enum class LongLines : std::uint8_t {
  cut,    ///< truncate the line
  split,  ///< translate it in parts, split at sentence ends if possible, and join the translations
  error,  ///< throw Error
};

struct TranslateOptions {
  /// on_warning receives every line that was changed before its translation, and those whose translation the
  /// model's last position ended; on_error the lines that LongLines::error rejects.
  TaskOptions task = {};
  GenerationOptions generation = {};
  LongLines long_lines = LongLines::cut;
  /// Prefix of every text that is not blank, e.g. "translate English to German: ".
  std::string prefix = {};
  /// Taps to capture, see SearchHooks. Not together with LongLines::split.
  std::vector<std::string> capture = {};
};

/// One translation of a line.
struct TranslationCandidate {
  std::string text;
  std::vector<std::string> tokens;  ///< one per id of hypothesis.ids
  Hypothesis hypothesis;            ///< cross-attention without the source's padding
};

struct Translation {
  std::vector<std::string> source_tokens;
  std::vector<TranslationCandidate> candidates;  ///< best first, never empty
  const std::string& text() const { return candidates.front().text; }
};

/// Translates every text. Returns one entry per text, in order. An empty (or blank) text gives empty
/// candidates. Invalid UTF-8 is replaced by U+FFFD. If the options set no maximum length, it is the number of
/// the model's positions, or 512 tokens for a model without a limit.
std::vector<Translation> translate(const EncoderDecoderModel& model, const Tokenizer& tokenizer,
                                   std::span<const std::string> texts, const TranslateOptions& options);

}  // namespace heed
