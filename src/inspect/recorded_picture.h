// From recorded attention to a picture: maps, rollout, and what the page shows beside the maps, the sizes of
// the model among it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "heed/inspect/record.h"
#include "heed/models/model.h"
#include "heed/plot/picture.h"

namespace heed::inspect {

/// The empty map of a measure of a layer.
AttentionMap empty_map(const RecordedLayer& layer, const std::string& measure);

/// Adds each head of a measure [H, T, S] of a layer.
void add_heads(AttentionPicture& picture, const RecordedLayer& layer, const Tensor& values,
               const std::string& measure);

/// Adds the rollout of each kind of self-attention, for the layers of the list (empty: all). The record has
/// all layers.
void add_rollout(AttentionPicture& picture, const AttentionRecord& record,
                 const std::vector<std::int64_t>& layers = {});

/// Adds the norms of the values, and queries and keys unless there are more than `most_vectors` numbers of
/// them, where they are recorded.
void add_facts(AttentionPicture& picture, const AttentionRecord& record, std::int64_t most_vectors);

/// The number of heads of each layer, without a pass; 0 for a layer without that kind of attention. Empty for
/// models without stacks of layers (recurrent ones), and for a pooling.
std::vector<std::int64_t> attention_heads(const Model& model, const AttentionKind& kind);

/// What a page says of the kinds of attention.
std::map<std::string, AttentionSize> attention_sizes(const Model& model,
                                                     const std::vector<AttentionKind>& kinds);

/// What an encoder's head is for: `masked_lm`, `sequence`, `token`, `span`, `ctc` or `none`.
const char* name_of(EncoderHead head);
/// The same of any model: also `causal_lm`, `encoder_decoder`, and `towers` of texts and images.
const char* task_of(const Model& model);

/// The most probable tokens of a row of logits, most probable first.
struct RankedToken {
  std::int64_t id = 0;
  float probability = 0, logit = 0;
};
/// Of each row of logits [R, V].
std::vector<std::vector<RankedToken>> ranked_tokens(const Tensor& logits, std::int64_t count);

}  // namespace heed::inspect
