// BLEU's tokenisers.
#pragma once

#include <string>

#include "heed/score/bleu.h"
#include "score/segment.h"

namespace heed::score {

/// The words of a line, after lower-casing if asked, with the end's white space removed first.
Words bleu_words(const std::string& line, const BleuOptions& options);

}  // namespace heed::score
