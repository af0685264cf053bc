// NumPy's array files in memory.
#pragma once

#include <string>
#include <string_view>

namespace heed::plot {

/// The header of an NPY file, format 1.0, of an array of `descr` ("<f4"), with a shape such as "(2, 3)".
std::string npy_header(std::string_view descr, std::string_view shape);

}  // namespace heed::plot
