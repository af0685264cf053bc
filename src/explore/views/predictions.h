// What a model predicts: rows of logits, and the candidates of each as JSON; and what a model of texts and
// images makes of an image beside labels of one's own.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "explore/model/explored_model.h"
#include "heed/nn/context.h"
#include "inspect/recorded_picture.h"

namespace heed::explore {

/// The rows of logits that are shown, in the order of the text.
struct PredictedRows {
  Tensor logits;                                       ///< f32 [R, V]; undefined for a model without a head
  std::vector<std::optional<std::int64_t>> positions;  ///< of each row; none for a whole text
  std::vector<std::string> of;  ///< `decoder`, `encoder`, or `start` and `end` of an answer
};

/// Of an image that is compared with labels, one row over them. Of a decoder, an encoder-decoder and a head
/// for tokens, each position; of a masked language model, each mask token; of a sequence head, one row; of a
/// span head, two, over positions.
PredictedRows predicted_rows(const ExploredModel& model, const ExploredText& text, const TensorMap& outputs,
                             Context& context);

/// The `count` best candidates of every row.
std::vector<std::vector<inspect::RankedToken>> ranked(const PredictedRows& rows, std::int64_t count);

/// Throws Error unless the model compares images with labels.
void check_labels(const ExploredModel& model, const std::vector<std::string>& labels);

/// The logits f32 [1, labels] of text.labels and the image whose last hidden state [1, T, D] is given. Taps
/// of `context` change the tower for texts too.
Tensor label_logits(const ExploredModel& model, const ExploredText& text, const Tensor& hidden,
                    Context& context);

/// Adds the attention within label `index` to the record, and its tokens to the text: the kind `text`.
void add_label(const ExploredModel& model, ExploredText& text, std::size_t index,
               const RecordOptions& options, AttentionRecord& record);

/// "predictions" of an answer. `before` are the logits without the changes; undefined where there are none.
nlohmann::json predictions_json(const ExploredModel& model, const ExploredText& text,
                                const PredictedRows& rows,
                                const std::vector<std::vector<inspect::RankedToken>>& ranked,
                                const Tensor& before);

}  // namespace heed::explore
