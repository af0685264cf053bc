// Lookup of rows in a table.
#include "heed/ops/embedding.h"

#include "heed/autograd.h"
#include "kernels/embedding.h"
#include "ops/weight_product.h"
#include "tensor/impl.h"

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

kernels::RowLookup lookup_of(const Tensor& index, const Shape& table) {
  return {index.data<std::int64_t>(), index.numel(), table[1]};
}

// Rows of a table of this shape in the form in which it is stored, in f32.
Tensor stored_rows(const Shape& table, const kernels::StoredMatrix& matrix, const Tensor& ids, double scale) {
  const Tensor index = checked_ids(table, ids);
  Tensor y = Tensor::empty(shape_of_rows(table, ids), DType::f32);
  kernels::lookup_rows(matrix, lookup_of(index, table), static_cast<float>(scale), y.data<float>());
  return y;
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
      kernels::embedding_backward(dense.data<T>(), lookup_of(index, shape), static_cast<T>(scale),
                                  gradient.data<T>(), padding_id.value_or(kernels::kNoIndex));
    });
    return std::vector<Tensor>{so_far.defined() ? Tensor() : gradient};
  });
  mark_as_rows(y);
}

}  // namespace

Tensor stored_embedding(const Tensor& table, const PackedWeight* packed, const Tensor& ids, double scale) {
  if (packed != nullptr)
    return packed->own_columns(stored_rows(table.shape(), {{}, packed->matrix()}, ids, scale));
  const Buffer& buffer = *TensorImpl::of(table).buffer;
  const std::shared_ptr<const Buffer> held = buffer.is_unwritten() ? nullptr : buffer.read();
  const std::byte* begin = held != nullptr ? held->data() : buffer.data();
  const kernels::StridedMatrix matrix{
      begin + static_cast<std::size_t>(table.offset()) * size_of(table.dtype()), table.dtype(),
      table.strides()[0], table.strides()[1]};
  return stored_rows(table.shape(), {matrix}, ids, scale);
}

Tensor embedding(const Tensor& table, const Tensor& ids, double scale,
                 std::optional<std::int64_t> padding_id) {
  const bool narrow = table.dtype() == DType::bf16 || table.dtype() == DType::f16;
  const Tensor rows = table.contiguous();
  if (narrow) {
    const std::int64_t columns = table.rank() == 2 ? table.size(1) : 0;
    Tensor y = stored_rows(table.shape(), {{rows.raw_data(), table.dtype(), columns, 1}}, ids, scale);
    record_lookup(y, rows, ids.contiguous(), scale, padding_id);
    return y;
  }
  const Tensor index = checked_ids(table.shape(), ids);
  Tensor y = Tensor::empty(shape_of_rows(table.shape(), ids), table.dtype());
  dispatch_float("embedding", table.dtype(), [&]<class T>() {
    kernels::embedding(rows.data<T>(), lookup_of(index, table.shape()), static_cast<T>(scale), y.data<T>());
  });
  record_lookup(y, rows, index, scale, padding_id);
  return y;
}

}  // namespace heed
