// What BERT and its descendants of the same shape (RoBERTa) share: the names of their settings, of the
// tensors of their body, and the parts made of these.
#pragma once

#include <string>
#include <vector>

#include "models/encoder.h"

namespace heed {

/// Reads BERT's settings on top of EncoderConfig::parse_common, without checking for unknown keys. The
/// padding id is `padding` where the config says nothing of it, and none where it says null.
EncoderConfig parse_bert_settings(const Config& json, std::int64_t padding);

/// The embeddings (word, position, type) and their norm below `prefix`.
void add_bert_embeddings(TensorTable& table, const EncoderConfig& config, const std::string& prefix);
InputEmbeddings bert_embeddings(const EncoderConfig& config, const Weights& weights,
                                const std::string& prefix);

/// Embeddings, layers and, with `pooler`, the pooler, below `prefix`.
void add_bert_body(TensorTable& table, const EncoderConfig& config, const std::string& prefix, bool pooler);
EncoderParts bert_body(const EncoderConfig& config, const Weights& weights, const std::string& prefix);

/// A map over labels (of a sequence or of tokens) or, for spans, to first and last: named `classifier` and
/// `qa_outputs`.
void add_label_head(TensorTable& table, const EncoderConfig& config, const std::string& classifier);
EncoderHeadParts label_head(const EncoderConfig& config, const Weights& weights,
                            const std::string& classifier);

/// The output of a masked_lm head: NAME.weight, tied to `words` or not, and NAME.bias, which is also `bias`.
void add_vocabulary_head(TensorTable& table, const EncoderConfig& config, const std::string& name,
                         const std::string& bias, const std::string& words);

}  // namespace heed
