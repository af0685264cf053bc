// BLEU by the length of the source: the plot of Bahdanau, Cho and Bengio 2015 (figure 2) that shows how much
// of a long sentence a model loses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/score/bleu.h"

namespace HEED_API heed {

/// The lines whose source has `from` to `to` words (separated by white space).
struct LengthGroup {
  std::int64_t from = 0, to = 0;
  std::int64_t lines = 0;
  double mean_words = 0;  ///< of the sources
  BleuScore bleu;
};

/// BLEU of the lines in groups of `width` lengths: 1 to width words, width + 1 to 2 width, ... Groups without
/// lines are left out, and empty sources belong to none. Throws Error where corpus_bleu does, if there are
/// not as many sources as hypotheses, or if `width` is below 1.
std::vector<LengthGroup> bleu_by_length(const std::vector<std::string>& sources,
                                        const std::vector<std::string>& hypotheses,
                                        const std::vector<std::vector<std::string>>& references,
                                        std::int64_t width, const BleuOptions& options = {});

}  // namespace heed
