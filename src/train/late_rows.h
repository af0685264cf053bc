// Rows of gradients that came after the all-reduce of the rest of their gradient had started: those of a
// table that is looked up at the bottom of a model and multiplied with at its top. As bytes, for other
// processes.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "heed/tensor.h"

namespace heed {

/// Appends the rows of `gradient` f32 [rows, columns] that are not zero, as those of `parameter`.
void append_rows(std::string& to, std::size_t parameter, const Tensor& gradient);

/// Adds all rows of `from` to the gradients: gradient_of(parameter) is f32, with the shape that was appended.
void add_rows(std::string_view from, const std::function<Tensor(std::size_t parameter)>& gradient_of);

}  // namespace heed
