// Matrix products.
#include "heed/ops/matmul.h"

#include "heed/autograd.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/invariant_gemm.h"
#include "ops/precision.h"
#include "ops/stored_matrix.h"
#include "ops/weight_product.h"

namespace heed {
namespace {

// A tensor as gemm takes it: dense in memory, perhaps with its last two axes stored the other way round.
struct Operand {
  Tensor dense;
  bool transposed = false;
};

Operand operand(const Tensor& x) {
  if (x.is_contiguous()) return {x, false};
  const Tensor swapped = transpose(x, -1, -2);
  if (swapped.is_contiguous()) return {swapped, true};
  return {x.contiguous(), false};
}

Shape leading(const Shape& shape) {
  return Shape(std::span<const std::int64_t>(shape.begin(), static_cast<std::size_t>(shape.rank() - 2)));
}

Shape with_matrix(Shape lead, std::int64_t rows, std::int64_t columns) {
  lead.push_back(rows);
  lead.push_back(columns);
  return lead;
}

thread_local bool mixed = false;

Tensor product(const Tensor& a, const Tensor& b, kernels::Precision precision) {
  const std::int64_t m = a.size(-2), k = a.size(-1), n = b.size(-1);
  const Shape lead = broadcast_shapes("matmul", leading(a.shape()), leading(b.shape()));
  const bool share_b = b.rank() == 2;
  const Operand x = operand(broadcast_to(a, with_matrix(lead, m, k)));
  const Operand y = operand(share_b ? b : broadcast_to(b, with_matrix(lead, k, n)));
  Tensor result = Tensor::empty(with_matrix(lead, m, n), a.dtype());
  kernels::GemmBatch batch{lead.numel(), m * k, share_b ? 0 : k * n, m * n};
  std::int64_t rows = m;
  if (share_b && !x.transposed) {  // one tall product
    rows = m * batch.count;
    batch.count = 1;
  }
  dispatch_float("matmul", a.dtype(), [&]<class T>() {
    kernels::gemm_batched<T>(batch, x.transposed, y.transposed, rows, n, k, T{1}, x.dense.data<T>(),
                             x.transposed ? m : k, y.dense.data<T>(), y.transposed ? k : n, T{0},
                             result.data<T>(), n, precision);
  });
  return result;
}

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

}  // namespace

MixedPrecision::MixedPrecision() : before_(mixed) { mixed = true; }
MixedPrecision::~MixedPrecision() { mixed = before_; }

kernels::Precision recording_precision() {
  return mixed ? kernels::Precision::bf16 : kernels::Precision::exact;
}

Tensor stored_linear(const Tensor& x, const Tensor& weight, const kernels::PackedMatrix* packed,
                     const Tensor& bias, Activation activation, WeightLayout layout) {
  check_linear(x, weight, bias, layout);
  const bool in_first = layout == WeightLayout::in_out;
  Shape shape = x.shape();
  shape[-1] = weight.size(in_first ? 1 : 0);
  Tensor y = Tensor::empty(shape, DType::f32);
  const Tensor input = x.detach().contiguous();
  const Tensor b = bias.defined() ? widen(bias.detach(), DType::f32).contiguous() : bias;
  const std::int64_t n = shape[-1], k = x.size(-1), m = n == 0 ? 0 : y.numel() / n;
  kernels::InvariantGemm args{.m = m, .n = n, .k = k, .y = y.data<float>(), .ldy = n};
  args.x = kernels::dense_matrix(input.data<float>(), DType::f32, m, k);
  args.w.packed = packed;
  Tensor numbers;
  if (packed == nullptr) {
    const bool narrow = weight.dtype() == DType::bf16 || weight.dtype() == DType::f16;
    numbers = (narrow ? weight : weight.to(DType::f32)).contiguous();
    args.w.strided = kernels::dense_matrix(numbers.raw_data(), numbers.dtype(), n, k, in_first);
  }
  args.epilogue = {b.defined() ? b.data<float>() : nullptr, activation};
  kernels::invariant_gemm(args);
  return y;
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  if (a.rank() < 2 || b.rank() < 2 || a.size(-1) != b.size(-2) || a.dtype() != b.dtype()) {
    throw Error("matmul: expected [..., M, K] and [..., K, N] of one type, got " + a.str() + " and " +
                b.str());
  }
  const bool recording = needs_gradient({a, b});
  const kernels::Precision precision = recording ? recording_precision() : kernels::Precision::exact;
  Tensor y = product(a.detach(), b.detach(), precision);
  if (recording) {
    const bool needs_a = a.requires_grad(), needs_b = b.requires_grad();
    record(y, "matmul", {a, b},
           [a = a.detach(), b = b.detach(), needs_a, needs_b, precision](const Tensor& dy) {
             const auto da = [&] { return product(dy, transpose(b, -1, -2), precision); };
             const auto db = [&] { return product(transpose(a, -1, -2), dy, precision); };
             return std::vector<Tensor>{needs_a ? sum_to(da(), a.shape()) : Tensor(),
                                        needs_b ? sum_to(db(), b.shape()) : Tensor()};
           });
  }
  return y;
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation,
              WeightLayout layout) {
  const bool recording = needs_gradient({x, weight, bias});
  if (!recording && x.dtype() == DType::f32)
    return stored_linear(x, weight, nullptr, bias, activation, layout);
  check_linear(x, weight, bias, layout);
  const bool in_first = layout == WeightLayout::in_out;
  const Tensor input = x.contiguous(), b = widen(bias, x.dtype());
  const Tensor w = (is_read_in_place(weight, x.dtype()) ? weight : widen(weight, x.dtype())).contiguous();
  const std::int64_t out = w.size(in_first ? 1 : 0), in = w.size(in_first ? 0 : 1);
  const std::int64_t stored = w.size(1), rows = in == 0 ? 0 : x.numel() / in;
  Shape shape = x.shape();
  shape[-1] = out;
  Tensor pre = Tensor::empty(shape, x.dtype());
  const kernels::Precision precision = recording ? recording_precision() : kernels::Precision::exact;
  const bool keep_pre =
      recording && activation != Activation::none && !kernels::gradient_takes_output(activation);
  Tensor y = keep_pre ? Tensor::empty(shape, x.dtype()) : pre.detach();
  dispatch_float("linear", x.dtype(), [&]<class T>() {
    multiply_with_weight<T>(!in_first, rows, out, in, input.data<T>(), w, pre.data<T>(), precision);
    if (b.defined()) kernels::add_bias(pre.data<T>(), b.contiguous().data<T>(), rows, out);
    kernels::activate(activation, pre.data<T>(), y.data<T>(), y.numel());
  });
  if (!recording) return y;
  const bool needs_x = x.requires_grad(), needs_w = weight.requires_grad();
  const bool needs_b = bias.defined() && bias.requires_grad();
  const Tensor kept = activation == Activation::none ? Tensor() : keep_pre ? pre : y.detach();
  record(y, "linear", {input, w, b},
         [x = input.detach(), w = w.detach(), kept, activation, in_first, rows, out, in, stored, precision,
          needs_x, needs_w, needs_b](const Tensor& gradient) {
           const Tensor dy = activation_gradient(activation, kept, gradient.contiguous());
           std::vector<Tensor> gradients(3);
           dispatch_float("linear", dy.dtype(), [&]<class T>() {
             if (needs_x) {
               gradients[0] = Tensor::empty(x.shape(), x.dtype());
               multiply_with_weight<T>(in_first, rows, in, out, dy.data<T>(), w, gradients[0].data<T>(),
                                       precision);
             }
             if (needs_w) {
               gradients[1] = Tensor::empty(w.shape(), x.dtype());
               const T *left = in_first ? x.data<T>() : dy.data<T>(),
                       *right = in_first ? dy.data<T>() : x.data<T>();
               kernels::gemm<T>(true, false, w.size(0), stored, rows, T{1}, left, w.size(0), right, stored,
                                T{0}, gradients[1].data<T>(), stored, precision);
             }
             if (needs_b) {
               gradients[2] = Tensor::empty({out}, dy.dtype());
               kernels::bias_gradient(dy.data<T>(), gradients[2].data<T>(), rows, out);
             }
           });
           return gradients;
         });
  return y;
}

}  // namespace heed
