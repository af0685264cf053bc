// Mask filling: predicts the most probable tokens for the mask tokens of a text, using a model with a
// masked_lm head.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/tasks/batches.h"

namespace HEED_API heed {

struct FillCandidate {
  std::int64_t id = 0;
  std::string token;  ///< the id as text
  double probability = 0;
  double log_probability = 0;
  /// The whole text with this token filled in. Other masks and all special tokens are kept.
  std::string sequence;
};

/// Candidates for each mask of a text, most probable first.
using FilledText = std::vector<std::vector<FillCandidate>>;

/// Returns for every text, in order, and each of its masks, the `top_k` most probable tokens (softmax over
/// the whole vocabulary). Throws Error if the model has another head, if the tokenizer has no mask token, or
/// if a text has no mask.
std::vector<FilledText> fill_masks(const EncoderModel& model, const Tokenizer& tokenizer,
                                   std::span<const std::string> texts, std::int64_t top_k,
                                   const TaskOptions& options = {});

}  // namespace heed
