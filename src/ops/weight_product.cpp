// The linear layer, in training and inference, and products of many matrices with one weight.
#include "ops/weight_product.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "heed/autograd.h"
#include "heed/ops/shape.h"
#include "kernels/elementwise.h"
#include "ops/computed_rows.h"
#include "tensor/impl.h"
#include "tensor/quantized_matrix.h"

namespace heed {
namespace {

thread_local bool mixed = false;

// dL/d(pre-activation), from the pre-activation or (where that is enough) the output.
Tensor activation_gradient(Activation activation, const Tensor& kept, const Tensor& dy) {
  if (activation == Activation::none) return dy;
  Tensor dx = Tensor::empty(dy.shape(), dy.dtype());
  dispatch_float("linear", dy.dtype(), [&]<class T>() {
    kernels::activate_backward(activation, kept.data<T>(), dy.data<T>(), dx.data<T>(), dy.numel());
  });
  return dx;
}

void check_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, WeightLayout layout) {
  const bool in_first = layout == WeightLayout::in_out;
  if (x.rank() < 1 || weight.rank() != 2 || x.size(-1) != weight.size(in_first ? 0 : 1)) {
    throw Error(std::string("linear: expected x [..., in] and weight ") +
                (in_first ? "[in, out]" : "[out, in]") + ", got " + x.str() + " and " + weight.str());
  }
  const std::int64_t out = weight.size(in_first ? 1 : 0);
  if (bias.defined() && bias.shape() != Shape{out}) {
    throw Error("linear: expected a bias [" + std::to_string(out) + "], got " + bias.str());
  }
}

// A bias may be narrower than the arithmetic, and so may a weight that needs no gradient.
Tensor widen(const Tensor& stored, DType dtype) {
  if (!stored.defined() || stored.dtype() == dtype) return stored;
  return stored.to(dtype);
}

// What the backward function of linear() needs; undefined tensors are absent.
struct RecordedLinear {
  Tensor x, weight;
  std::shared_ptr<const PackedWeight> packed;  // where the weight stays in blocks, which is not trained
  Tensor kept;                                 // for the gradient of the activation
  Activation activation;
  bool in_first;
  std::int64_t rows, out, in;
  kernels::Precision precision;
  bool needs_x, needs_w, needs_b;

  template <class T>
  std::vector<Tensor> gradients(const Tensor& dy) const {
    std::vector<Tensor> gradients(3);
    if (needs_x) {
      gradients[0] = Tensor::empty(x.shape(), x.dtype());
      const Tensor numbers = packed != nullptr ? packed->dequantized() : weight;
      const kernels::StridedMatrix w = matrix_of(numbers);
      kernels::gemm<T>({.m = rows,
                        .n = in,
                        .k = out,
                        .a = kernels::row_major(dy.data<T>(), out),
                        .b = in_first && packed == nullptr ? w.transposed() : w,
                        .c = gradients[0].data<T>(),
                        .ldc = in,
                        .precision = precision});
    }
    if (needs_w) {
      gradients[1] = Tensor::empty(weight.shape(), x.dtype());
      const std::int64_t m = weight.size(0), n = weight.size(1);
      kernels::gemm<T>({.m = m,
                        .n = n,
                        .k = rows,
                        .a = kernels::row_major((in_first ? x : dy).data<T>(), m).transposed(),
                        .b = kernels::row_major((in_first ? dy : x).data<T>(), n),
                        .c = gradients[1].data<T>(),
                        .ldc = n,
                        .precision = precision});
    }
    if (needs_b) {
      gradients[2] = Tensor::empty({out}, dy.dtype());
      kernels::bias_gradient(dy.data<T>(), gradients[2].data<T>(), rows, out);
    }
    return gradients;
  }
};

void record_linear(Tensor& y, const std::vector<Tensor>& inputs, RecordedLinear recorded) {
  record(y, "linear", inputs, [recorded = std::move(recorded)](const Tensor& gradient) {
    const Tensor dy = activation_gradient(recorded.activation, recorded.kept, gradient.contiguous());
    return dispatch_float("linear", dy.dtype(), [&]<class T>() { return recorded.gradients<T>(dy); });
  });
}

}  // namespace

MixedPrecision::MixedPrecision() : before_(mixed) { mixed = true; }
MixedPrecision::~MixedPrecision() { mixed = before_; }

kernels::Precision recording_precision() {
  return mixed ? kernels::Precision::bf16 : kernels::Precision::exact;
}

PackedWeight::PackedWeight(const Tensor& matrix, WeightLayout layout)
    : out_(matrix.size(layout == WeightLayout::in_out ? 1 : 0)),
      in_(matrix.size(layout == WeightLayout::in_out ? 0 : 1)),
      layout_(layout) {
  const bool in_first = layout == WeightLayout::in_out;
  if (const auto quantized = quantized_of(matrix);
      quantized != nullptr && quantized->is_transposed() == in_first) {
    matrix_ = quantized->pack();
    for (const std::int32_t column : quantized->column_order()) columns_.push_back(column);
    quantized->release_pages();
    return;
  }
  // What is stored in 16 bits stays so: products in f32 widen it exactly.
  const Tensor narrow = unwidened(matrix);
  const Tensor& source = narrow.defined() ? narrow : matrix;
  const Buffer& buffer = *TensorImpl::of(source).buffer;
  const std::shared_ptr<const Buffer> held = buffer.read();
  const std::byte* first = held->data() + static_cast<std::size_t>(source.offset()) * size_of(source.dtype());
  matrix_ = kernels::pack(kernels::dense_matrix(first, source.dtype(), out_, in_, in_first), out_, in_,
                          kernels::Kept::lastingly);
  if (narrow.defined()) buffer.release_pages();
}

namespace {

enum class Move { gather, scatter };
// The columns of x [..., in] from or to the places `columns`.
Tensor move_columns(const Tensor& x, const std::vector<std::int64_t>& columns, Move move) {
  if (columns.empty()) return x;
  Tensor moved = Tensor::empty(x.shape(), DType::f32);
  const float* from = x.data<float>();
  float* to = moved.data<float>();
  for (std::int64_t row = 0; row < x.numel(); row += std::ssize(columns)) {
    for (std::size_t l = 0; l < columns.size(); ++l) {
      const std::int64_t packed = row + static_cast<std::int64_t>(l), own = row + columns[l];
      to[move == Move::gather ? packed : own] = from[move == Move::gather ? own : packed];
    }
  }
  return moved;
}

}  // namespace

Tensor PackedWeight::packed_columns(const Tensor& x) const { return move_columns(x, columns_, Move::gather); }
Tensor PackedWeight::own_columns(const Tensor& x) const { return move_columns(x, columns_, Move::scatter); }

Tensor PackedWeight::dequantized() const {
  Tensor numbers = Tensor::empty({out_, in_}, DType::f32);
  kernels::dequantize(*matrix_, out_, in_, numbers.data<float>());
  return own_columns(numbers);
}

namespace {

/// The arguments of products, and what they point to.
class ProductsOfRows {
 public:
  /// A map of m rows, with neither x nor y.
  kernels::InvariantGemm of(const StoredLinear& map, std::int64_t m) {
    const bool in_first = map.layout == WeightLayout::in_out;
    kernels::InvariantGemm args{.m = m,
                                .n = map.weight.size(in_first ? 1 : 0),
                                .k = map.weight.size(in_first ? 0 : 1),
                                .int8 = map.int8};
    args.ldy = args.n;
    if (map.packed != nullptr) {
      args.w.packed = map.packed->matrix();
    } else {
      const bool narrow = map.weight.dtype() == DType::bf16 || map.weight.dtype() == DType::f16;
      const Tensor& numbers =
          held_.emplace_back((narrow ? map.weight : map.weight.to(DType::f32)).contiguous());
      args.w.strided = in_first ? matrix_of(numbers).transposed() : matrix_of(numbers);
    }
    const Tensor& bias = map.bias;
    args.epilogue = {
        .bias = bias.defined() ? hold(widen(bias.detach(), DType::f32).contiguous()) : nullptr,
        .activation = map.activation,
    };
    return args;
  }
  /// `x`, which is dense, as its rows.
  kernels::StridedMatrix rows(const StoredLinear& map, const Tensor& x) {
    const float* data = map.packed != nullptr ? hold(map.packed->packed_columns(x)) : x.data<float>();
    return kernels::row_major(data, x.size(-1));
  }

 private:
  const float* hold(const Tensor& tensor) { return held_.emplace_back(tensor).data<float>(); }

  std::vector<Tensor> held_;
};

Tensor empty_result(const Tensor& x, std::int64_t out) {
  Shape shape = x.shape();
  shape[-1] = out;
  return Tensor::empty(shape, DType::f32);
}

// multiply(x, rows): `rows`, if it is not null, computes the rows of x, which then are not there yet.
using MultiplyRows = FunctionRef<void(const Tensor& x, const kernels::ComputeRows* rows)>;
// Rows that nobody has read are computed by the product, which leaves them behind.
void multiply_rows(const Tensor& x, bool in_order, MultiplyRows multiply) {
  const auto rows = in_order ? unread_rows(x) : nullptr;
  const Buffer& buffer = *TensorImpl::of(x).buffer;
  const bool computes = rows != nullptr && buffer.write_by([&](const Buffer::Source&, std::byte* to) {
    const auto there = Buffer::wrap(to, buffer.bytes(), nullptr);
    const auto compute = [&, width = rows->width()](std::int64_t begin, std::int64_t end) {
      rows->compute(begin, end, reinterpret_cast<float*>(to) + begin * width);
    };
    const kernels::ComputeRows all = compute;
    multiply(Tensor::from_buffer(there, x.shape(), DType::f32), &all);
  });
  if (!computes) multiply(x, nullptr);
}

// Whether a map takes x as it lies in memory, and has results.
bool reads_in_order(const StoredLinear& map) {
  return (map.packed == nullptr || !map.packed->reorders_columns()) && map.weight.numel() > 0;
}

}  // namespace

std::vector<Tensor> stored_linears(const Tensor& x, const std::vector<StoredLinear>& maps) {
  for (const StoredLinear& map : maps) check_linear(x, map.weight, map.bias, map.layout);
  ProductsOfRows arguments;
  std::vector<Tensor> results;
  std::vector<kernels::InvariantGemm> products;
  for (const StoredLinear& map : maps) {
    kernels::InvariantGemm& args = products.emplace_back(arguments.of(map, 0));
    Tensor& y = results.emplace_back(empty_result(x, args.n));
    args.m = args.n == 0 ? 0 : y.numel() / args.n;
    args.y = y.data<float>();
  }
  const bool in_order = !maps.empty() && std::all_of(maps.begin(), maps.end(), reads_in_order);
  multiply_rows(x.detach().contiguous(), in_order,
                [&](const Tensor& dense, const kernels::ComputeRows* rows) {
                  for (std::size_t i = 0; i < maps.size(); ++i)
                    products[i].x = arguments.rows(maps[i], dense);
                  kernels::invariant_gemms(products, rows);
                });
  return results;
}

Tensor stored_chain(const Tensor& x, const StoredLinear& first, const StoredLinear& second) {
  const std::int64_t in = x.rank() == 0 ? 0 : x.size(-1), m = in == 0 ? 0 : x.numel() / in;
  const auto rounds = [](const StoredLinear& map) { return map.packed != nullptr && map.int8; };
  if (!rounds(first) || !rounds(second) || second.packed->reorders_columns() ||
      !kernels::takes_chain(*first.packed->matrix(), *second.packed->matrix(), m))
    return stored_linears(stored_linears(x, {first}).front(), {second}).front();
  check_linear(x, first.weight, first.bias, first.layout);
  ProductsOfRows arguments;
  kernels::InvariantGemm up = arguments.of(first, m), down = arguments.of(second, m);
  if (up.n != down.k)
    throw Error("linear: expected a weight for x [..., " + std::to_string(up.n) + "], got " +
                second.weight.str());
  Tensor y = empty_result(x, down.n);
  down.y = y.data<float>();
  const bool in_order = reads_in_order(first) && down.n > 0;
  multiply_rows(x.detach().contiguous(), in_order,
                [&](const Tensor& dense, const kernels::ComputeRows* rows) {
                  up.x = arguments.rows(first, dense);
                  kernels::invariant_gemm_chain(up, down, rows);
                });
  return y;
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation,
              WeightLayout layout) {
  const bool recording = needs_gradient({x, weight, bias});
  if (!recording && x.dtype() == DType::f32)
    return stored_linears(x, {{weight, nullptr, bias, activation, layout}}).front();
  check_linear(x, weight, bias, layout);
  const bool in_first = layout == WeightLayout::in_out;
  const Tensor input = x.contiguous(), b = widen(bias, x.dtype());
  const Tensor w = (is_read_in_place(weight, x.dtype()) ? weight : widen(weight, x.dtype())).contiguous();
  const std::int64_t out = w.size(in_first ? 1 : 0), in = w.size(in_first ? 0 : 1);
  const std::int64_t rows = in == 0 ? 0 : x.numel() / in;
  Shape shape = x.shape();
  shape[-1] = out;
  Tensor pre = Tensor::empty(shape, x.dtype());
  const kernels::Precision precision = recording ? recording_precision() : kernels::Precision::exact;
  const bool keep_pre =
      recording && activation != Activation::none && !kernels::gradient_takes_output(activation);
  Tensor y = keep_pre ? Tensor::empty(shape, x.dtype()) : pre.detach();
  dispatch_float("linear", x.dtype(), [&]<class T>() {
    kernels::gemm<T>({.m = rows,
                      .n = out,
                      .k = in,
                      .a = kernels::row_major(input.data<T>(), in),
                      .b = in_first ? matrix_of(w) : matrix_of(w).transposed(),
                      .c = pre.data<T>(),
                      .ldc = out,
                      .precision = precision});
    if (b.defined()) kernels::add_bias(pre.data<T>(), b.contiguous().data<T>(), rows, out);
    kernels::activate(activation, pre.data<T>(), y.data<T>(), y.numel());
  });
  if (!recording) return y;
  record_linear(y, {input, w, b},
                {.x = input.detach(),
                 .weight = w.detach(),
                 .packed = nullptr,
                 .kept = activation == Activation::none ? Tensor()
                         : keep_pre                     ? pre
                                                        : y.detach(),
                 .activation = activation,
                 .in_first = in_first,
                 .rows = rows,
                 .out = out,
                 .in = in,
                 .precision = precision,
                 .needs_x = x.requires_grad(),
                 .needs_w = weight.requires_grad(),
                 .needs_b = bias.defined() && bias.requires_grad()});
  return y;
}

Tensor frozen_linear(const Tensor& x, const Tensor& weight, std::shared_ptr<const PackedWeight> packed,
                     const Tensor& bias, Activation activation, WeightLayout layout) {
  const Tensor input = x.contiguous(), b = widen(bias, x.dtype());
  const Tensor pre = stored_linears(input, {{weight, packed.get(), b, Activation::none, layout}}).front();
  Tensor y = pre;
  if (activation != Activation::none) {
    y = Tensor::empty(pre.shape(), DType::f32);
    kernels::activate(activation, pre.data<float>(), y.data<float>(), y.numel());
  }
  const bool in_first = layout == WeightLayout::in_out;
  const std::int64_t out = weight.size(in_first ? 1 : 0), in = weight.size(in_first ? 0 : 1);
  record_linear(y, {input, Tensor(), b},
                {.x = input.detach(),
                 .weight = {},
                 .packed = std::move(packed),
                 .kept = activation == Activation::none               ? Tensor()
                         : kernels::gradient_takes_output(activation) ? y.detach()
                                                                      : pre,
                 .activation = activation,
                 .in_first = in_first,
                 .rows = in == 0 ? 0 : x.numel() / in,
                 .out = out,
                 .in = in,
                 .precision = recording_precision(),
                 .needs_x = x.requires_grad(),
                 .needs_w = false,
                 .needs_b = bias.defined() && bias.requires_grad()});
  return y;
}

template <class T>
RepeatedProduct<T>::RepeatedProduct(const Tensor& w, ProductOf kind, std::int64_t times,
                                    const PackedWeight* packed)
    : n_(w.size(kind == ProductOf::transpose ? 0 : 1)), k_(w.size(kind == ProductOf::transpose ? 1 : 0)) {
  if (packed != nullptr) {
    w_.packed = packed->matrix();
    return;
  }
  w_.strided = kind == ProductOf::transpose ? matrix_of(w) : matrix_of(w).transposed();
  if (std::is_same_v<T, double> || times < 2) return;
  own_ = kernels::pack(w_.strided, n_, k_, kernels::Kept::briefly);
  w_.packed = own_.get();
}

template <class T>
void RepeatedProduct<T>::operator()(const Rows& rows) const {
  if constexpr (std::is_same_v<T, float>) {
    kernels::invariant_gemm({.m = rows.m,
                             .n = n_,
                             .k = k_,
                             .x = kernels::row_major(rows.x, rows.ldx),
                             .w = w_,
                             .epilogue = {.bias = rows.bias},
                             .y = rows.y,
                             .ldy = rows.ldy,
                             .accumulate = rows.accumulate});
  } else {
    kernels::gemm<T>({.m = rows.m,
                      .n = n_,
                      .k = k_,
                      .a = kernels::row_major(rows.x, rows.ldx),
                      .b = w_.strided.transposed(),
                      .c = rows.y,
                      .ldc = rows.ldy,
                      .beta = rows.accumulate ? T{1} : T{0}});
    for (std::int64_t i = 0; rows.bias != nullptr && i < rows.m; ++i)
      kernels::add_bias(rows.y + i * rows.ldy, rows.bias, 1, n_);
  }
}
template class RepeatedProduct<float>;
template class RepeatedProduct<double>;

// All uses have `joint` as an input: it is visited after them, and multiplies what they have left.
struct RepeatedLinear::Shared {
  Tensor weight, bias, joint;
  struct Uses {
    std::vector<Tensor> dy, x;
  };
  std::shared_ptr<Uses> uses = std::make_shared<Uses>();

  template <class T>
  struct Products {
    RepeatedProduct<T> forward, backward;
    explicit Products(const Tensor& w)
        : forward(w, ProductOf::transpose, 2), backward(w, ProductOf::itself, 2) {}
  };
  std::shared_ptr<Products<float>> floats;
  std::shared_ptr<Products<double>> doubles;

  Shared(const Tensor& w, const Tensor& b) : weight(w.detach().contiguous()), bias(b) {
    if (bias.defined()) bias = bias.detach().contiguous();
    if (weight.dtype() == DType::f32) {
      floats = std::make_shared<Products<float>>(weight);
    } else {
      doubles = std::make_shared<Products<double>>(weight);
    }
    joint = Tensor::zeros({}, weight.dtype());
    record(joint, "linear", {w, b},
           [all = uses, shape = weight.shape(), has_bias = b.defined()](const Tensor&) {
             return gradients(concat(all->dy, 0), concat(all->x, 0), shape, has_bias);
           });
  }

  static std::vector<Tensor> gradients(const Tensor& dy, const Tensor& x, const Shape& shape, bool has_bias) {
    const std::int64_t rows = x.size(0), out = shape[0], in = shape[1];
    const Tensor dweight = Tensor::empty(shape, x.dtype());
    const Tensor dbias = has_bias ? Tensor::empty({out}, x.dtype()) : Tensor();
    dispatch_float("linear", x.dtype(), [&]<class T>() {
      kernels::gemm<T>({.m = out,
                        .n = in,
                        .k = rows,
                        .a = kernels::row_major(dy.data<T>(), out).transposed(),
                        .b = kernels::row_major(x.data<T>(), in),
                        .c = dweight.data<T>(),
                        .ldc = in});
      if (has_bias) kernels::bias_gradient(dy.data<T>(), dbias.data<T>(), rows, out);
    });
    return {dweight, dbias};
  }

  template <class T>
  const Products<T>& products() const {
    if constexpr (std::is_same_v<T, float>) {
      return *floats;
    } else {
      return *doubles;
    }
  }

  template <class T>
  static Tensor times(const RepeatedProduct<T>& product, const Tensor& x, const T* bias, std::int64_t out) {
    Tensor y = Tensor::empty({x.size(0), out}, x.dtype());
    product({.m = x.size(0), .x = x.data<T>(), .ldx = x.size(1), .bias = bias, .y = y.data<T>(), .ldy = out});
    return y;
  }
};

RepeatedLinear::RepeatedLinear(const Tensor& weight, const Tensor& bias)
    : shared_(std::make_shared<Shared>(weight, bias)) {}

Tensor RepeatedLinear::operator()(const Tensor& x) const {
  const Tensor& weight = shared_->weight;
  if (x.rank() != 2 || x.size(1) != weight.size(1) || x.dtype() != weight.dtype())
    throw Error("linear: expected x [R, in] like the weight " + weight.str() + ", got " + x.str());
  const Tensor input = x.contiguous(), in = input.detach();
  Tensor y = dispatch_float("linear", x.dtype(), [&]<class T>() {
    const T* bias = shared_->bias.defined() ? shared_->bias.data<T>() : nullptr;
    return Shared::times<T>(shared_->products<T>().forward, in, bias, weight.size(0));
  });
  record(y, "linear", {input, shared_->joint}, [shared = shared_, in](const Tensor& gradient) {
    const Tensor dy = gradient.contiguous();
    shared->uses->dy.push_back(dy);
    shared->uses->x.push_back(in);
    const Tensor dx = dispatch_float("linear", dy.dtype(), [&]<class T>() {
      return Shared::times<T>(shared->products<T>().backward, dy, nullptr, in.size(1));
    });
    return std::vector<Tensor>{dx, Tensor::zeros({}, dy.dtype())};
  });
  return y;
}

}  // namespace heed
