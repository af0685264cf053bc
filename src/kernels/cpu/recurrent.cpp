// Steps of LSTM and GRU: all gates of an element in one pass, forward and backward, each row by itself.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/recurrent.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include "kernels/cpu/math-inl.h"
#include "kernels/recurrent.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// A vector of `count` numbers, or of all lanes where there are more; the rest is 0.
template <class T>
HWY_INLINE Vec<T> load_some(const T* p, int64_t count) {
  return count >= lanes<T>() ? load(p) : load_first(p, count);
}
template <class T>
HWY_INLINE void store_some(Vec<T> v, T* p, int64_t count) {
  if (count >= lanes<T>()) {
    store<T>(v, p);
  } else {
    store_first<T>(v, p, count);
  }
}
/// The same of what may be absent: 0.
template <class T>
HWY_INLINE Vec<T> load_optional(const T* p, int64_t i, int64_t count) {
  return p != nullptr ? load_some(p + i, count) : broadcast(T(0));
}
/// x (1 - x), the slope of a sigmoid of value x; 1 - x^2, that of a tanh.
template <class V>
HWY_INLINE V sigmoid_slope(V x) {
  return hn::NegMulAdd(x, x, x);
}
template <class V>
HWY_INLINE V tanh_slope(V x) {
  return hn::NegMulAdd(x, x, hn::Set(hn::DFromV<V>(), 1));
}

template <class T>
HWY_INLINE void fill_zero(T* p, int64_t n) {
  std::fill(p, p + n, T(0));
}

/// Rows for a thread: an element costs as much as some eight of an element-wise operation.
inline int64_t cell_grain(int64_t hidden) { return row_grain(8 * hidden); }

/// Calls step(b, row) for step t of every row b of the batch, and padding(row) for those that do not have it;
/// `row` counts the steps of all rows.
template <class Padding, class Step>
HWY_INLINE void for_each_row(const Recurrence& r, int64_t t, Padding padding, Step step) {
  parallel_for(r.batch, cell_grain(r.hidden), [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t b = begin; b < end; ++b) {
      if (r.is_padding(b, t)) {
        padding(b * r.time + t);
      } else {
        step(b, b * r.time + t);
      }
    }
  });
}

/// Row `row` of p, whose rows have n numbers; null where p is.
template <class T>
HWY_INLINE T* row_of(T* p, int64_t row, int64_t n) {
  return p != nullptr ? p + row * n : nullptr;
}
/// What row b had in `states` [B, T, H] before step t, or in `first` [B, H] before its first.
template <class T>
HWY_INLINE const T* state_before(const Recurrence& r, int64_t b, int64_t t, const T* states, const T* first) {
  const int64_t before = r.before(b, t);
  return before >= 0 ? row_of(states, b * r.time + before, r.hidden) : row_of(first, b, r.hidden);
}

template <class T>
HWY_INLINE void lstm_row(int64_t hidden, T* gates, T* h, T* c, T* y, T* cells) {
  for (int64_t i = 0; i < hidden; i += lanes<T>()) {
    const int64_t count = hidden - i;
    const auto sum = [&](int64_t gate) HWY_ATTR { return load_some(gates + gate * hidden + i, count); };
    const Vec<T> in = sigmoid_of(sum(0)), forget = sigmoid_of(sum(1));
    const Vec<T> candidate = tanh_of(sum(2)), out = sigmoid_of(sum(3));
    const Vec<T> cell = hn::MulAdd(forget, load_some(c + i, count), hn::Mul(in, candidate));
    const Vec<T> state = hn::Mul(out, tanh_of(cell));
    store_some<T>(cell, c + i, count);
    store_some<T>(state, h + i, count);
    store_some<T>(state, y + i, count);
    if (cells == nullptr) continue;
    store_some<T>(cell, cells + i, count);
    store_some<T>(in, gates + i, count);
    store_some<T>(forget, gates + hidden + i, count);
    store_some<T>(candidate, gates + 2 * hidden + i, count);
    store_some<T>(out, gates + 3 * hidden + i, count);
  }
}

template <class T>
void lstm_forward(const Recurrence& r, const LstmStep<T>& s) {
  const int64_t n = r.hidden;
  for_each_row(
      r, s.t, [&](int64_t row) HWY_ATTR { fill_zero(s.y + row * n, n); },
      [&](int64_t b, int64_t row) HWY_ATTR {
        lstm_row(n, s.gates + row * 4 * n, s.h + b * n, s.c + b * n, s.y + row * n, row_of(s.cells, row, n));
      });
}

/// `c` is the cell before the step, or null.
template <class T>
HWY_INLINE void lstm_row_backward(int64_t hidden, T* gates, const T* cells, const T* c, const T* dy, T* dh,
                                  T* dc) {
  for (int64_t i = 0; i < hidden; i += lanes<T>()) {
    const int64_t count = hidden - i;
    const auto gate = [&](int64_t which) HWY_ATTR { return load_some(gates + which * hidden + i, count); };
    const Vec<T> in = gate(0), forget = gate(1), candidate = gate(2), out = gate(3);
    const Vec<T> tanh_c = tanh_of(load_some(cells + i, count));
    const Vec<T> dstate = hn::Add(load_some(dh + i, count), load_optional(dy, i, count));
    const Vec<T> dcell = hn::MulAdd(hn::Mul(dstate, out), tanh_slope(tanh_c), load_some(dc + i, count));
    store_some<T>(hn::Mul(hn::Mul(dcell, candidate), sigmoid_slope(in)), gates + i, count);
    store_some<T>(hn::Mul(hn::Mul(dcell, load_optional(c, i, count)), sigmoid_slope(forget)),
                  gates + hidden + i, count);
    store_some<T>(hn::Mul(hn::Mul(dcell, in), tanh_slope(candidate)), gates + 2 * hidden + i, count);
    store_some<T>(hn::Mul(hn::Mul(dstate, tanh_c), sigmoid_slope(out)), gates + 3 * hidden + i, count);
    store_some<T>(hn::Mul(dcell, forget), dc + i, count);
    store_some<T>(broadcast(T(0)), dh + i, count);
  }
}

template <class T>
void lstm_backward(const Recurrence& r, const LstmStepBackward<T>& s) {
  const int64_t n = r.hidden;
  for_each_row(
      r, s.t, [&](int64_t row) HWY_ATTR { fill_zero(s.gates + row * 4 * n, 4 * n); },
      [&](int64_t b, int64_t row) HWY_ATTR {
        lstm_row_backward(n, s.gates + row * 4 * n, s.cells + row * n,
                          state_before(r, b, s.t, s.cells, s.c_first), row_of(s.dy, row, n), s.dh + b * n,
                          s.dc + b * n);
      });
}

template <class T>
HWY_INLINE void gru_row(int64_t hidden, T* gates, const T* sums, T* h, T* y, bool keep) {
  for (int64_t i = 0; i < hidden; i += lanes<T>()) {
    const int64_t count = hidden - i;
    const auto a = [&](int64_t gate) HWY_ATTR { return load_some(gates + gate * hidden + i, count); };
    const auto b = [&](int64_t gate) HWY_ATTR { return load_some(sums + gate * hidden + i, count); };
    const Vec<T> reset = sigmoid_of(hn::Add(a(0), b(0))), update = sigmoid_of(hn::Add(a(1), b(1)));
    const Vec<T> candidate = tanh_of(hn::MulAdd(reset, b(2), a(2)));
    // (1 - z) n + z h = n + z (h - n)
    const Vec<T> state = hn::MulAdd(update, hn::Sub(load_some(h + i, count), candidate), candidate);
    store_some<T>(state, h + i, count);
    store_some<T>(state, y + i, count);
    if (!keep) continue;
    store_some<T>(reset, gates + i, count);
    store_some<T>(update, gates + hidden + i, count);
    store_some<T>(candidate, gates + 2 * hidden + i, count);
  }
}

template <class T>
void gru_forward(const Recurrence& r, const GruStep<T>& s) {
  const int64_t n = r.hidden;
  for_each_row(
      r, s.t, [&](int64_t row) HWY_ATTR { fill_zero(s.y + row * n, n); },
      [&](int64_t b, int64_t row) HWY_ATTR {
        gru_row(n, s.gates + row * 3 * n, s.sums + b * s.sums_row, s.h + b * n, s.y + row * n, s.keep);
      });
}

/// `h` is the state before the step, or null.
template <class T>
HWY_INLINE void gru_row_backward(int64_t hidden, T* gates, T* sums, const T* h, const T* dy, T* dh) {
  for (int64_t i = 0; i < hidden; i += lanes<T>()) {
    const int64_t count = hidden - i;
    const auto gate = [&](int64_t which) HWY_ATTR { return load_some(gates + which * hidden + i, count); };
    const Vec<T> reset = gate(0), update = gate(1), candidate = gate(2);
    const Vec<T> hidden_sum = load_some(sums + 2 * hidden + i, count);
    const Vec<T> dstate = hn::Add(load_some(dh + i, count), load_optional(dy, i, count));
    const Vec<T> through = hn::Mul(dstate, update);
    const Vec<T> dn = hn::Mul(hn::Sub(dstate, through), tanh_slope(candidate));
    const Vec<T> dz =
        hn::Mul(hn::Mul(dstate, hn::Sub(load_optional(h, i, count), candidate)), sigmoid_slope(update));
    const Vec<T> dr = hn::Mul(hn::Mul(dn, hidden_sum), sigmoid_slope(reset));
    store_some<T>(dr, gates + i, count);
    store_some<T>(dz, gates + hidden + i, count);
    store_some<T>(dn, gates + 2 * hidden + i, count);
    store_some<T>(dr, sums + i, count);
    store_some<T>(dz, sums + hidden + i, count);
    store_some<T>(hn::Mul(dn, reset), sums + 2 * hidden + i, count);
    store_some<T>(through, dh + i, count);
  }
}

template <class T>
void gru_backward(const Recurrence& r, const GruStepBackward<T>& s) {
  const int64_t n = r.hidden;
  for_each_row(
      r, s.t,
      [&](int64_t row) HWY_ATTR {
        fill_zero(s.gates + row * 3 * n, 3 * n);
        fill_zero(s.sums + row * 3 * n, 3 * n);
      },
      [&](int64_t b, int64_t row) HWY_ATTR {
        gru_row_backward(n, s.gates + row * 3 * n, s.sums + row * 3 * n,
                         state_before(r, b, s.t, s.y, s.h_first), row_of(s.dy, row, n), s.dh + b * n);
      });
}

template <class T>
void shifted_states(const Recurrence& r, const T* y, const T* first, T* before) {
  const int64_t n = r.hidden;
  parallel_for(r.batch * r.time, row_grain(n), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t b = row / r.time, t = row % r.time;
      const T* source = r.is_padding(b, t) ? nullptr : state_before(r, b, t, y, first);
      if (source == nullptr) {
        fill_zero(before + row * n, n);
      } else {
        std::copy(source, source + n, before + row * n);
      }
    }
  });
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(lstm_forward);
HEED_EXPORT(lstm_backward);
HEED_EXPORT(gru_forward);
HEED_EXPORT(gru_backward);
HEED_EXPORT(shifted_states);

template <class T>
void lstm_step(const Recurrence& shape, const LstmStep<T>& step) {
  HEED_DISPATCH(lstm_forward, T)(shape, step);
}
template <class T>
void lstm_step_backward(const Recurrence& shape, const LstmStepBackward<T>& step) {
  HEED_DISPATCH(lstm_backward, T)(shape, step);
}
template <class T>
void gru_step(const Recurrence& shape, const GruStep<T>& step) {
  HEED_DISPATCH(gru_forward, T)(shape, step);
}
template <class T>
void gru_step_backward(const Recurrence& shape, const GruStepBackward<T>& step) {
  HEED_DISPATCH(gru_backward, T)(shape, step);
}
template <class T>
void states_before(const Recurrence& shape, const T* y, const T* first, T* before) {
  HEED_DISPATCH(shifted_states, T)(shape, y, first, before);
}

#define HEED_INSTANTIATE(T)                                                        \
  template void lstm_step(const Recurrence&, const LstmStep<T>&);                  \
  template void lstm_step_backward(const Recurrence&, const LstmStepBackward<T>&); \
  template void gru_step(const Recurrence&, const GruStep<T>&);                    \
  template void gru_step_backward(const Recurrence&, const GruStepBackward<T>&);   \
  template void states_before(const Recurrence&, const T*, const T*, T*);
HEED_INSTANTIATE(float)
HEED_INSTANTIATE(double)
#undef HEED_INSTANTIATE

}  // namespace heed::kernels
#endif
