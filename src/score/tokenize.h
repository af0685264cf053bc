// BLEU's tokenizers.
#pragma once

#include <string>

#include "heed/score/bleu.h"
#include "score/segment.h"

namespace heed::score {

/// Splits a line into words after removing white space at its end and lower-casing it on request.
Words bleu_words(const std::string& line, const BleuOptions& options);

}  // namespace heed::score
