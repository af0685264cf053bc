// Cross-entropy with class indices as targets, alone or fused with the projection that computes the logits.
#pragma once

#include <cstdint>
#include <functional>

#include "heed/export.h"
#include "heed/tensor.h"

namespace HEED_API heed {

enum class Reduction { mean, sum, none };

struct CrossEntropyOptions {
  double label_smoothing = 0.0;           ///< in [0, 1)
  std::int64_t ignore_index = -100;       ///< rows with this target are ignored
  double logit_cap = 0.0;                 ///< if > 0, softcap of the logits first (heed/ops/activation.h)
  double z_loss = 0.0;                    ///< coefficient of logsumexp(logits)^2 (PaLM, section 5)
  Reduction reduction = Reduction::mean;  ///< mean is over the rows that are not ignored
};

/// Cross-entropy of `logits` [..., V] (f32 or f64) against `targets` i64 [...]:
///   (1 - e) * -log p(target) + e / V * sum_v -log p(v)  [+ z * logsumexp^2],  p = softmax(logits), e =
///   label_smoothing.
/// Returns a scalar, or without reduction the loss of every row [...], 0 where ignored; the mean over no rows
/// is 0. Throws Error for a target outside [0, V) that is not ignore_index. Szegedy et al., "Rethinking the
/// Inception architecture" (label smoothing).
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options = {});
/// The same with exp, log, gather and sums. linear_cross_entropy is this of linear_by_formula.
Tensor cross_entropy_by_formula(const Tensor& logits, const Tensor& targets,
                                const CrossEntropyOptions& options = {});

/// cross_entropy(linear(x, weight, bias), targets), computed in chunks of rows, so that the logits of all
/// rows are never in memory at once. x [..., D], weight [V, D], bias [V] or undefined, targets i64 [...].
/// Without reduction, the backward pass computes the logits of each chunk again.
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& targets,
                            const CrossEntropyOptions& options = {});

/// The same without gradients, for any function from rows [n, D] of x to their logits [n, vocab].
Tensor chunked_cross_entropy(const Tensor& x, std::int64_t vocab,
                             const std::function<Tensor(const Tensor&)>& logits, const Tensor& targets,
                             const CrossEntropyOptions& options = {});

// Connectionist temporal classification: the loss of a text against frames of sound that are not aligned with
// it.

struct CtcOptions {
  std::int64_t blank = 0;                 ///< the class between labels
  Reduction reduction = Reduction::mean;  ///< mean: over the rows, each divided by its number of labels
  bool zero_infinity = false;             ///< rows without an alignment have loss 0 and no gradient
};

/// The negative log-probability of the labels. This probability is the sum over all alignments: each frame
/// has a label or the blank, and removing repetitions and then blanks leaves the labels; p = softmax(logits).
/// Graves et al. 2006, "Connectionist Temporal Classification".
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
