// Rows of a table by index, and the scatter of their gradients. Indices must be in range: the caller checks
// with first_outside.
#pragma once

#include <cstdint>

namespace heed::kernels {

/// Stands for "no padding index": no row has it.
inline constexpr std::int64_t kNoIndex = -1;

/// Position of the first id that is neither in [0, limit) nor `allowed`; -1 if there is none. Pass an id of
/// the range as `allowed` to allow nothing more.
std::int64_t first_outside(const std::int64_t* ids, std::int64_t count, std::int64_t limit,
                           std::int64_t allowed);

/// y[i, :] = factor * table[ids[i], :]; table: [vocab, d], y: [count, d].
template <class T>
void embedding(const T* table, const std::int64_t* ids, T factor, T* y, std::int64_t count, std::int64_t d);

/// dtable[ids[i], :] += factor * dy[i, :] in the order of i, except where ids[i] == padding_index. dtable:
/// [vocab, d], accumulated into.
template <class T>
void embedding_backward(const T* dy, const std::int64_t* ids, T factor, T* dtable, std::int64_t count,
                        std::int64_t d, std::int64_t padding_index);

}  // namespace heed::kernels
