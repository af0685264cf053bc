// Sequence classification: labels of whole texts, by a model with a sequence head.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "heed/tasks/batches.h"

namespace heed {

struct LabelScore {
  std::size_t index = 0;  ///< of the label in the model's list
  double score = 0;
};

/// How logits become scores. By the model's problem_type: none for regression; sigmoid of each logit for
/// multi_label and if there is one label; else softmax over the labels.
enum class LabelFunction : std::uint8_t { sigmoid, softmax, none };
LabelFunction label_function(const EncoderModel& model);

/// For every text, in order, the `top_k` labels (0: all) with the highest scores, highest first. Throws Error
/// when the model has another head.
std::vector<std::vector<LabelScore>> classify(const EncoderModel& model, const Tokenizer& tokenizer,
                                              std::span<const TextPair> texts, std::int64_t top_k,
                                              const TaskOptions& options = {});

}  // namespace heed
