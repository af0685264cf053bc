// The loss of connectionist temporal classification (Graves et al. 2006), forward and backward. A row's L
// labels with blanks around and between them are its 2L + 1 states.
#pragma once

#include <cstdint>

namespace heed::kernels {

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
