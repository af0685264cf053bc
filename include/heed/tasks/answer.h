// Extractive question answering: finds the span of a context that answers a question, using a model with a
// span head.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/tasks/batches.h"

namespace HEED_API heed {

struct Question {
  std::string question;
  std::string context;
};

struct Answer {
  std::string text;        ///< part of the context; empty for "no answer"
  double score = 0;        ///< P(start) * P(end) within the window
  std::int64_t start = 0;  ///< first character in the context
  std::int64_t end = 0;    ///< one past the last
};

struct AnswerOptions {
  TaskOptions task = {};
  std::int64_t top_k = 1;
  std::int64_t max_answer_tokens = 30;  ///< as in training's scores, and those of BERT on SQuAD
  std::int64_t max_input_tokens =
      384;                    ///< tokens per window: question, special tokens and a part of the context
  std::int64_t stride = 128;  ///< overlap of consecutive windows, in tokens of the context
  /// Allows "no answer" as a candidate, as in SQuAD 2. Its score is that of a span on the first token.
  bool impossible = false;
  /// With `impossible`: "no answer" wins if its score exceeds this factor times that of the best span.
  double null_factor = 1.0;
};

/// Returns the best answers to every question, in order, best first. A context longer than a window is read
/// in overlapping windows. Answers begin and end at word boundaries. Throws Error if the model has another
/// head, if a question or a context is empty, or if a question fills a whole window.
std::vector<std::vector<Answer>> answer(const EncoderModel& model, const Tokenizer& tokenizer,
                                        std::span<const Question> questions,
                                        const AnswerOptions& options = {});

}  // namespace heed
