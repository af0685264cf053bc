// Arrays for NumPy: the file that `numpy.load` reads and `numpy.save` writes.
#pragma once

#include <filesystem>

#include "heed/tensor.h"

namespace heed {

/// Writes a tensor as NPY format 1.0, row-major, atomically (source: NumPy enhancement proposal 1). Throws
/// Error for bf16, which NumPy lacks, and when the file cannot be written.
void write_npy(const std::filesystem::path& path, const Tensor& tensor);

/// The array of an NPY file (format 1.0 to 3.0) as numpy.save and write_npy() make it: little endian,
/// row-major, of a dtype heed has. Throws Error naming the file for anything else, and where the file's size
/// is not that of its shape.
Tensor read_npy(const std::filesystem::path& path);

}  // namespace heed
