// Packing weights, and unpacking them for who wants the numbers.
#include "ops/packed_weight.h"

#include "kernels/packed.h"
#include "tensor/impl.h"

namespace heed {
namespace {

// Calls fn with the 16- or 32-bit float type that a packed weight has.
template <class Fn>
void dispatch_stored(DType dtype, Fn&& fn) {
  switch (dtype) {
    case DType::bf16: return fn.template operator()<bfloat16>();
    case DType::f16: return fn.template operator()<float16>();
    default: return fn.template operator()<float>();
  }
}

}  // namespace

bool is_movable(const Tensor& weight) {
  const Buffer& buffer = *weight.impl()->buffer;
  return buffer.may_change_form() && weight.is_contiguous() && weight.offset() == 0 &&
         static_cast<std::size_t>(weight.numel()) * size_of(weight.dtype()) == buffer.bytes();
}

void PackedWeight::write(std::byte* to) const {
  dispatch_stored(dtype, [&]<class T>() {
    const T* from = reinterpret_cast<const T*>(panels->data());
    kernels::unpack(n, k, from,
                    kernels::plain_of(reinterpret_cast<T*>(to), n, k, layout == WeightLayout::in_out));
  });
}

std::shared_ptr<const PackedWeight> packed_weight(const Tensor& weight, WeightLayout layout) {
  const Buffer& buffer = *weight.impl()->buffer;
  const bool in_first = layout == WeightLayout::in_out;
  if (!is_movable(weight) || weight.dtype() == DType::f64) return nullptr;
  const std::int64_t n = weight.size(in_first ? 1 : 0), k = weight.size(in_first ? 0 : 1);
  if (auto known = std::dynamic_pointer_cast<const PackedWeight>(buffer.form())) {
    return known->n == n && known->k == k && known->layout == layout ? known : nullptr;
  }
  auto packed = std::make_shared<PackedWeight>();
  packed->n = n;
  packed->k = k;
  packed->dtype = weight.dtype();
  packed->layout = layout;
  packed->panels =
      Buffer::allocate(static_cast<std::size_t>(kernels::packed_size(n, k)) * size_of(weight.dtype()));
  const std::shared_ptr<const Buffer> numbers = buffer.peek();
  dispatch_stored(weight.dtype(), [&]<class T>() {
    const T* from = reinterpret_cast<const T*>(numbers->data());
    kernels::pack(kernels::plain_of(from, n, k, in_first), n, k,
                  reinterpret_cast<T*>(packed->panels->data()));
  });
  return buffer.keep_as(packed) ? packed : nullptr;
}

}  // namespace heed
