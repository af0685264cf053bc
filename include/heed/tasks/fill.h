// Filling masked places: which tokens a model with a masked_lm head expects where a text has its mask token.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "heed/tasks/batches.h"

namespace heed {

struct FillCandidate {
  std::int64_t id = 0;
  std::string token;  ///< the id as text
  double probability = 0;
  double log_probability = 0;
  /// The whole text with this token in its place; other masks stay, and with them all special tokens.
  std::string sequence;
};

/// Candidates for each mask of a text, the likeliest first.
using FilledText = std::vector<std::vector<FillCandidate>>;

/// The `top_k` likeliest tokens for every mask of every text, by the softmax over the whole vocabulary. The
/// result has the texts' order. Throws Error when the model has another head, the tokenizer no mask token,
/// or a text no mask.
std::vector<FilledText> fill_masks(const EncoderModel& model, const Tokenizer& tokenizer,
                                   std::span<const std::string> texts, std::int64_t top_k,
                                   const TaskOptions& options = {});

}  // namespace heed
