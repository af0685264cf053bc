// Times every case of the kernel tests. The sizes are small, to show the cost of an option or of an odd
// shape; use `heed bench` for large sizes.
#include <benchmark/benchmark.h>

#include <algorithm>

#include "kernels/attention_cases.h"
#include "kernels/gemm.h"
#include "kernels/gemm_cases.h"
#include "kernels/kernel_case.h"
#include "kernels/norm.h"
#include "kernels/softmax.h"

namespace heed {
namespace {

void add_attention() {
  for (const AttentionCase& c : attention_cases()) {
    benchmark::RegisterBenchmark(("attention/" + c.name).c_str(), [c](benchmark::State& state) {
      AttentionInputs<float> inputs(c.a);
      for (auto _ : state) inputs.run();
    });
    benchmark::RegisterBenchmark(("attention forward and backward/" + c.name).c_str(),
                                 [c](benchmark::State& state) {
                                   AttentionInputs<float> inputs(c.a);
                                   for (auto _ : state) inputs.run_backward();
                                 });
  }
}

void multiply(benchmark::State& state, const Product& p) {
  const std::int64_t lda = std::max<std::int64_t>((p.ta ? p.m : p.k) + p.extra, 1);
  const std::int64_t ldb = std::max<std::int64_t>((p.tb ? p.k : p.n) + p.extra, 1), ldc = p.n + p.extra;
  const auto a = numbers<float>((p.ta ? p.k : p.m) * lda, 70),
             b = numbers<float>((p.tb ? p.n : p.k) * ldb, 71);
  auto c = numbers<float>(p.m * ldc, 72);
  for (auto _ : state) {
    kernels::gemm(arguments(p, a.data(), b.data(), c.data()));
  }
  state.SetItemsProcessed(state.iterations() * 2 * p.m * p.n * p.k);
}

void add_products() {
  for (const Product& p : products()) {
    if (p.m * p.n * p.k == 0) continue;
    const std::string name = std::string("gemm") + (p.ta ? "/t" : "/n") + (p.tb ? "t/" : "n/") +
                             std::to_string(p.m) + "x" + std::to_string(p.n) + "x" + std::to_string(p.k) +
                             (p.beta != 0 ? "/add" : "");
    benchmark::RegisterBenchmark(name.c_str(), [p](benchmark::State& state) { multiply(state, p); });
  }
}

constexpr std::int64_t kRows = 64;

void normalize(benchmark::State& state, std::int64_t d) {
  const auto x = numbers<float>(kRows * d, 1), weight = numbers<float>(d, 2), bias = numbers<float>(d, 3);
  std::vector<float> y(x.size()), mean(kRows), rstd(kRows);
  kernels::Norm<float> args;
  args.rows = kRows, args.d = d;
  args.x = x.data(), args.weight = weight.data(), args.bias = bias.data();
  args.y = y.data(), args.mean = mean.data(), args.rstd = rstd.data();
  for (auto _ : state) kernels::layer_norm(args);
}

void add_rows() {
  for (const std::int64_t d : kSizes) {
    if (d == 0) continue;
    benchmark::RegisterBenchmark(("layer norm/" + std::to_string(d)).c_str(),
                                 [d](benchmark::State& state) { normalize(state, d); });
    benchmark::RegisterBenchmark(("softmax/" + std::to_string(d)).c_str(), [d](benchmark::State& state) {
      const auto x = numbers<float>(kRows * d, 4);
      std::vector<float> y(x.size());
      for (auto _ : state) kernels::softmax(x.data(), y.data(), kRows, d);
    });
  }
}

}  // namespace
}  // namespace heed

int main(int argc, char** argv) {
  heed::add_attention();
  heed::add_products();
  heed::add_rows();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
