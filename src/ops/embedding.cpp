// Lookup of rows in a table.
#include "heed/ops/embedding.h"

#include <utility>
#include <vector>

#include "heed/autograd.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "ops/computed_rows.h"
#include "ops/embedding.h"
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

void look_up(const TableRows& rows, std::int64_t begin, std::int64_t end, float* to) {
  kernels::lookup_rows(rows.table, {rows.ids.data<std::int64_t>() + begin, end - begin, rows.width},
                       rows.scale, to);
}

class SummedRows final : public ComputedRows {
 public:
  explicit SummedRows(std::vector<TableRows> parts)
      : ComputedRows(parts.front().ids.numel(), parts.front().width), parts_(std::move(parts)) {}

  void compute(std::int64_t begin, std::int64_t end, float* to) const override {
    look_up(parts_.front(), begin, end, to);
    const std::int64_t count = (end - begin) * width();
    std::vector<float> more(static_cast<std::size_t>(count));
    for (std::size_t i = 1; i < parts_.size(); ++i) {
      look_up(parts_[i], begin, end, more.data());
      kernels::add<float>(to, more.data(), to, count);
    }
  }

 private:
  std::vector<TableRows> parts_;
};

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

TableRows table_rows(const Tensor& table, std::shared_ptr<const PackedWeight> packed, const Tensor& ids,
                     double scale) {
  TableRows rows{.ids = checked_ids(table.shape(), ids), .table = {}, .width = table.size(1)};
  rows.scale = static_cast<float>(scale);
  if (packed != nullptr) {
    rows.table.packed = packed->matrix();
    rows.keep = std::move(packed);
    return rows;
  }
  const std::shared_ptr<Buffer>& buffer = TensorImpl::of(table).buffer;
  const std::shared_ptr<const Buffer> held = buffer->is_unwritten() ? buffer : buffer->read();
  const std::byte* begin = held->data() + static_cast<std::size_t>(table.offset()) * size_of(table.dtype());
  rows.table.strided = {begin, table.dtype(), table.strides()[0], table.strides()[1]};
  rows.keep = held;
  return rows;
}

Tensor sum_when_read(std::vector<TableRows> parts) {
  Shape shape = parts.front().ids.shape();
  shape.push_back(parts.front().width);
  for (const TableRows& part : parts) {
    if (part.ids.numel() != parts.front().ids.numel() || part.width != parts.front().width)
      throw Error("embedding: expected rows of one shape " + shape.str() + ", got " + part.ids.str() +
                  " of width " + std::to_string(part.width));
  }
  return when_read(std::make_shared<SummedRows>(std::move(parts)), shape);
}

Tensor stored_embedding(const Tensor& table, std::shared_ptr<const PackedWeight> packed, const Tensor& ids,
                        double scale) {
  const PackedWeight* form = packed.get();
  const TableRows rows = table_rows(table, std::move(packed), ids, scale);
  Tensor y = Tensor::empty(shape_of_rows(table.shape(), ids), DType::f32);
  look_up(rows, 0, rows.ids.numel(), y.data<float>());
  return form != nullptr ? form->own_columns(y) : y;
}

Tensor embedding(const Tensor& table, const Tensor& ids, double scale,
                 std::optional<std::int64_t> padding_id) {
  const bool narrow = table.dtype() == DType::bf16 || table.dtype() == DType::f16;
  const Tensor rows = table.contiguous();
  if (narrow) {
    Tensor y = stored_embedding(rows, nullptr, ids, scale);
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
