#include "arrays.h"

#include <nanobind/stl/string.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace heed::python {
namespace {

std::optional<DType> dtype_of(const nb::dlpack::dtype& type) {
  using Code = nb::dlpack::dtype_code;
  if (type.lanes != 1) return std::nullopt;
  switch (static_cast<Code>(type.code)) {
    case Code::Float:
      if (type.bits == 64) return DType::f64;
      if (type.bits == 32) return DType::f32;
      if (type.bits == 16) return DType::f16;
      return std::nullopt;
    case Code::Bfloat: return type.bits == 16 ? std::optional(DType::bf16) : std::nullopt;
    case Code::Int:
      if (type.bits == 64) return DType::i64;
      if (type.bits == 32) return DType::i32;
      return std::nullopt;
    case Code::UInt: return type.bits == 8 ? std::optional(DType::u8) : std::nullopt;
    case Code::Bool: return type.bits == 8 ? std::optional(DType::boolean) : std::nullopt;
    default: return std::nullopt;
  }
}

nb::dlpack::dtype dlpack_of(DType type) {
  using Code = nb::dlpack::dtype_code;
  const auto make = [&](Code code) {
    return nb::dlpack::dtype{static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(8 * size_of(type)),
                             1};
  };
  switch (type) {
    case DType::i64:
    case DType::i32: return make(Code::Int);
    case DType::u8: return make(Code::UInt);
    case DType::boolean: return make(Code::Bool);
    case DType::bf16: return make(Code::Bfloat);
    default: return make(Code::Float);
  }
}

}  // namespace

Tensor tensor_of(const Given& array, const std::string& name) {
  const std::optional<DType> dtype = dtype_of(array.dtype());
  if (!dtype)
    throw nb::type_error((name + ": expected an array of float64, float32, float16, bfloat16, int64, int32, "
                                 "uint8 or bool, got another type (use astype)")
                             .c_str());
  std::vector<std::int64_t> sizes, strides;
  std::int64_t numbers = 1, reach = 0;
  bool forward = true;
  for (std::size_t axis = 0; axis < array.ndim(); ++axis) {
    sizes.push_back(static_cast<std::int64_t>(array.shape(axis)));
    strides.push_back(array.stride(axis));
    numbers *= sizes.back();
    reach += (sizes.back() - 1) * strides.back();
    forward = forward && strides.back() >= 0;
  }
  const Shape shape(sizes);
  if (numbers == 0) return Tensor::empty(shape, *dtype);
  const bool aligned = reinterpret_cast<std::uintptr_t>(array.data()) % size_of(*dtype) == 0;
  if (!forward || !aligned) {
    // Backward or odd addresses: NumPy copies.
    const nb::object rows =
        nb::module_::import_("numpy").attr("array")(nb::cast(array, nb::rv_policy::reference));
    return tensor_of(nb::cast<Given>(rows), name);
  }
  const std::shared_ptr<void> owner(new Given(array), [](void* given) {  // any thread may let go of it
    const nb::gil_scoped_acquire lock;
    delete static_cast<Given*>(given);
  });
  const auto bytes = static_cast<std::size_t>(reach + 1) * size_of(*dtype);
  const std::shared_ptr<Buffer> memory = Buffer::wrap(const_cast<void*>(array.data()), bytes, owner);
  const Tensor all = Tensor::from_buffer(memory, Shape({reach + 1}), *dtype);
  return all.as_strided(shape, Shape(strides), 0).contiguous();
}

Tensor tensor_of(nb::handle object, const std::string& name) {
  Given array;
  if (nb::try_cast(object, array)) return tensor_of(array, name);
  nb::object made;
  try {
    made = nb::module_::import_("numpy").attr("asarray")(object);
  } catch (const nb::python_error&) {
    throw nb::type_error((name + ": expected an array").c_str());
  }
  if (!nb::try_cast(made, array))
    throw nb::type_error((name + ": expected an array of numbers in this machine's byte order, got dtype " +
                          nb::cast<std::string>(made.attr("dtype").attr("str")))
                             .c_str());
  return tensor_of(array, name);
}

nb::any array_of(const Tensor& tensor, bool writable) {
  const Tensor shown = tensor.dtype() == DType::bf16 ? tensor.to(DType::f32) : tensor;
  std::vector<std::size_t> sizes;
  std::vector<std::int64_t> strides;
  for (int axis = 0; axis < shown.rank(); ++axis) {
    sizes.push_back(static_cast<std::size_t>(shown.size(axis)));
    strides.push_back(shown.strides()[axis]);
  }
  auto* owner = new Tensor(shown);
  const nb::capsule held(owner, [](void* tensor) noexcept { delete static_cast<Tensor*>(tensor); });
  void* data = shown.raw_data();
  const auto array_as = [&]<class Kind>(Kind*) {
    return nb::borrow<nb::any>(
        nb::cast(Kind(data, sizes.size(), sizes.data(), held, strides.data(), dlpack_of(shown.dtype()))));
  };
  if (writable) return array_as(static_cast<nb::ndarray<nb::numpy>*>(nullptr));
  return array_as(static_cast<nb::ndarray<nb::numpy, nb::ro>*>(nullptr));
}

nb::dict arrays_of(const TensorMap& tensors, bool writable) {
  nb::dict arrays;
  for (const auto& [name, tensor] : tensors) arrays[name.c_str()] = array_of(tensor, writable);
  return arrays;
}

TensorMap tensors_of(const nb::dict& arrays) {
  TensorMap tensors;
  for (const auto& [name, array] : arrays) {
    const auto text = nb::cast<std::string>(name);
    tensors[text] = tensor_of(array, text);
  }
  return tensors;
}

}  // namespace heed::python
