// Finds and names elements that are NaN or infinite.
#include "models/non_finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace heed {

std::optional<NonFinite> first_non_finite(const Tensor& tensor) {
  if (!is_floating(tensor.dtype())) return std::nullopt;
  const auto find = [](const auto& values) -> std::optional<NonFinite> {
    const auto found =
        std::find_if(values.begin(), values.end(), [](auto value) { return !std::isfinite(value); });
    if (found == values.end()) return std::nullopt;
    return NonFinite{found - values.begin(), static_cast<double>(*found)};
  };
  if (tensor.dtype() == DType::f64) return find(tensor.detach().to_vector<double>());
  return find(tensor.detach().to(DType::f32).to_vector<float>());
}

std::string describe(const NonFinite& element, const std::string& name, const Shape& shape) {
  std::string place;
  std::int64_t rest = element.index;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    place = std::to_string(rest % shape[axis]) + (place.empty() ? "" : ", ") + place;
    rest /= shape[axis];
  }
  return fmt::format("{}[{}] is {}", name, place, std::isnan(element.value) ? "NaN" : "infinite");
}

std::optional<std::string> first_non_finite_weight(const Model& model) {
  for (const Parameter& parameter : model.parameters()) {
    if (const auto found = first_non_finite(parameter.tensor))
      return describe(*found, parameter.name, parameter.tensor.shape());
  }
  return std::nullopt;
}

}  // namespace heed
