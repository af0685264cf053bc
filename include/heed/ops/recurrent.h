// Recurrent layers over whole sequences: LSTM and GRU, in PyTorch's order of gates and with its parameters,
// so that weights of torch.nn.LSTM and torch.nn.GRU can be used. Also single cells, for models whose next
// input depends on their last output.
#pragma once

#include "heed/export.h"
#include "heed/tensor.h"

namespace HEED_API heed {

/// G is 4 for LSTM (input, forget, candidate, output) and 3 for GRU (reset, update, candidate). Biases may be
/// undefined. Weights may be bf16 or f16 where no gradient is needed.
struct RecurrentWeights {
  Tensor weight_ih;  // [G H, D]
  Tensor weight_hh;  // [G H, H]
  Tensor bias_ih;    // [G H]
  Tensor bias_hh;    // [G H]
};

/// The state of B rows. Undefined tensors are 0.
struct RecurrentState {
  Tensor h;  // [B, H]
  Tensor c;  // [B, H], of LSTM alone
};

struct RecurrentOptions {
  /// i64 [B], in [0, T]: row b has this many steps. Later ones leave its state unchanged and give y = 0.
  /// Undefined: all T.
  Tensor lengths = {};
  /// From each row's last step to its first.
  bool reverse = false;
  /// The result also has the values of gates and cells.
  bool trace = false;
};

struct RecurrentResult {
  Tensor y;              // [B, T, H], the state h after each step
  RecurrentState state;  // after each row's last step
  /// With `trace`, without a gradient, 0 at the steps that a row does not have: after sigmoid and tanh, in
  /// the order of the weights.
  Tensor gates = {};  // [B, T, G H]
  Tensor cells = {};  // [B, T, H], c after each step, of LSTM alone
};

/// Long short-term memory (Hochreiter and Schmidhuber 1997; forget gates: Gers, Schmidhuber and Cummins
/// 2000). For x [B, T, D], step by step,
///   i, f, o = sigmoid(W_ih x + b_ih + W_hh h + b_hh), g = tanh(the same),   each with its rows of the
///   weights c' = f c + i g,   h' = o tanh(c').
/// f32 or f64, all of one dtype; T >= 1. Gradients for x, weights, biases and the initial state, through y
/// and both parts of the last one. A row gives the same bits in any batch. Throws Error when shapes, dtypes
/// or lengths do not match.
RecurrentResult lstm(const Tensor& x, const RecurrentWeights& weights, const RecurrentState& initial = {},
                     const RecurrentOptions& options = {});

/// Gated recurrent unit (Cho et al. 2014, with the reset gate after the product, as in cuDNN and PyTorch):
///   r, z = sigmoid(W_ih x + b_ih + W_hh h + b_hh)
///   n = tanh(W_in x + b_in + r (W_hn h + b_hn)),   h' = (1 - z) n + z h.
/// Otherwise as lstm().
RecurrentResult gru(const Tensor& x, const RecurrentWeights& weights, const RecurrentState& initial = {},
                    const RecurrentOptions& options = {});

/// The same, written out step by step with elementary operations: for tests and as explanation.
RecurrentResult lstm_by_formula(const Tensor& x, const RecurrentWeights& weights,
                                const RecurrentState& initial = {}, const RecurrentOptions& options = {});
RecurrentResult gru_by_formula(const Tensor& x, const RecurrentWeights& weights,
                               const RecurrentState& initial = {}, const RecurrentOptions& options = {});

/// One step of LSTM from the sums W_ih x + b_ih + W_hh h + b_hh [B, 4H] and the cell c [B, H]. `gates`, if
/// not null, receives the values of the gates [B, 4H], without a gradient.
RecurrentState lstm_cell(const Tensor& sums, const Tensor& c, Tensor* gates = nullptr);
/// One step of GRU from the sums W_ih x + b_ih [B, 3H], W_hh h + b_hh [B, 3H] and the state h [B, H].
/// `gates`: as above, [B, 3H].
RecurrentState gru_cell(const Tensor& input_sums, const Tensor& state_sums, const Tensor& h,
                        Tensor* gates = nullptr);

}  // namespace heed
