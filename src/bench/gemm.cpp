// A matrix product of random numbers.
#include <memory>

#include "bench/layers.h"
#include "heed/autograd.h"
#include "heed/nn/weight.h"

namespace heed::bench {
namespace {

struct GemmOperands {
  Tensor x, y;
  std::vector<Weight> weights;

  void product(std::size_t i) {
    const NoGradients guard;
    y = weights[i].linear(x, {}, Activation::none, WeightLayout::out_in);
  }
};

}  // namespace

Work gemm_work(const GemmSizes& a) {
  Work work;
  work.kind = "gemm";
  work.shape = {
      {"m", a.m}, {"n", a.n}, {"k", a.k}, {"dtype", std::string(name_of(a.dtype))}, {"plain", a.plain}};
  work.arithmetic = a.dtype == DType::f64 ? DType::f64 : DType::f32;
  work.operations = 2.0 * static_cast<double>(a.m) * static_cast<double>(a.n) * static_cast<double>(a.k);
  const DType outside = work.arithmetic;  // only weights are stored in 16 bits
  work.bytes = static_cast<double>(a.n * a.k) * static_cast<double>(size_of(a.dtype)) +
               static_cast<double>(a.m * (a.k + a.n)) * static_cast<double>(size_of(outside));
  const std::int64_t copies = operand_copies(work.operations, work.bytes);
  const auto operands = std::make_shared<GemmOperands>();
  operands->x = random_tensor({a.m, a.k}, outside, 0);
  // The weights of a loaded model are packed by the first matrix product; other tensors are not.
  const Tensor numbers = random_tensor({a.n, a.k}, a.dtype == DType::f32 ? DType::bf16 : DType::f32, 1);
  while (static_cast<std::int64_t>(operands->weights.size()) < copies) {
    operands->weights.push_back(a.plain ? numbers.to(a.dtype) : numbers.to_lazy(a.dtype));
    operands->product(operands->weights.size() - 1);
  }
  work.run = [operands, copies](std::int64_t repeat) {
    operands->product(static_cast<std::size_t>(repeat % copies));
  };
  return work;
}

}  // namespace heed::bench
