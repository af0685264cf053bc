// When words were spoken: dynamic time warping over the cross-attention of the alignment heads, as OpenAI's
// whisper does it (timing.py).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "heed/models/model.h"
#include "heed/tasks/transcribe.h"
#include "heed/text/tokenizer.h"

namespace heed::tasks {

/// Words as their tokens. Languages that write no spaces between words are split into characters.
struct SplitWords {
  std::vector<std::string> words;
  std::vector<std::vector<std::int64_t>> tokens;
};
SplitWords split_words(const Tokenizer& tokenizer, std::span<const std::int64_t> tokens, bool by_characters);

/// The cheapest monotone path through costs [rows, columns] from the first corner to the last, as the first
/// column of each row.
std::vector<std::int64_t> warp_times(std::span<const float> costs, std::int64_t rows, std::int64_t columns);

/// The median of the `width` values around each one, the ends reflected; unchanged where there are too few.
void median_filter(std::span<float> values, std::int64_t width);

/// What a window's words are found from.
struct WordWindow {
  const EncoderDecoderModel& model;
  const Tokenizer& tokenizer;
  const SpeechSettings& settings;
  Decoding& decoding;                   ///< of the window, one row; it is truncated
  std::span<const std::int64_t> start;  ///< start token, language, task
  std::string language;
  std::int64_t positions = 0;  ///< of the encoder, that hold sound
  double seconds_per_position = 0;
  double offset = 0;  ///< of the window, in seconds
};

/// Finds the words of a window's segments, and moves the segments' times to those of their words.
/// `last_speech` is the end of the last word before, and is set to that of these.
void add_word_times(const WordWindow& window, std::vector<TranscriptSegment>& segments, double& last_speech,
                    Context& context);

}  // namespace heed::tasks
