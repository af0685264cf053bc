// Scores of additive attention (Bahdanau, Cho and Bengio 2015, equation in section 3.1 and appendix A.1.2).
// The [B, T, S, A] numbers under the tanh are never in memory.
#pragma once

#include <cstdint>

namespace heed::kernels {

/// Dense q [B, T, A], k [B, S, A] and v [A].
template <class T>
struct AdditiveOperands {
  std::int64_t batch = 0;
  std::int64_t queries = 0;  // T
  std::int64_t keys = 0;     // S
  std::int64_t dim = 0;      // A
  const T* q = nullptr;
  const T* k = nullptr;
  const T* v = nullptr;
};

/// scores[b, t, s] = sum over a of v[a] tanh(q[b, t, a] + k[b, s, a]).
template <class T>
void additive_scores(const AdditiveOperands<T>& operands, T* scores);

/// From dscores [B, T, S]: dq, dk, and dv_rows [B, A], whose sum over b is dv. The tanh is computed again.
template <class T>
void additive_scores_backward(const AdditiveOperands<T>& operands, const T* dscores, T* dq, T* dk,
                              T* dv_rows);

}  // namespace heed::kernels
