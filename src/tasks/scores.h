// Converts logits to scores, and ranks scores.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "heed/models/model.h"

namespace heed::tasks {

/// Throws Error `TASK: expected a model with the head WANTED, got one with ...`.
void require_head(const EncoderModel& model, EncoderHead wanted, const char* task);

/// Throws Error for model outputs that are not finite numbers.
[[noreturn]] void throw_not_finite();

/// Returns log(softmax(logits)), in double. Throws Error if it is undefined.
std::vector<double> log_softmax(std::span<const float> logits);
std::vector<double> softmax(std::span<const float> logits);

/// Returns the indices of the `count` largest scores (of all if there are fewer), largest first; in a tie,
/// the first.
std::vector<std::size_t> largest(std::span<const double> scores, std::size_t count);

}  // namespace heed::tasks
