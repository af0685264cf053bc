// Lookup of rows in a table.
#include "heed/ops/embedding.h"

#include "heed/autograd.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/shape.h"
#include "kernels/embedding.h"
#include "kernels/packed.h"
#include "ops/packed_weight.h"
#include "tensor/impl.h"

namespace heed {
namespace {

void check_lookup(const Tensor& table, const Tensor& ids) {
  if (table.rank() != 2) throw Error("embedding: expected a table [V, D], got " + table.str());
  const std::int64_t* values = ids.data<std::int64_t>();
  const std::int64_t outside = kernels::first_outside(values, ids.numel(), table.size(0), 0);
  if (outside >= 0) {
    throw Error("embedding: expected ids in [0, " + std::to_string(table.size(0)) + "), got " +
                std::to_string(values[outside]) + " at position " + std::to_string(outside) +
                " (from another model's tokenizer?)");
  }
}

// Rows of a loaded table without a gradient. The table stays in the form it has, or becomes packed: the
// output projection often shares it.
template <class T>
Tensor loaded_rows(const Tensor& table, const Tensor& index, double scale, const Shape& shape) {
  Tensor y = Tensor::empty(shape, DType::f32);
  const auto factor = static_cast<float>(scale);
  const Buffer& buffer = *table.impl()->buffer;
  if constexpr (std::is_same_v<T, float>) {
    if (buffer.form() == nullptr) {
      const std::shared_ptr<const Buffer> numbers = buffer.peek();
      kernels::embedding(reinterpret_cast<const float*>(numbers->data()), index.data<std::int64_t>(), factor,
                         y.data<float>(), index.numel(), table.size(1));
      return y;
    }
  }
  const auto packed = packed_weight(table, WeightLayout::out_in);
  if (packed == nullptr) return {};
  kernels::packed_rows(table.size(1), reinterpret_cast<const T*>(packed->panels->data()),
                       index.data<std::int64_t>(), index.numel(), factor, y.data<float>());
  return y;
}

// loaded_rows, or an undefined tensor where the table is none that may change its form.
Tensor loaded_rows(const Tensor& table, const Tensor& index, double scale, const Shape& shape) {
  if (!is_movable(table) || needs_gradient({table})) return {};
  switch (table.dtype()) {
    case DType::f32: return loaded_rows<float>(table, index, scale, shape);
    case DType::bf16: return loaded_rows<bfloat16>(table, index, scale, shape);
    case DType::f16: return loaded_rows<float16>(table, index, scale, shape);
    default: return {};
  }
}

}  // namespace

Tensor embedding(const Tensor& table, const Tensor& ids, double scale,
                 std::optional<std::int64_t> padding_id) {
  const Tensor index = ids.contiguous();
  if (table.rank() == 2 && table.size(0) == 0 && ids.numel() > 0) {
    throw Error("embedding: expected a table with rows, got " + table.str());
  }
  check_lookup(table, index);
  Shape shape = ids.shape();
  shape.push_back(table.size(1));
  if (Tensor rows = loaded_rows(table, index, scale, shape); rows.defined()) return rows;
  if (table.dtype() == DType::bf16 || table.dtype() == DType::f16) {
    refuse_gradient("embedding of a 16-bit table", {table});
    const Tensor rows = gather(table, 0, reshape(index, {index.numel()})).to(DType::f32);
    return reshape(scale == 1.0 ? rows : mul(rows, scale), shape);
  }
  const Tensor rows = table.contiguous();
  Tensor y = Tensor::empty(shape, table.dtype());
  dispatch_float("embedding", table.dtype(), [&]<class T>() {
    kernels::embedding(rows.data<T>(), index.data<std::int64_t>(), static_cast<T>(scale), y.data<T>(),
                       index.numel(), table.size(1));
  });
  if (needs_gradient({table})) {
    record(y, "embedding", {rows}, [index, scale, padding_id, shape = table.shape()](const Tensor& dy) {
      const Tensor dense = dy.contiguous();
      // The table may be the output projection too (Press and Wolf 2017): its gradient is then there already,
      // and only the rows looked up are touched.
      const Tensor so_far = gradient_so_far(0);
      const Tensor gradient = so_far.defined() ? so_far : Tensor::zeros(shape, dy.dtype());
      dispatch_float("embedding", dy.dtype(), [&]<class T>() {
        kernels::embedding_backward(dense.data<T>(), index.data<std::int64_t>(), static_cast<T>(scale),
                                    gradient.data<T>(), index.numel(), shape[1],
                                    padding_id.value_or(kernels::kNoIndex));
      });
      return std::vector<Tensor>{so_far.defined() ? Tensor() : gradient};
    });
  }
  return y;
}

}  // namespace heed
