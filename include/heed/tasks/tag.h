// Labels of the tokens of a text, and the entities they make, by a model with a token head.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "heed/tasks/batches.h"

namespace heed {

/// How labels of tokens become entities.
enum class Aggregation : std::uint8_t {
  none,     ///< not at all: one result per token
  simple,   ///< neighbours of one label are joined
  first,    ///< each word takes the label of its first token, then as `simple`
  average,  ///< each word takes the label with the best mean score over its tokens, then as `simple`
  max,      ///< each word takes the label of its surest token, then as `simple`
};

struct TaggedText {
  std::string label;       ///< without its B- or I- where tokens were joined
  double score = 0;        ///< softmax over the labels; the mean of what was joined
  std::string word;        ///< the tokens as text
  std::int64_t start = 0;  ///< first character in the text
  std::int64_t end = 0;    ///< one past the last
  std::int64_t index = 0;  ///< of the first token, counted with the added ones
};

struct TagOptions : TaskOptions {
  Aggregation aggregation = Aggregation::simple;
  /// How many tokens the windows of a text too long for the model share; each token is labelled where it has
  /// more context.
  std::int64_t stride = 64;
  std::vector<std::string> ignored_labels = {"O"};  ///< left out of the result
};

/// The entities of every text, in the texts' order. A label that begins with B- starts an entity; one with I-
/// or without either goes on with the entity before it, if that has the same name. Throws Error when the
/// model has another head.
std::vector<std::vector<TaggedText>> tag(const EncoderModel& model, const Tokenizer& tokenizer,
                                         std::span<const std::string> texts, const TagOptions& options = {});

}  // namespace heed
