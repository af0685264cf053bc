// The parts of tag(), for callers that run the model by themselves.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "heed/tasks/tag.h"
#include "heed/text/tokenizer.h"

namespace heed::tasks {

/// Names of the aggregations, as in Hugging Face's pipeline.
inline const std::vector<std::pair<std::string, Aggregation>> kAggregations = {
    {"none", Aggregation::none},
    {"simple", Aggregation::simple},
    {"first", Aggregation::first},
    {"average", Aggregation::average},
    {"max", Aggregation::max}};

/// The tokens of a text in windows that the model can read: one, unless it is too long.
std::vector<Encoding> tag_windows(const EncoderModel& model, const Tokenizer& tokenizer,
                                  const std::string& text, const TagOptions& options);

/// The entities of a text, from the logits [T, labels] of each of its windows. Throws Error for logits that
/// are not finite.
std::vector<TaggedText> tagged_text(const EncoderModel& model, const Tokenizer& tokenizer,
                                    const std::string& text, std::span<const Encoding> windows,
                                    std::span<const std::vector<float>> logits, const TagOptions& options);

/// The entities as JSON, in the form of Hugging Face's pipeline.
std::string tagged_json(std::span<const TaggedText> tagged, Aggregation aggregation);

}  // namespace heed::tasks
