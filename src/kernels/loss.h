// Cross-entropy of logits against class indices. Targets must be in [0, vocab) or equal to ignore_index: the
// caller checks (see first_outside in kernels/embedding.h). Ignored rows have loss 0 and gradient 0.
#pragma once

#include <cstdint>

namespace heed::kernels {

/// With p = softmax(logits) and V classes, the loss of a row with target t is
///   (1 - smoothing) * -log p[t] + smoothing / V * sum_v -log p[v] + z_loss * logsumexp(logits)^2.
/// Smoothing is PyTorch's (Szegedy et al. 2016); the z-loss is that of PaLM (Chowdhery et al. 2022).
struct CrossEntropyOptions {
  double smoothing = 0;
  double z_loss = 0;
  std::int64_t ignore_index = -100;
};

/// What forward and backward read.
template <class T>
struct CrossEntropy {
  const T* logits = nullptr;              // [rows, vocab]
  const std::int64_t* targets = nullptr;  // [rows]
  std::int64_t rows = 0;
  std::int64_t vocab = 0;
  CrossEntropyOptions options;
};

/// Sum of the losses, and the number of rows that counted.
struct CrossEntropySum {
  double loss = 0;
  std::int64_t count = 0;
};

/// losses and logsumexp: [rows], each may be null.
template <class T>
CrossEntropySum cross_entropy(const CrossEntropy<T>& args, T* losses, T* logsumexp);

/// dlogits[r, v] = dlosses[r] * d losses[r] / d logits[r, v]. dlogits may be the logits.
template <class T>
void cross_entropy_backward(const CrossEntropy<T>& args, const T* logsumexp, const T* dlosses, T* dlogits);

/// Forward and backward in one pass over memory: returns the sum and overwrites the logits, whose address
/// `logits` is, by scale * d loss / d logits. For a projection and its loss computed together over chunks of
/// rows.
template <class T>
CrossEntropySum cross_entropy_in_place(const CrossEntropy<T>& args, T* logits, T scale);

// The loss of connectionist temporal classification (Graves et al. 2006), forward and backward. A row's L
// labels with blanks around and between them are its 2L + 1 states.

/// What forward and backward read. The caller checks that labels, lengths and blank are in range.
template <class T>
struct Ctc {
  const T* logits = nullptr;              // [batch, time, vocab]
  const std::int64_t* labels = nullptr;   // [batch, most], the first counts[b] of each row
  const std::int64_t* counts = nullptr;   // [batch]
  const std::int64_t* lengths = nullptr;  // [batch], frames that count
  std::int64_t batch = 0, time = 0, vocab = 0, most = 0, blank = 0;
};

/// What forward keeps for backward, in logarithms.
struct CtcKept {
  double* alphas = nullptr;       // [batch, time, 2 most + 1]: of all ways to a state, its frame included
  double* normalizers = nullptr;  // [batch, time]: logsumexp of a frame's logits
  double* losses = nullptr;       // [batch]
};

template <class T>
void ctc_loss(const Ctc<T>& args, const CtcKept& kept);

/// dlogits[b, t, v] = dlosses[b] * d losses[b] / d logits[b, t, v]; 0 where dlosses[b] is 0 and beyond a
/// row's length.
template <class T>
void ctc_loss_backward(const Ctc<T>& args, const CtcKept& kept, const double* dlosses, T* dlogits);

}  // namespace heed::kernels
