// Dropout (Srivastava et al. 2014), inverted: what is kept is scaled by 1 / (1 - p). The mask is a function
// of the stream and the element's index, so it is never stored, and the backward pass is the forward on dy.
#pragma once

#include <cstdint>

#include "heed/random.h"

namespace heed::kernels {

/// y[i] = random.uniform(i) >= p ? x[i] / (1 - p) : 0, for 0 <= p <= 1. y may be x.
template <class T>
void dropout(const T* x, T* y, std::int64_t n, double p, RandomStream random);

}  // namespace heed::kernels
