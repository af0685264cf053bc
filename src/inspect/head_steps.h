// What one head computes for one query, with the numbers of each step.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "heed/models/model.h"
#include "inspect/scored_attention.h"

namespace heed::inspect {

/// f32; undefined where there is no such step.
struct HeadSteps {
  Tensor q, output;        ///< [d]
  Tensor k, v;             ///< [S, d]
  Tensor scores, weights;  ///< [S]
  Tensor positions;        ///< [S]: terms of positions beside the product; 0 for a key that is masked
  bool is_rotary = false;
  Tensor q_before, k_before;  ///< before the rotation, where that keeps lengths
};

/// One forward pass, with the listeners of `changes` before. Throws Error for taps that do not fire, such as
/// those of a head or query that the model does not have; Canceled once `stop` is true.
HeadSteps head_steps(const Model& model, const TensorMap& inputs, const ScoredAttention& attention,
                     std::int64_t head, std::int64_t query, Taps& changes, const std::atomic<bool>& stop);

}  // namespace heed::inspect
