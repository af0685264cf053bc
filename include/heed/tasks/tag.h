// Token classification: predicts labels of tokens, and the entities they form, using a model with a token
// head.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/tasks/batches.h"

namespace HEED_API heed {

/// How token labels are merged into entities, as in Hugging Face's pipeline.
enum class Aggregation : std::uint8_t {
  none,     ///< one result per token
  simple,   ///< adjacent tokens with the same label are merged
  first,    ///< each word takes the label of its first token, then as `simple`
  average,  ///< each word takes the label with the best mean score over its tokens, then as `simple`
  max,      ///< each word takes the label of its highest-scoring token, then as `simple`
};

struct TaggedText {
  std::string label;       ///< without B- or I- if tokens were merged
  double score = 0;        ///< softmax over the labels; the mean over merged tokens
  std::string word;        ///< the tokens as text
  std::int64_t start = 0;  ///< first character in the text
  std::int64_t end = 0;    ///< one past the last
  std::int64_t index = 0;  ///< index of the first token, including special tokens
};

struct TagOptions {
  TaskOptions task = {};
  Aggregation aggregation = Aggregation::simple;
  /// Overlap, in tokens, of the windows of a text that is too long for the model. Each token is labeled in
  /// the window in which it has more context.
  std::int64_t stride = 64;
  std::vector<std::string> ignored_labels = {"O"};  ///< omitted from the result
};

/// Returns the entities of every text, in order. A label with B- starts an entity; one with I- or without a
/// prefix continues the previous entity if that has the same name. Throws Error if the model has another
/// head.
std::vector<std::vector<TaggedText>> tag(const EncoderModel& model, const Tokenizer& tokenizer,
                                         std::span<const std::string> texts, const TagOptions& options = {});

}  // namespace heed
