// Learning-rate schedules.
#include "heed/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "heed/error.h"

namespace heed {

double Schedule::at(std::int64_t step) const {
  const auto s = static_cast<double>(step);
  const auto w = static_cast<double>(warmup);
  if (step < warmup) return lr * s / w;
  const double length = std::max(1.0, static_cast<double>(steps) - w);
  const double x = std::min(1.0, (s - w) / length);
  switch (kind) {
    case ScheduleKind::constant: return lr;
    case ScheduleKind::linear: return min_lr + (lr - min_lr) * (1 - x);
    case ScheduleKind::cosine: return min_lr + (lr - min_lr) * (1 + std::cos(std::numbers::pi * x)) / 2;
    case ScheduleKind::inverse_sqrt: return std::max(min_lr, lr * std::sqrt(std::max(w, 1.0) / s));
  }
  return lr;
}

std::int64_t warmup_steps(double warmup, std::int64_t steps) {
  return std::llround(warmup < 1 ? warmup * static_cast<double>(steps) : warmup);
}

double vaswani_lr(std::int64_t d_model, std::int64_t warmup, double factor) {
  return factor / std::sqrt(static_cast<double>(d_model) * static_cast<double>(warmup));
}

ScheduleKind schedule_from_name(std::string_view name) {
  if (name == "constant") return ScheduleKind::constant;
  if (name == "linear") return ScheduleKind::linear;
  if (name == "cosine") return ScheduleKind::cosine;
  if (name == "inverse_sqrt") return ScheduleKind::inverse_sqrt;
  throw Error("schedule: expected constant, linear, cosine or inverse_sqrt, got " + std::string(name));
}

}  // namespace heed
