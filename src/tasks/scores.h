// From logits to scores and their order.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "heed/models/model.h"

namespace heed::tasks {

/// Throws Error `TASK: expected a model with the head WANTED, got one with ...`.
void require_head(const EncoderModel& model, EncoderHead wanted, const char* task);

/// For outputs of a model that nothing can be made of.
[[noreturn]] void throw_not_numbers();

/// log(softmax(logits)), in double. Throws Error where that is not defined.
std::vector<double> log_softmax(std::span<const float> logits);
std::vector<double> softmax(std::span<const float> logits);

/// Indices of the `count` largest scores (of all where there are fewer), the largest first; of equal ones the
/// first.
std::vector<std::size_t> largest(std::span<const double> scores, std::size_t count);

}  // namespace heed::tasks
