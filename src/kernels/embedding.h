// Rows of a table by index, and the scatter of their gradients. Indices must be in range: the caller checks
// with first_outside.
#pragma once

#include <cstdint>

#include "kernels/gemm.h"

namespace heed::kernels {

/// Stands for "no padding index": no row has it.
inline constexpr std::int64_t kNoIndex = -1;

/// Position of the first id that is neither in [0, limit) nor `allowed`; -1 if there is none. Pass an id of
/// the range as `allowed` to allow nothing more.
std::int64_t first_outside(const std::int64_t* ids, std::int64_t count, std::int64_t limit,
                           std::int64_t allowed);

/// Which rows of a table [vocab, d].
struct RowLookup {
  const std::int64_t* ids = nullptr;  // [count]
  std::int64_t count = 0;
  std::int64_t d = 0;
};

/// y[i, :] = factor * table[ids[i], :]; y: [count, d].
template <class T>
void embedding(const T* table, const RowLookup& rows, T factor, T* y);
/// The same for a matrix [vocab, d] in the form in which it is stored, widened to f32.
void lookup_rows(const StoredMatrix& table, const RowLookup& rows, float factor, float* y);

/// dtable[ids[i], :] += factor * dy[i, :] in the order of i, except where ids[i] == padding_index. dtable:
/// [vocab, d], accumulated into.
template <class T>
void embedding_backward(const T* dy, const RowLookup& rows, T factor, T* dtable,
                        std::int64_t padding_index = kNoIndex);

}  // namespace heed::kernels
