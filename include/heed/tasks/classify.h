// Sequence classification: predicts labels of whole texts, using a model with a sequence head.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/tasks/batches.h"

namespace HEED_API heed {

struct LabelScore {
  std::size_t index = 0;  ///< index in the model's list of labels
  double score = 0;
};

/// How logits become scores. With one label, the config's score_activation decides. The default depends on
/// the model's problem_type: none for regression; sigmoid of each logit for multi_label and if there is one
/// label; otherwise softmax over the labels.
enum class LabelFunction : std::uint8_t { sigmoid, softmax, none };
LabelFunction label_function(const EncoderModel& model);

/// Returns for every text, in order, the `top_k` labels (0: all) with the highest scores, highest first.
/// Throws Error if the model has another head.
std::vector<std::vector<LabelScore>> classify(const EncoderModel& model, const Tokenizer& tokenizer,
                                              std::span<const TextPair> texts, std::int64_t top_k,
                                              const TaskOptions& options = {});

}  // namespace heed
