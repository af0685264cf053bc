// What a run of a text changes and shows: changes of heads and steering as listeners, what the model
// predicts, and views that are computed on their own, each as JSON.
#pragma once

#include <atomic>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "explore/model/explored_model.h"
#include "heed/nn/context.h"
#include "heed/nn/tap.h"
#include "inspect/recorded_picture.h"

namespace heed::explore {

/// The tap of the heads' outputs (before the output projection) of a kind of attention in a layer.
std::string heads_tap(const AttentionKind& kind, std::int64_t layer);

/// Throws Error that begins with `where` for a head that the model lacks.
void check_head(const ExploredModel& model, const HeadChoice& head, const std::string& where);

/// Whether a run is that of the model as it is.
bool is_unchanged(const RunRequest& run);

/// Registers what a run changes: steering, and the changes of heads in their order. For a patch, runs the
/// model, not steered, on its text; in an encoder-decoder, a text without a target goes with the target of
/// `text`. Throws Error for kinds, layers, heads and vectors that the model lacks, and for a text of another
/// number of tokens; Canceled once `stop` is true.
void add_changes(Taps& taps, const ExploredModel& model, const ExploredText& text, const RunRequest& run,
                 const std::atomic<bool>& stop);

/// The first `keys` of a dimension, counted from the last, -1: those behind them, which are not shown, are
/// frames of a recording's padding. An undefined tensor stays.
Tensor shown_keys(const Tensor& x, int dimension, std::int64_t keys);

/// The changes as the request spells them.
nlohmann::json changes_json(const std::vector<HeadChange>& changes);

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

/// One forward pass, with the listeners of `changes` before. Throws Error for a stack, position or candidate
/// that the model does not have; Canceled once `stop` is true.
nlohmann::json flow_json(const ExploredModel& model, const ExploredText& text, const FlowRequest& request,
                         Taps& changes, const std::atomic<bool>& stop);

/// One forward pass, with the listeners of `changes` before. Throws Error for a head or query that the model
/// does not have, and for an attention without a softmax of scores; Canceled once `stop` is true.
nlohmann::json head_steps_json(const ExploredModel& model, const ExploredText& text,
                               const StepsRequest& request, Taps& changes, const std::atomic<bool>& stop);

/// attribute_score() with the listeners of `changes`: the largest pairs, and what each part adds over all of
/// the other side. Throws Error for what has no such score; Canceled once `stop` is true.
nlohmann::json why_json(const ExploredModel& model, const ExploredText& text, const WhyRequest& request,
                        Taps& changes, const std::atomic<bool>& stop);

/// Runs a text soundly and with mistakes: those of inspect/mistakes.h, and `exchange`, which exchanges two
/// tokens of the (source) text. Throws Error for a mistake that the model cannot make; Canceled once `stop`
/// is true.
nlohmann::json mistakes_json(const ExploredModel& model, const ExploredText& text,
                             const MistakesRequest& request, const std::atomic<bool>& stop);

/// Row-major numbers of a value, whatever its dtype, as the page reads them exactly: f32, little-endian, in
/// base64.
std::string row_bytes(const Tensor& x);

}  // namespace heed::explore
