// The position-wise feed-forward network (Vaswani et al. 2017, section 3.3), plain or gated.
//
// Taps below the part's name: `inner` [B, T, F], what `down` reads, and `out` [B, T, D].
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "heed/export.h"
#include "heed/nn/linear.h"
#include "heed/nn/part.h"

namespace HEED_API heed {

/// Two linear maps with an activation between them: down(f(up(x))). With a gate, down(f(gate(x)) * up(x))
/// (Shazeer 2020, "GLU variants improve Transformer").
struct FeedForward {
  Linear up;    // [F, D]
  Linear down;  // [D, F]
  Activation activation = Activation::relu;
  double dropout = 0.0;             ///< before `down`
  std::optional<Linear> gate = {};  // [F, D]
  bool fused_gate = false;          ///< `up` is [2F, D]: the gate's rows, then its own
  bool gate_last = false;           ///< the gate's rows of `up` are the second half (Moonshine)
  Tensor operator()(const Tensor& x, Pass& pass, PartState* state = nullptr) const;
};

// A sparse mixture of experts as a part of a layer: a router chooses a few of many feed-forward networks for
// each token (Shazeer et al. 2017, "Outrageously large neural networks"; Fedus et al. 2021, "Switch
// transformers"; Jiang et al. 2024, "Mixtral of experts").
//
// Taps below the part's name: `router_logits` [B * T, E]; replacing them changes which experts are chosen.
// The pass collects them under the same name. `experts.E.inner` [n, F] and `experts.E.out` [n, D], of the n
// tokens that chose expert E; `out` [B, T, D].

/// y_t = sum over the k chosen experts e of p_te * expert_e(x_t), with p_t = softmax(router(x_t)) over all
/// experts. The experts with the k largest p_te are chosen, of equal ones the first. An expert computes all
/// its tokens in one pass; one without a token is not read, and gets no gradient.
struct Experts {
  Linear router = {};  // [E, D]
  std::vector<FeedForward> experts = {};
  std::int64_t chosen = 2;  // k
  bool normalize = true;    ///< the p_te of the chosen experts are divided by their sum
  Tensor operator()(const Tensor& x, Pass& pass, PartState* state = nullptr) const;
};

/// E * sum over e of f_e * P_e, over the tokens of all layers: f_e is the number of choices of expert e per
/// token, P_e the mean of its probability (Fedus et al. 2021, equation 4). `router_logits` [N, E] of each
/// layer (0 when there is none); where `mask` i64 [B, T], B * T = N, is 0, the token does not count;
/// undefined: all count.
Tensor load_balancing_loss(const std::vector<Tensor>& router_logits, std::int64_t chosen, const Tensor& mask);

}  // namespace heed
