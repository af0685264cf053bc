// Parts of models as work on random numbers: attention, matrix products, recurrent layers; and what attention
// costs by length.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/measure.h"

namespace heed::bench {

enum class AttentionForm { full, window, strided, fixed, linear, formula };
inline constexpr AttentionForm kAttentionForms[] = {AttentionForm::full,    AttentionForm::window,
                                                    AttentionForm::strided, AttentionForm::fixed,
                                                    AttentionForm::linear,  AttentionForm::formula};
const char* name_of(AttentionForm kind);

struct AttentionShape {
  AttentionForm kind = AttentionForm::full;
  std::int64_t batch = 1, heads = 12, head_dim = 64, length = 1024;
  std::int64_t kv_heads = 0;  // 0: as many as heads, of which it must be a divisor
  std::int64_t keys = 0;      // 0: as many as `length`
  std::int64_t window = 0;    // 0: all keys; for AttentionForm::window, 256
  std::int64_t stride = 0;    // of strided and fixed; 0: the square root of the keys
  std::int64_t summary = 1;   // keys of each earlier block that fixed sees
  bool causal = false, backward = false;
  DType dtype = DType::f32;
};
Work attention_work(AttentionShape sizes);

/// A product as in a linear layer: x [m, k] times the transpose of a weight [n, k].
struct GemmSizes {
  std::int64_t m = 512, n = 3072, k = 768;
  bool plain = false;        // pack the weight again for every product, as training does
  DType dtype = DType::f32;  // of the weight
};
Work gemm_work(const GemmSizes& sizes);

struct RecurrentSizes {
  bool is_lstm = true;  // otherwise GRU
  std::int64_t batch = 32, length = 64, input = 256, hidden = 256;
  bool backward = false;
};
Work recurrent_work(const RecurrentSizes& sizes);

/// Lengths from `from` to `to`, each twice the one before.
struct LengthRange {
  std::int64_t from = 1024, to = 65536;
  std::int64_t formula_to = 8192;  // the longest for the formula, whose memory is quadratic
  std::int64_t heads = 1, head_dim = 64, window = 256;
};

/// What one kind of attention costs at one length.
struct Cost {
  std::int64_t length = 0;
  double seconds = 0;        // forward and backward
  double bytes = 0;          // of all tensors at the peak, less the inputs and the output's gradient
  double token_seconds = 0;  // of one more query, with `length` keys before it
};

struct KindCosts {
  std::string kind;
  std::vector<Cost> costs;
};

/// Measures causal attention of every kind at every length, full attention first. Calls `progress` before
/// each measurement.
std::vector<KindCosts> measure_lengths(
    const LengthRange& range, const Repeats& repeats,
    const std::function<void(const std::string& kind, std::int64_t length)>& progress);

using CostValue = double Cost::*;

/// The exponent b of value = c length^b, by least squares of the logarithms over the longer half of the
/// lengths; nan for one length.
double slope(const KindCosts& kind, CostValue value);

/// The length from which on `kind` is faster than `full`, between the measured ones by straight lines in the
/// logarithms; nan if it is not, and the first length if it always is.
double crossover(const KindCosts& full, const KindCosts& kind);

/// A chart as SVG of a value times `unit` by length, both in logarithms, with the slopes in the legend.
std::string lengths_chart(const std::string& title, const std::string& y_label,
                          const std::vector<KindCosts>& kinds, CostValue value, double unit);

}  // namespace heed::bench
