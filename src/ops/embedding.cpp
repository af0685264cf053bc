// Lookup of rows in a table.
#include "heed/ops/embedding.h"

#include "heed/autograd.h"
#include "kernels/embedding.h"
#include "ops/stored_matrix.h"
#include "tensor/gradient_listener.h"

namespace heed {
namespace {

// The ids, dense, once they are known to be rows of the table.
Tensor checked_ids(const Shape& table, const Tensor& ids) {
  const Tensor index = ids.contiguous();
  if (table.rank() != 2 || (table[0] == 0 && ids.numel() > 0)) {
    throw Error("embedding: expected a table [V, D] with rows, got " + table.str());
  }
  const std::int64_t* values = index.data<std::int64_t>();
  const std::int64_t outside = kernels::first_outside(values, index.numel(), table[0], 0);
  if (outside >= 0) {
    throw Error("embedding: expected ids in [0, " + std::to_string(table[0]) + "), got " +
                std::to_string(values[outside]) + " at position " + std::to_string(outside) +
                " (from another model's tokenizer?)");
  }
  return index;
}

Shape shape_of_rows(const Shape& table, const Tensor& ids) {
  Shape shape = ids.shape();
  shape.push_back(table[1]);
  return shape;
}

void record_lookup(Tensor& y, const Tensor& table, const Tensor& index, double scale,
                   std::optional<std::int64_t> padding_id) {
  if (!needs_gradient({table})) return;
  record(y, "embedding", {table}, [index, scale, padding_id, shape = table.shape()](const Tensor& dy) {
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
  mark_as_rows(y);
}

}  // namespace

Tensor stored_embedding(const Shape& table, const kernels::StoredMatrix& rows, const Tensor& ids,
                        double scale) {
  const Tensor index = checked_ids(table, ids);
  Tensor y = Tensor::empty(shape_of_rows(table, ids), DType::f32);
  kernels::lookup_rows(rows, table[1], index.data<std::int64_t>(), index.numel(), static_cast<float>(scale),
                       y.data<float>());
  return y;
}

Tensor embedding(const Tensor& table, const Tensor& ids, double scale,
                 std::optional<std::int64_t> padding_id) {
  const bool narrow = table.dtype() == DType::bf16 || table.dtype() == DType::f16;
  const Tensor rows = table.contiguous();
  if (narrow) {
    const std::int64_t columns = table.rank() == 2 ? table.size(1) : 0;
    Tensor y = stored_embedding(table.shape(), {{rows.raw_data(), table.dtype(), columns, 1}}, ids, scale);
    record_lookup(y, rows, ids.contiguous(), scale, padding_id);
    return y;
  }
  const Tensor index = checked_ids(table.shape(), ids);
  Tensor y = Tensor::empty(shape_of_rows(table.shape(), ids), table.dtype());
  dispatch_float("embedding", table.dtype(), [&]<class T>() {
    kernels::embedding(rows.data<T>(), index.data<std::int64_t>(), static_cast<T>(scale), y.data<T>(),
                       index.numel(), table.size(1));
  });
  record_lookup(y, rows, index, scale, padding_id);
  return y;
}

}  // namespace heed
