// Extractive question answering: the span of a context that answers a question, by a model with a span head.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "heed/tasks/batches.h"

namespace heed {

struct Question {
  std::string question;
  std::string context;
};

struct Answer {
  std::string text;        ///< part of the context; empty for "no answer"
  double score = 0;        ///< probability of the start times that of the end, in the window
  std::int64_t start = 0;  ///< first character in the context
  std::int64_t end = 0;    ///< one past the last
};

struct AnswerOptions : TaskOptions {
  std::int64_t top_k = 1;
  std::int64_t max_answer_tokens = 15;
  std::int64_t max_input_tokens =
      384;                    ///< tokens per window: question, special tokens and a part of the context
  std::int64_t stride = 128;  ///< overlap of consecutive windows, in tokens of the context
  /// Whether "no answer" is a candidate, as in SQuAD 2: its score is that of a span on the first token.
  bool impossible = false;
  /// With `impossible`: "no answer" wins if its score exceeds this factor times that of the best span.
  double null_factor = 1.0;
};

/// For every question, in order, the best answers, best first. A context longer than a window is read in
/// overlapping windows. Answers begin and end with whole words. Throws Error when the model has another head,
/// when a question or a context is empty, and when a question fills a whole window.
std::vector<std::vector<Answer>> answer(const EncoderModel& model, const Tokenizer& tokenizer,
                                        std::span<const Question> questions,
                                        const AnswerOptions& options = {});

}  // namespace heed
