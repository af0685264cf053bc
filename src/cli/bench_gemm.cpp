// heed bench attention and heed bench gemm: single operations on random numbers.
#include <algorithm>
#include <cmath>

#include "cli/bench.h"
#include "cli/option_values.h"
#include "heed/autograd.h"
#include "heed/nn/weight.h"
#include "heed/ops/attention.h"
#include "heed/ops/linear_attention.h"
#include "heed/ops/sparse_attention.h"

namespace heed::cli {
namespace {

struct AttentionShapeArguments {
  std::int64_t batch = 1, heads = 12, kv_heads = 0, head_dim = 64, length = 1024, keys = 0, window = 0,
               stride = 0, summary = 1;
  std::string kind = "full";
  bool causal = false, backward = false;
  std::string dtype = "f32";
  BenchOptions options;
};

bool is_sparse(const AttentionShapeArguments& a) { return a.kind == "strided" || a.kind == "fixed"; }

/// Returns the number of pairs of a query and a key that it may attend to.
double visible_pairs(const AttentionShapeArguments& a) {
  double pairs = 0;
  for (std::int64_t t = 0; t < a.length; ++t) {
    const std::int64_t place = t + a.keys - a.length;
    if (is_sparse(a)) {
      const bool strided = a.kind == "strided";
      const std::int64_t near = strided ? std::min(place + 1, a.stride) : place % a.stride + 1;
      pairs += static_cast<double>(near + place / a.stride * (strided ? 1 : a.summary));
      continue;
    }
    const std::int64_t first = a.window > 0 ? std::max<std::int64_t>(0, place - a.window + 1) : 0;
    std::int64_t last = a.keys - 1;
    if (a.causal) last = std::min(last, place);
    if (a.window > 0) last = std::min(last, place + a.window - 1);
    pairs += static_cast<double>(std::max<std::int64_t>(0, last - first + 1));
  }
  return pairs;
}

BenchWork attention_work(const AttentionShapeArguments& a) {
  BenchWork work;
  work.kind = "attention";
  work.shape = {{"kind", a.kind},         {"batch", a.batch},       {"heads", a.heads},
                {"kv_heads", a.kv_heads}, {"head_dim", a.head_dim}, {"length", a.length},
                {"keys", a.keys},         {"causal", a.causal},     {"window", a.window},
                {"stride", a.stride},     {"backward", a.backward}, {"dtype", a.dtype}};
  const DType dtype = bench_dtype(a.dtype);
  work.arithmetic = dtype == DType::f64 ? DType::f64 : DType::f32;
  // Each pair costs one dot product of length head_dim for its score and one for its value. Backward
  // recomputes the score and needs four more: the gradients of weights, values, queries and keys.
  // Linear attention adds each key and value to a sum, multiplies each query with it, and has five such
  // products backward.
  const double pairs =
      a.kind == "linear" ? static_cast<double>(a.length * (a.head_dim + 1)) : visible_pairs(a);
  const double product = 2.0 * static_cast<double>(a.batch * a.heads * a.head_dim) * pairs;
  work.backward_operations = a.backward ? 5 * product : 0;
  work.operations = 2 * product + work.backward_operations;
  const double queries = static_cast<double>(a.batch * a.heads * a.length * a.head_dim * size_of(dtype));
  const double keys = static_cast<double>(a.batch * a.kv_heads * a.keys * a.head_dim * size_of(dtype));
  work.bytes =
      (a.backward ? 3 : 1) * 2 * (queries + keys);  // q and o, k and v; again as inputs and as gradients
  work.items = {{"tokens", static_cast<double>(a.batch * a.length)}};
  return work;
}

void bench_attention(AttentionShapeArguments a, const Globals& globals) {
  const std::vector<std::string> kinds{"full", "window", "strided", "fixed", "linear"};
  if (std::find(kinds.begin(), kinds.end(), a.kind) == kinds.end())
    throw UsageError("--kind: expected full, window, strided, fixed or linear, got " + a.kind);
  if (a.kv_heads == 0) a.kv_heads = a.heads;
  if (a.keys == 0) a.keys = a.length;
  if (a.heads % a.kv_heads != 0)
    throw UsageError("--kv-heads: expected a divisor of --heads " + std::to_string(a.heads) + ", got " +
                     std::to_string(a.kv_heads));
  if (is_sparse(a)) {
    a.causal = true;
    if (a.stride == 0)
      a.stride = std::max<std::int64_t>(1, std::llround(std::sqrt(static_cast<double>(a.keys))));
  }
  if (a.kind != "full" && a.kind != "window") a.window = 0;
  if (a.kind == "window" && a.window == 0) a.window = 256;
  BenchWork work = attention_work(a);
  const DType dtype = bench_dtype(a.dtype);
  const std::int64_t copies = a.backward ? 1 : operand_copies(work.operations, work.bytes);
  const Shape key_shape{a.batch, a.kv_heads, a.keys, a.head_dim};
  Tensor q = random_tensor({a.batch, a.heads, a.length, a.head_dim}, dtype, 0);
  std::vector<Tensor> k, v;
  for (std::int64_t i = 0; i < copies; ++i) {
    k.push_back(i == 0 ? random_tensor(key_shape, dtype, 1) : k[0].clone());
    v.push_back(i == 0 ? random_tensor(key_shape, dtype, 2) : v[0].clone());
  }
  AttentionOptions options;
  options.causal = a.causal;
  options.window = a.window;
  const SparsePattern pattern{a.kind == "fixed" ? SparseKind::fixed : SparseKind::strided, a.stride,
                              a.summary};
  Tensor o, d_o;
  if (a.backward) {
    d_o = random_tensor(q.shape(), dtype, 3);
    for (Tensor* input : {&q, &k[0], &v[0]}) input->set_requires_grad();
    work.backward = [&] {
      o.backward(d_o);
      for (const Tensor& input : {q, k[0], v[0]}) input.zero_grad();
    };
  }
  work.run = [&](std::int64_t repeat) {
    const auto copy = static_cast<std::size_t>(repeat % copies);
    if (a.kind == "linear") {
      o = linear_attention(q, k[copy], v[copy], {.causal = a.causal});
    } else if (is_sparse(a)) {
      o = sparse_attention(q, k[copy], v[copy], {.pattern = pattern});
    } else {
      o = scaled_dot_product_attention(q, k[copy], v[copy], options);
    }
  };
  bench(work, a.options, globals);
}

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
    weights.push_back(a.plain ? numbers.to(dtype) : numbers.to_when_needed(dtype));
    product(weights.back());
  }
  work.run = [&](std::int64_t repeat) { product(weights[static_cast<std::size_t>(repeat % copies)]); };
  bench(work, a.options, globals);
}

CLI::Option* add_size(CLI::App& command, const std::string& name, std::int64_t& value,
                      const std::string& text, std::int64_t least = 1) {
  return command.add_option(name, value, text)
      ->transform(whole_number(least, std::int64_t{1} << 31))
      ->type_name("N")
      ->group("Shape");
}

}  // namespace

Tensor random_tensor(const Shape& shape, DType dtype, std::uint64_t stream) {
  const RandomStream random{7, stream};
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = random.normal(i);
  return Tensor::from(values, shape).to(dtype);
}

void add_bench_attention(CLI::App& bench, const Globals& globals) {
  CLI::App* command =
      bench.add_subcommand("attention", "Time attention: full, in a window, sparse or linear");
  auto a = std::make_shared<AttentionShapeArguments>();
  command->add_option("--kind", a->kind, "Which keys a query attends to, and how")
      ->capture_default_str()
      ->type_name("full|window|strided|fixed|linear")
      ->group("Shape");
  add_size(*command, "--batch", a->batch, "Sequences")->capture_default_str();
  add_size(*command, "--heads", a->heads, "Query heads")->capture_default_str();
  add_size(*command, "--kv-heads", a->kv_heads, "Key-value heads (default: as many as query heads)");
  add_size(*command, "--head-dim", a->head_dim, "Dimension of a head")->capture_default_str();
  add_size(*command, "--length", a->length, "Queries")->capture_default_str();
  add_size(*command, "--keys", a->keys, "Keys (default: as many as queries)");
  add_size(*command, "--window", a->window,
           "Sliding window: keys a query sees, itself included; 0 for all (--kind window: 256)", 0)
      ->capture_default_str();
  add_size(*command, "--stride", a->stride,
           "Stride of strided and fixed (default: the square root of the keys)");
  add_size(*command, "--summary", a->summary, "Keys of each earlier block that fixed sees")
      ->capture_default_str();
  command
      ->add_flag("--causal", a->causal,
                 "Causal mask: a query sees no later key (always so with strided and fixed)")
      ->group("Shape");
  command->add_flag("--backward", a->backward, "Also time the backward pass")->group("Measurement");
  command->add_option("--dtype", a->dtype, "Type of the numbers")
      ->capture_default_str()
      ->type_name("f32|bf16|f16|f64")
      ->group("Shape");
  add_bench_options(*command, a->options);
  command->footer(
      "Examples:\n"
      "  heed bench attention --length 4096 --causal\n"
      "  heed bench attention --heads 1 --length 65536 --backward --repeats 1\n"
      "  heed bench attention --kind linear --heads 8 --length 65536 --causal --backward\n"
      "  heed bench attention --heads 32 --kv-heads 8 --head-dim 128 --length 1 --keys 4096 --json");
  command->callback([a, &globals] { bench_attention(*a, globals); });
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
