// The labels of heads that classify: their names and their kind as a config gives them, and the losses
// against them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heed/io/json.h"
#include "heed/models/model.h"
#include "heed/ops/loss.h"

namespace heed {

/// The names under `id2label`, else LABEL_0, LABEL_1, ... as many as `num_labels` says.
std::vector<std::string> label_names(const Config& json);
/// The kind of label that `problem_type` names, if it names one.
std::optional<LabelProblem> label_problem(const Config& json);
/// What sentence-transformers applies to the logit of a single label, where the config says: none (Identity)
/// or sigmoid, from `sentence_transformers.activation_fn` or the older
/// `sbert_ce_default_activation_function`.
std::optional<Activation> score_activation_setting(const Config& json);
/// Labels as i64 or f32 of the wanted shape (an axis of size 1 may be missing or too many).
Tensor labels_as(const Tensor& labels, DType dtype, const Shape& shape, const char* name);
/// The loss of logits [B, L] against labels of the known kind; else of that which their number and their type
/// suggest. Several values of a row count as their mean.
Tensor sequence_loss(const Tensor& logits, const Tensor& labels, std::optional<LabelProblem> known,
                     const CrossEntropyOptions& options);
/// ctc_loss of logits [B, T, V] against labels i64 [B, S], negative where there is none, over the frames that
/// `mask` [B, T] shows (all, where it is undefined). `ctc` says the reduction; a sum over a batch of several
/// (`options`) is the mean times the rows.
Tensor speech_loss(const Tensor& logits, const Tensor& labels, const Tensor& mask, const CtcOptions& ctc,
                   const CrossEntropyOptions& options);
/// The loss of the first and the last token of each answer, i64 [B, 2], against logits [B, T, 2]. Positions
/// beyond the end do not count: the answer was cut off.
Tensor span_loss(const Tensor& logits, const Tensor& positions, CrossEntropyOptions options);

}  // namespace heed
