// Recurrent layers for inference, with their matrices in the form in which they are stored
// (heed/nn/weight.h), and what LSTM and GRU share.
#pragma once

#include "heed/ops/recurrent.h"
#include "kernels/matrix.h"

namespace heed {

/// The numbers of weight_ih and weight_hh where they are packed; null: those of the tensors. Ignored where a
/// gradient is recorded.
struct PackedRecurrent {
  const kernels::PackedMatrix* ih = nullptr;
  const kernels::PackedMatrix* hh = nullptr;
};

/// lstm() and gru().
RecurrentResult stored_lstm(const Tensor& x, const RecurrentWeights& weights, const RecurrentState& initial,
                            const RecurrentOptions& options, const PackedRecurrent& packed);
RecurrentResult stored_gru(const Tensor& x, const RecurrentWeights& weights, const RecurrentState& initial,
                           const RecurrentOptions& options, const PackedRecurrent& packed);

/// Throws Error unless everything fits; `gates` is 4 for LSTM, which alone has cells.
void check_recurrent(const char* name, std::int64_t gates, const Tensor& x, const RecurrentWeights& weights,
                     const RecurrentState& initial, const RecurrentOptions& options);

}  // namespace heed
