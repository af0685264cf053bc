// heed bench gemm: a matrix product of random numbers.
#include "cli/bench.h"
#include "cli/option_values.h"
#include "heed/autograd.h"
#include "heed/nn/weight.h"
#include "heed/random.h"

namespace heed::cli {
namespace {

struct GemmArguments {
  std::int64_t m = 512, n = 3072, k = 768;
  bool plain = false;
  std::string dtype = "f32";
  BenchOptions options;
};

// As in a linear layer: x [m, k] times the transpose of a weight [n, k].
void bench_gemm(const GemmArguments& a, const Globals& globals) {
  const DType dtype = bench_dtype(a.dtype);
  BenchWork work;
  work.kind = "gemm";
  work.shape = {{"m", a.m}, {"n", a.n}, {"k", a.k}, {"dtype", a.dtype}, {"plain", a.plain}};
  work.arithmetic = dtype == DType::f64 ? DType::f64 : DType::f32;
  work.operations = 2.0 * static_cast<double>(a.m) * static_cast<double>(a.n) * static_cast<double>(a.k);
  const DType outside = work.arithmetic;  // only weights are stored in 16 bits
  work.bytes = static_cast<double>(a.n * a.k) * static_cast<double>(size_of(dtype)) +
               static_cast<double>(a.m * (a.k + a.n)) * static_cast<double>(size_of(outside));
  const std::int64_t copies = operand_copies(work.operations, work.bytes);
  const Tensor x = random_tensor({a.m, a.k}, outside, 0);
  // The weights of a loaded model are packed by the first matrix product; other tensors are not.
  const Tensor numbers = random_tensor({a.n, a.k}, dtype == DType::f32 ? DType::bf16 : DType::f32, 1);
  const NoGradients guard;
  std::vector<Weight> weights;
  Tensor y;
  const auto product = [&](const Weight& w) { y = w.linear(x, {}, Activation::none, WeightLayout::out_in); };
  while (static_cast<std::int64_t>(weights.size()) < copies) {
    weights.push_back(a.plain ? numbers.to(dtype) : numbers.to_lazy(dtype));
    product(weights.back());
  }
  work.run = [&](std::int64_t repeat) { product(weights[static_cast<std::size_t>(repeat % copies)]); };
  bench(work, a.options, globals);
}

}  // namespace

CLI::Option* add_size(CLI::App& command, const std::string& name, std::int64_t& value,
                      const std::string& text, std::int64_t least) {
  return command.add_option(name, value, text)
      ->transform(whole_number(least, std::int64_t{1} << 31))
      ->type_name("N")
      ->group("Shape");
}

Tensor random_tensor(const Shape& shape, DType dtype, std::uint64_t stream) {
  const RandomStream random{7, stream};
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = random.normal(i);
  return Tensor::from(values, shape).to(dtype);
}

void add_bench_gemm(CLI::App& bench, const Globals& globals) {
  CLI::App* command = bench.add_subcommand("gemm", "Time a matrix product (GEMM), as in a linear layer");
  auto a = std::make_shared<GemmArguments>();
  add_size(*command, "--m", a->m, "Rows of the input")->capture_default_str();
  add_size(*command, "--n", a->n, "Columns of the output")->capture_default_str();
  add_size(*command, "--k", a->k, "Columns of the input")->capture_default_str();
  command->add_option("--dtype", a->dtype, "Type of the weight")
      ->capture_default_str()
      ->type_name("f32|bf16|f16|f64")
      ->group("Shape");
  command->add_flag("--plain", a->plain, "Pack the weight again for every product, as training does")
      ->group("Measurement");
  add_bench_options(*command, a->options);
  command->footer(
      "Examples:\n"
      "  heed bench gemm --m 512 --n 3072 --k 768\n"
      "  heed bench gemm --m 1 --n 3072 --k 768 --dtype bf16 --json");
  command->callback([a, &globals] { bench_gemm(*a, globals); });
}

}  // namespace heed::cli
