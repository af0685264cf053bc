// Model::quantize and what save() needs of it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "heed/models/quantize.h"
#include "models/weights.h"

namespace heed {

// Activation-aware scaling (Lin et al. 2023, "AWQ: activation-aware weight quantization for LLM compression
// and acceleration"): before the maps that read some numbers are rounded, the columns of large numbers are
// multiplied by a scale, by which what makes these numbers is divided.

struct CodeOptions;  // ops/quantization.h

/// Maps that read the same k numbers, and what makes these: a norm, or rows of another map, whose results
/// reach them unchanged but for factors that are the same for all scales.
struct ScaledGroup {
  std::vector<std::string> maps;  ///< weights [n, k]
  std::string source = {};        ///< a norm's weight [k], or a map's; empty: its numbers cannot be scaled
  double norm_offset = 0;         ///< added to the norm's weight
  std::int64_t first_row = 0;     ///< of the map: where the rows begin
  /// Of grouped queries: so many heads of `head_dim` numbers read the same rows.
  std::int64_t repeats = 1, head_dim = 1;

  /// The rows that make column c of k.
  std::int64_t row_of(std::int64_t c) const {
    return repeats == 1 ? c : c / (head_dim * repeats) * head_dim + c % head_dim;
  }
};

/// Multiplies the columns of the group's maps by their scales, one for each row_of(), and divides the source,
/// and its bias, by them. What the model computes stays the same.
void fold_scales(Weights& weights, const ScaledGroup& group, const std::vector<float>& scales);

/// The scales of a group of maps: m^alpha for the alpha of 0, 0.05, ... 0.95 with which rounding to `to`
/// changes x w^T least, where m is the mean of |x| and x^T x is `gram` [k, k]. `sizes`: the sums of |x|, of
/// k.
std::vector<float> best_scales(const Weights& weights, const ScaledGroup& group, const Tensor& gram,
                               const std::vector<double>& sizes, const CodeOptions& to);

/// sizes[c] += the sum of |x| of column c, x [..., k].
void add_sizes(const Tensor& x, std::vector<double>& sizes);

/// x^T x [k, k] of a group's numbers after they were divided by the scales.
Tensor scaled_gram(const Tensor& gram, const ScaledGroup& group, const std::vector<float>& scales);

/// Model::quantize on the tensors of a model. `calibrate` runs the model on the calibration inputs, of gptq
/// and awq. `layers`: what awq may scale in each; maps that are not among them are only rounded.
QuantizeReport quantize(Weights& weights, const QuantizeOptions& options,
                        const std::function<void()>& calibrate,
                        const std::vector<std::vector<ScaledGroup>>& layers);

/// The quantization_config of compressed-tensors for what quantize() did, as JSON.
std::string quantization_config(const QuantizeReport& report, const QuantizeOptions& options);

/// Model::use_activations(), takes_int8() and int8_activation_errors().
std::int64_t use_activations(const Weights& weights, Activations type);
bool takes_int8(const Weights& weights);
std::vector<QuantizedMap> int8_activation_errors(const Weights& weights, const std::function<void()>& run);

}  // namespace heed
