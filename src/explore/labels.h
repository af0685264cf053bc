// Labels of one's own: what a model of texts and images makes of an image beside them.
#pragma once

#include <atomic>

#include "explore/explored_model.h"
#include "heed/nn/context.h"

namespace heed::explore {

/// Throws Error unless the model compares images with labels.
void check_labels(const ExploredModel& model, const std::vector<std::string>& labels);

/// The logits f32 [1, labels] of text.labels and the image whose last hidden state [1, T, D] is given. Taps
/// of `context` change the tower for texts too.
Tensor label_logits(const ExploredModel& model, const ExploredText& text, const Tensor& hidden,
                    Context& context);

/// Adds the attention within label `index` to the record, and its tokens to the text: the kind `text`.
void add_label(const ExploredModel& model, ExploredText& text, std::size_t index,
               const RecordOptions& options, AttentionRecord& record);

}  // namespace heed::explore
