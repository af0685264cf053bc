// One step of the recurrent cells, and its gradient: LSTM (Hochreiter and Schmidhuber 1997; with forget
// gates, Gers et al. 2000) and GRU (Cho et al. 2014), in PyTorch's order of gates. The matrix products are
// the caller's. Sequences of a batch may be shorter than T: a step past a row's length leaves its state as it
// is.
#pragma once

#include <cstdint>

namespace heed::kernels {

/// B rows of at most T steps over states of H numbers.
struct Recurrence {
  std::int64_t batch = 0;
  std::int64_t time = 0;
  std::int64_t hidden = 0;
  const std::int64_t* lengths = nullptr;  // [B], in [0, T]; null: all T
  bool reverse = false;                   // a row's first step is its last one in time

  /// Rows [begin, end) of it.
  Recurrence rows(std::int64_t begin, std::int64_t end) const {
    return {end - begin, time, hidden, lengths != nullptr ? lengths + begin : nullptr, reverse};
  }
  std::int64_t length(std::int64_t b) const { return lengths != nullptr ? lengths[b] : time; }
  bool is_padding(std::int64_t b, std::int64_t t) const { return t >= length(b); }
  /// The step before step t of row b; -1 for its first.
  std::int64_t before(std::int64_t b, std::int64_t t) const {
    if (!reverse) return t - 1;
    return t + 1 < length(b) ? t + 1 : -1;
  }
};

/// [i, f, g, o] = [sigmoid, sigmoid, tanh, sigmoid] of the sums; c' = f c + i g; h' = o tanh(c').
template <class T>
struct LstmStep {
  std::int64_t t = 0;
  T* gates = nullptr;  // [B, T, 4H]: the sums; with `cells`, then the values of the gates
  T* h = nullptr;      // [B, H], the states, written
  T* c = nullptr;      // [B, H], read and written
  T* y = nullptr;      // [B, T, H]: h', 0 for padding
  T* cells = nullptr;  // [B, T, H]: c', for the gradient; may be null
};
template <class T>
void lstm_step(const Recurrence& shape, const LstmStep<T>& step);

template <class T>
struct LstmStepBackward {
  std::int64_t t = 0;
  T* gates = nullptr;          // values in, gradients of the sums out; 0 for padding
  const T* cells = nullptr;    // c'
  const T* c_first = nullptr;  // [B, H], before the first step; null: 0
  const T* dy = nullptr;       // [B, T, H]; null: 0
  T* dh = nullptr;             // [B, H], of h'; left 0 where the step moved the state: the caller adds
                               // the gradient of the sums times the weights
  T* dc = nullptr;             // [B, H], of c' in, of c out
};
template <class T>
void lstm_step_backward(const Recurrence& shape, const LstmStepBackward<T>& step);

/// With the sums a of the inputs and b of the state: r = sigmoid(a_r + b_r), z = sigmoid(a_z + b_z),
/// n = tanh(a_n + r b_n); h' = (1 - z) n + z h.
template <class T>
struct GruStep {
  std::int64_t t = 0;
  T* gates = nullptr;       // [B, T, 3H]: a; with `keep`, then r, z, n
  const T* sums = nullptr;  // b of row i at sums + i * sums_row, [3H]
  std::int64_t sums_row = 0;
  T* h = nullptr;  // [B, H], read and written
  T* y = nullptr;  // [B, T, H]: h', 0 for padding
  bool keep = false;
};
template <class T>
void gru_step(const Recurrence& shape, const GruStep<T>& step);

template <class T>
struct GruStepBackward {
  std::int64_t t = 0;
  T* gates = nullptr;          // [B, T, 3H]: r, z, n in, gradients of a out; 0 for padding
  T* sums = nullptr;           // [B, T, 3H]: b in, gradients of b out; 0 for padding
  const T* y = nullptr;        // [B, T, H]
  const T* h_first = nullptr;  // [B, H]; null: 0
  const T* dy = nullptr;       // [B, T, H]; null: 0
  T* dh = nullptr;             // [B, H], of h' in; out, what reaches h past the weights
};
template <class T>
void gru_step_backward(const Recurrence& shape, const GruStepBackward<T>& step);

/// before[b, t] = the state that step t of row b began with: y of the step before, or `first` [B, H] (null:
/// 0); 0 for padding. All [B, T, H].
template <class T>
void states_before(const Recurrence& shape, const T* y, const T* first, T* before);

}  // namespace heed::kernels
