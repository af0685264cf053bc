// Products of every orientation, for the tests and for the programs that measure.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/gemm.h"

namespace heed {

/// c = alpha * op(a) op(b) + beta * c; stored rows are `extra` numbers longer than they need to be.
struct Product {
  bool ta, tb;
  std::int64_t m, n, k;
  double alpha, beta;
  std::int64_t extra;
};

/// The arguments for such matrices.
template <class T>
kernels::Gemm<T> arguments(const Product& p, const T* a, const T* b, T* c) {
  const auto matrix = [](const T* data, bool transposed, std::int64_t rows, std::int64_t columns) {
    const kernels::StridedMatrix stored = kernels::row_major(data, transposed ? rows : columns);
    return transposed ? stored.transposed() : stored;
  };
  return {.m = p.m,
          .n = p.n,
          .k = p.k,
          .a = matrix(a, p.ta, p.m + p.extra, p.k + p.extra),
          .b = matrix(b, p.tb, p.k + p.extra, p.n + p.extra),
          .c = c,
          .ldc = p.n + p.extra,
          .alpha = static_cast<T>(p.alpha),
          .beta = static_cast<T>(p.beta)};
}

inline std::vector<Product> products() {
  std::vector<Product> all;
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      for (const std::int64_t m : {0, 1, 7, 13}) {
        for (const std::int64_t n : {0, 1, 16, 33}) {
          for (const std::int64_t k : {0, 1, 9, 40}) {
            all.push_back({ta, tb, m, n, k, 1, 0, 0});
            all.push_back({ta, tb, m, n, k, 0.5, 2, 3});
          }
        }
      }
      all.push_back({ta, tb, 101, 70, 150, 1, 1, 1});
      all.push_back({ta, tb, 200, 129, 260, -1, 0, 0});
      all.push_back({ta, tb, 200, 129, 260, 1, 0, 0});
      all.push_back({ta, tb, 130, 300, 90, 1, 1, 3});
    }
  }
  return all;
}

}  // namespace heed
