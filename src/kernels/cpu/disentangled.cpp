// Gather and scatter of the position terms of disentangled attention. Both are bound by memory, not by
// arithmetic: plain loops, parallel over rows (forward) or over heads (backward).
#include "kernels/attention.h"

#include <algorithm>
#include <limits>

#include "heed/threads.h"

namespace heed::kernels {
namespace {

// Rows of work worth another thread: some 16 thousand elements.
std::int64_t grain(std::int64_t row) {
  return std::max<std::int64_t>(1, (1 << 14) / std::max<std::int64_t>(row, 1));
}

}  // namespace

template <class T>
void disentangled_bias(const Disentangled& a, const T* c2p, const T* p2c, T* y) {
  parallel_for(a.outer * a.heads * a.queries, grain(a.keys), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t head = row / a.queries, t = row % a.queries;
      const bool* present = a.present != nullptr ? a.present + head / a.heads * a.keys : nullptr;
      T* out = y + row * a.keys;
      if (present != nullptr && !present[t]) {
        std::fill(out, out + a.keys, T(0));
        continue;
      }
      const std::int64_t* bucket = a.buckets + t + a.keys - 1;
      const T* own = c2p != nullptr ? c2p + row * a.rows : nullptr;
      const T* others = p2c != nullptr ? p2c + head * a.keys * a.rows : nullptr;
      for (std::int64_t s = 0; s < a.keys; ++s) {
        const std::int64_t i = bucket[-s];
        out[s] = (own != nullptr ? own[i] : T(0)) + (others != nullptr ? others[s * a.rows + i] : T(0));
      }
      for (std::int64_t s = 0; present != nullptr && s < a.keys; ++s)
        if (!present[s]) out[s] = -std::numeric_limits<T>::infinity();
    }
  });
}

template <class T>
void disentangled_bias_backward(const Disentangled& a, const T* dy, T* dc2p, T* dp2c) {
  parallel_for(a.outer * a.heads, grain(a.queries * a.keys), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t head = begin; head < end; ++head) {
      const bool* present = a.present != nullptr ? a.present + head / a.heads * a.keys : nullptr;
      for (std::int64_t t = 0; t < a.queries; ++t) {
        if (present != nullptr && !present[t]) continue;
        const std::int64_t row = head * a.queries + t;
        const std::int64_t* bucket = a.buckets + t + a.keys - 1;
        for (std::int64_t s = 0; s < a.keys; ++s) {
          if (present != nullptr && !present[s]) continue;
          const T d = dy[row * a.keys + s];
          if (dc2p != nullptr) dc2p[row * a.rows + bucket[-s]] += d;
          if (dp2c != nullptr) dp2c[(head * a.keys + s) * a.rows + bucket[-s]] += d;
        }
      }
    }
  });
}

#define HEED_INSTANTIATE(T)                                                     \
  template void disentangled_bias(const Disentangled&, const T*, const T*, T*); \
  template void disentangled_bias_backward(const Disentangled&, const T*, T*, T*);
HEED_INSTANTIATE(float)
HEED_INSTANTIATE(double)
#undef HEED_INSTANTIATE

}  // namespace heed::kernels
