// Arrays of NumPy, PyTorch and JAX as tensors, and tensors as arrays of NumPy. Neither copies numbers that
// lie in memory as the other side reads them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <string>

#include "heed/tensor.h"

namespace heed::python {

namespace nb = nanobind;

/// Whatever has DLPack or the buffer protocol.
using Given = nb::ndarray<nb::ro, nb::device::cpu>;

/// The tensor of an array, which keeps the array alive; row-major and aligned arrays are not copied. Throws
/// TypeError that begins with `name` for types that heed does not have.
Tensor tensor_of(const Given& array, const std::string& name);
/// The same of any object, such as a list of lists, which NumPy makes an array of.
Tensor tensor_of(nb::handle object, const std::string& name);

/// The array of a tensor, which shares its memory; numbers of 16 bits that NumPy does not have (bf16) become
/// f32. Read-only unless `writable`.
nb::any array_of(const Tensor& tensor, bool writable = false);
/// A dict of the arrays.
nb::dict arrays_of(const TensorMap& tensors, bool writable = false);
/// The tensors of a dict of arrays. Throws as tensor_of().
TensorMap tensors_of(const nb::dict& arrays);

}  // namespace heed::python
