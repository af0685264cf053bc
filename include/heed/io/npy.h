// NumPy's array files, as `numpy.load` reads and `numpy.save` writes them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "heed/export.h"
#include "heed/tensor.h"

namespace HEED_API heed {

/// Writes a tensor as NPY format 1.0, row-major, atomically (source: NumPy Enhancement Proposal 1). Throws
/// Error for bf16, which NumPy lacks, and if the file cannot be written.
void write_npy(const std::filesystem::path& path, const Tensor& tensor);

/// The header of such a file for an array of `descr` ("<f4"), with a shape such as "(2, 3)"; its numbers
/// follow.
std::string npy_header(std::string_view descr, std::string_view shape);

/// Reads an NPY file (format 1.0 to 3.0) as numpy.save and write_npy() write it: little endian, row-major, of
/// a dtype that heed supports. Throws Error naming the file for anything else, and if the file's size does
/// not match its shape.
Tensor read_npy(const std::filesystem::path& path);

}  // namespace heed
