// Where numbers that are NaN or infinite come from: the first such element of a tensor, and of a model's
// weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "heed/models/model.h"

namespace heed {

/// An element that is NaN or infinite: its number in the row-major order of its tensor, and its value.
struct NonFinite {
  std::int64_t index = 0;
  double value = 0;
};

/// The first one of a floating-point tensor; nullopt if all are finite, and for other dtypes.
std::optional<NonFinite> first_non_finite(const Tensor& tensor);

/// `NAME[2, 5] is NaN`, for an element of a tensor of this name and shape.
std::string describe(const NonFinite& element, const std::string& name, const Shape& shape);

/// describe() of the first one of the model's parameters, in the order of the file; nullopt: all are finite.
std::optional<std::string> first_non_finite_weight(const Model& model);

}  // namespace heed
