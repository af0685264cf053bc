// What translate() has the model read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "heed/generate/translate.h"

namespace heed::generate {

/// The parts of all lines, concatenated, and the line that each belongs to. A blank line has none.
struct TranslationSources {
  std::vector<std::vector<std::int64_t>> ids;
  std::vector<std::vector<std::string>> tokens;
  std::vector<std::size_t> first_part;  ///< index of each line's first part, and one past the last
};

/// Throws Error as translate() does before it searches.
TranslationSources translation_sources(const EncoderDecoderModel& model, const Tokenizer& tokenizer,
                                       std::span<const std::string> texts, const TranslateOptions& options);

}  // namespace heed::generate
