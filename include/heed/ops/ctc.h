// Connectionist temporal classification: the loss of a text against frames of sound that are not aligned with
// it.
#pragma once

#include <cstdint>

#include "heed/export.h"
#include "heed/ops/loss.h"
#include "heed/tensor.h"

namespace HEED_API heed {

struct CtcOptions {
  std::int64_t blank = 0;                 ///< the class between labels
  Reduction reduction = Reduction::mean;  ///< mean: over the rows, each divided by its number of labels
  bool zero_infinity = false;             ///< rows without an alignment have loss 0 and no gradient
};

/// Minus the logarithm of the probability of the labels, which is the sum over all ways to give each frame a
/// label or the blank so that, without repetitions and then without blanks, the labels are left; p =
/// softmax(logits). Graves et al. 2006, "Connectionist Temporal Classification".
///
/// `logits` [B, T, V] (f32 or f64); `labels` i64 [B, S], negative ones do not count; `lengths` i64 [B], the
/// frames of each row that count, or undefined for all. Returns a scalar, or without reduction the loss of
/// every row [B]; infinite where there are too few frames (the gradient is then NaN, as PyTorch's). Throws
/// Error for a label or blank of V or more, and for a length outside [0, T].
Tensor ctc_loss(const Tensor& logits, const Tensor& labels, const Tensor& lengths = {},
                const CtcOptions& options = {});
/// The same with softmax, matrix products and log, in probabilities: for few frames.
Tensor ctc_loss_by_formula(const Tensor& logits, const Tensor& labels, const Tensor& lengths = {},
                           const CtcOptions& options = {});

}  // namespace heed
