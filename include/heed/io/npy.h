// Arrays for NumPy: the file that `numpy.load` reads.
#pragma once

#include <filesystem>

#include "heed/tensor.h"

namespace heed {

/// Writes a tensor as NPY format 1.0, row-major, atomically (source: NumPy enhancement proposal 1). Throws
/// Error for bf16, which NumPy lacks, and when the file cannot be written.
void write_npy(const std::filesystem::path& path, const Tensor& tensor);

}  // namespace heed
