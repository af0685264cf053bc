// Learning rate schedules as closed formulas of the step, so that a resumed run needs no state for them.
#pragma once

#include <cstdint>
#include <string_view>

#include "heed/export.h"

namespace HEED_API heed {

enum class ScheduleKind { constant, linear, cosine, inverse_sqrt };

/// During warm-up, every kind rises linearly: lr * step / warmup. After it, with x = min(1, (step - warmup) /
/// (steps - warmup)):
///   constant      lr
///   linear        min_lr + (lr - min_lr) * (1 - x)
///   cosine        min_lr + (lr - min_lr) * (1 + cos(pi x)) / 2        (Loshchilov and Hutter, "SGDR", 2017)
///   inverse_sqrt  max(min_lr, lr * sqrt(max(warmup, 1) / step))       (Vaswani et al., 2017, section 5.3)
struct Schedule {
  ScheduleKind kind = ScheduleKind::constant;
  double lr = 1e-3;         ///< the highest value
  double min_lr = 0;        ///< the value at the end
  std::int64_t warmup = 0;  ///< steps until lr is reached
  std::int64_t steps = 0;   ///< length of the run; used by linear and cosine only

  /// Returns the learning rate of a step, counted from 1.
  double at(std::int64_t step) const;
};

/// Returns the number of warm-up steps: `warmup` itself if it is at least 1, otherwise that fraction of the
/// run's `steps`, rounded.
std::int64_t warmup_steps(double warmup, std::int64_t steps);

/// Returns factor * (d_model * warmup)^-0.5. With this lr, inverse_sqrt is Vaswani's formula factor *
/// d_model^-0.5 * min(step^-0.5, step * warmup^-1.5).
double vaswani_lr(std::int64_t d_model, std::int64_t warmup, double factor = 1);

/// Parses constant, linear, cosine or inverse_sqrt. Throws Error for any other name.
ScheduleKind schedule_from_name(std::string_view name);

}  // namespace heed
