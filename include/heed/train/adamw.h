// AdamW (Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019), with the same updates as
// torch.optim.AdamW, and the global gradient norm for clipping. Weights may be stored in bf16 beside master
// copies in f32, which take the updates (Micikevicius et al. 2018, "Mixed precision training", section 3.1).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heed/export.h"
#include "heed/models/model.h"

namespace HEED_API heed {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;        ///< not applied to parameters whose `decays` is false
  std::vector<double> lr_factors{};  ///< of the learning rate, one for each parameter; empty: all 1
  bool bf16_weights = false;         ///< stores parameters in bf16 where possible (takes_bf16)
};

/// Whether AdamWOptions::bf16_weights applies to a parameter: f32 with two axes or more. Vectors take little
/// memory.
bool takes_bf16(const Parameter& parameter);

/// Elements [begin, end) of a tensor in the order of memory.
struct ElementRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Upper bound of counters in a run's files. Larger values mean that a file is damaged.
inline constexpr std::int64_t kMaxSteps = std::int64_t{1} << 53;

/// Threads: one at a time.
class AdamW {
 public:
  /// With bf16_weights, the parameters' numbers become the master copies, and the parameters have rounded
  /// numbers from now on. Throws Error if a beta is outside [0, 1), if eps or weight_decay is negative, or if
  /// a parameter is not f32 or f64.
  AdamW(std::vector<Parameter> parameters, const AdamWOptions& options);
  /// Updates only `ranges` of the parameters, one each, and keeps only their state.
  AdamW(std::vector<Parameter> parameters, const AdamWOptions& options, std::vector<ElementRange> ranges);

  /// With g = grad_scale * grad(p), t the number of steps p has taken, for every parameter p that has a
  /// gradient:
  ///   p *= 1 - lr * weight_decay;  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
  ///   p -= lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + eps).
  /// If there is a master copy, it is p, and the parameter becomes bf16(p), rounded to nearest, ties to even.
  void step(double lr, double grad_scale = 1);
  void zero_grad() const;

  /// Returns the optimizer's state: `m.NAME` and `v.NAME` in the gradient's dtype and the parameter's shape,
  /// or of the updated part only; and `steps` i64 [parameters].
  TensorMap state() const;
  /// Returns the master copies by the parameters' names, of the same parts.
  TensorMap masters() const;
  /// Returns the bytes of `m`, `v` and the master copies.
  std::int64_t state_bytes() const;
  /// Copies the state of whole parameters into the optimizer. Throws Error if a tensor is missing, unknown,
  /// or of another shape or dtype.
  void load_state(const TensorMap& state);

 private:
  std::vector<Parameter> parameters_;
  AdamWOptions options_;
  std::vector<ElementRange> ranges_;
  std::vector<Tensor> masters_;  // f32, or undefined
  std::vector<Tensor> m_;
  std::vector<Tensor> v_;
  std::vector<std::int64_t> steps_;
};

/// Returns the square root of the sum of g^2 over all gradients, summed in double in an order that does not
/// depend on the number of threads. Parameters without a gradient count as 0.
double gradient_norm(std::span<const Parameter> parameters);

/// The same before the square root, over one range of each gradient.
double sum_of_gradient_squares(std::span<const Parameter> parameters, std::span<const ElementRange> ranges);

/// Returns the factor that scales a gradient of norm `norm` to at most `max_norm`: min(1, max_norm / (norm +
/// 1e-6)), as in torch.nn.utils.clip_grad_norm_. Returns 1 if max_norm is 0 (no clipping).
double clip_scale(double norm, double max_norm);

}  // namespace heed
