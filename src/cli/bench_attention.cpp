// heed bench attention and heed bench lengths: attention on random numbers, of one length or of many.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>

#include "cli/bench.h"
#include "cli/option_values.h"
#include "heed/buffer.h"
#include "heed/files/file.h"
#include "heed/io/json.h"
#include "heed/ops/attention.h"
#include "heed/ops/linear_attention.h"
#include "heed/ops/sparse_attention.h"
#include "heed/plot/chart.h"

namespace heed::cli {
namespace {

struct AttentionArguments {
  std::int64_t batch = 1, heads = 12, kv_heads = 0, head_dim = 64, length = 1024, keys = 0, window = 0,
               stride = 0, summary = 1;
  std::string kind = "full";
  bool causal = false, backward = false;
  std::string dtype = "f32";
  BenchOptions options;
};

struct Operands {
  Tensor q, o, d_o;
  std::vector<Tensor> k, v;
};

bool is_sparse(const AttentionArguments& a) { return a.kind == "strided" || a.kind == "fixed"; }

/// Returns the number of pairs of a query and a key that it may attend to.
double visible_pairs(const AttentionArguments& a) {
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

BenchWork attention_work(const AttentionArguments& a) {
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

BenchWork attention_bench(AttentionArguments a) {
  const std::vector<std::string> kinds{"full", "window", "strided", "fixed", "linear", "formula"};
  if (std::find(kinds.begin(), kinds.end(), a.kind) == kinds.end())
    throw UsageError("--kind: expected full, window, strided, fixed, linear or formula, got " + a.kind);
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
  if (a.kind != "full" && a.kind != "window" && a.kind != "formula") a.window = 0;
  if (a.kind == "window" && a.window == 0) a.window = 256;
  BenchWork work = attention_work(a);
  const DType dtype = bench_dtype(a.dtype);
  const std::int64_t copies = a.backward ? 1 : operand_copies(work.operations, work.bytes);
  const bool has_state = a.kind == "linear" && a.causal && a.length < a.keys;
  const Shape key_shape{a.batch, a.kv_heads, has_state ? a.length : a.keys, a.head_dim};
  const auto x = std::make_shared<Operands>();
  x->q = random_tensor({a.batch, a.heads, a.length, a.head_dim}, dtype, 0);
  for (std::int64_t i = 0; i < copies; ++i) {
    x->k.push_back(i == 0 ? random_tensor(key_shape, dtype, 1) : x->k[0].clone());
    x->v.push_back(i == 0 ? random_tensor(key_shape, dtype, 2) : x->v[0].clone());
  }
  AttentionOptions options;
  options.causal = a.causal;
  options.window = a.window;
  const SparsePattern pattern{a.kind == "fixed" ? SparseKind::fixed : SparseKind::strided, a.stride,
                              a.summary};
  if (a.backward) {
    x->d_o = random_tensor(x->q.shape(), dtype, 3);
    for (Tensor* input : {&x->q, &x->k[0], &x->v[0]}) input->set_requires_grad();
    work.backward = [x] {
      x->o.backward(x->d_o);
      for (const Tensor& input : {x->q, x->k[0], x->v[0]}) input.zero_grad();
      x->o = {};
    };
  }
  LinearAttentionOptions linear{.causal = a.causal};
  if (has_state) linear.state = Tensor::zeros({a.batch, a.kv_heads, a.head_dim, a.head_dim + 1}, DType::f64);
  work.run = [x, a, options, pattern, linear](std::int64_t repeat) {
    const auto copy = static_cast<std::size_t>(repeat) % x->k.size();
    const Tensor &k = x->k[copy], &v = x->v[copy];
    if (a.kind == "linear") {
      x->o = linear_attention(x->q, k, v, linear);
    } else if (is_sparse(a)) {
      x->o = sparse_attention(x->q, k, v, {.pattern = pattern});
    } else if (a.kind == "formula") {
      x->o = attention_by_formula(x->q, k, v, options);
    } else {
      x->o = scaled_dot_product_attention(x->q, k, v, options);
    }
  };
  return work;
}

struct LengthsArguments {
  std::int64_t from = 1024, to = 65536, formula_to = 8192, heads = 1, head_dim = 64, window = 256;
  std::filesystem::path output;
  BenchOptions options;
};

/// What one kind of attention costs at one length.
struct Cost {
  std::int64_t length = 0;
  double seconds = 0;        // forward and backward
  double bytes = 0;          // of all tensors at the peak, less the inputs and the output's gradient
  double token_seconds = 0;  // of one more query, with `length` keys before it
};

struct KindCosts {
  std::string kind;
  std::vector<Cost> costs;
};

AttentionArguments arguments_of(const LengthsArguments& a, const std::string& kind, std::int64_t length) {
  AttentionArguments one;
  one.heads = a.heads;
  one.head_dim = a.head_dim;
  one.length = length;
  one.window = kind == "window" ? a.window : 0;
  one.kind = kind;
  one.causal = one.backward = true;
  one.options = a.options;
  return one;
}

/// The median time of run and backward together, without the machine's limits.
double median_seconds(const BenchWork& work, const BenchOptions& options) {
  std::vector<double> seconds;
  double sum = 0;
  const auto wanted = options.repeats > 0 ? options.repeats : std::int64_t{3};
  while (std::ssize(seconds) < wanted || (options.repeats == 0 && sum < options.seconds)) {
    const auto start = std::chrono::steady_clock::now();
    work.run(std::ssize(seconds));
    if (work.backward) work.backward();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    sum += seconds.back();
  }
  return median(seconds);
}

Cost cost_of(const LengthsArguments& a, const std::string& kind, std::int64_t length) {
  Cost cost{.length = length};
  {
    const BenchWork work = attention_bench(arguments_of(a, kind, length));
    const auto before = memory_statistics().bytes_in_use;
    reset_peak_memory();
    work.run(0);
    work.backward();
    cost.bytes = static_cast<double>(memory_statistics().peak_bytes - before);
    cost.seconds = median_seconds(work, a.options);
  }
  AttentionArguments token = arguments_of(a, kind, 1);
  token.keys = length;
  token.backward = false;
  cost.token_seconds = median_seconds(attention_bench(token), {.seconds = 0.1});
  return cost;
}

using Value = double Cost::*;

/// The exponent b of value = c length^b, by least squares of the logarithms over the longer half of the
/// lengths.
double slope(const KindCosts& kind, Value value) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (std::size_t i = kind.costs.size() / 2; i < kind.costs.size(); ++i) {
    const double u = std::log(static_cast<double>(kind.costs[i].length)), v = std::log(kind.costs[i].*value);
    ++n, x += u, y += v, xx += u * u, xy += u * v;
  }
  const double spread = n * xx - x * x;
  return spread > 0 ? (n * xy - x * y) / spread : std::nan("");
}

/// The length from which on `kind` is faster than `full`, between the measured ones by straight lines in the
/// logarithms; nan if it is not, and the first length if it always is.
double crossover(const KindCosts& full, const KindCosts& kind) {
  const auto gain = [&](std::size_t i) { return std::log(full.costs[i].seconds / kind.costs[i].seconds); };
  std::size_t i = std::min(full.costs.size(), kind.costs.size());
  if (i == 0 || gain(i - 1) <= 0) return std::nan("");
  while (i > 0 && gain(i - 1) > 0) --i;
  const auto length = [&](std::size_t j) { return static_cast<double>(full.costs[j].length); };
  if (i == 0) return length(0);
  const double share = -gain(i - 1) / (gain(i) - gain(i - 1));
  return length(i - 1) * std::pow(length(i) / length(i - 1), share);
}

std::string number_or_none(double value, const char* format) {
  return std::isfinite(value) ? fmt::format(fmt::runtime(format), value) : "-";
}

void print_table(const std::string& title, const std::vector<KindCosts>& kinds, Value value, double unit) {
  fmt::print("{:<18}", title);
  for (const KindCosts& kind : kinds) fmt::print("{:>11}", kind.kind);
  fmt::print("\n");
  for (std::size_t i = 0; i < kinds.front().costs.size(); ++i) {
    fmt::print("{:<18}", kinds.front().costs[i].length);
    for (const KindCosts& kind : kinds)
      fmt::print("{:>11}", i < kind.costs.size() ? fmt::format("{:.4g}", kind.costs[i].*value * unit) : "-");
    fmt::print("\n");
  }
  fmt::print("{:<18}", "slope");
  for (const KindCosts& kind : kinds) fmt::print("{:>11}", number_or_none(slope(kind, value), "{:.2f}"));
  fmt::print("\n\n");
}

void print_json(const std::vector<KindCosts>& kinds) {
  for (const KindCosts& kind : kinds) {
    JsonWriter json;
    json.begin_object().field("kind", kind.kind).key("costs").begin_array();
    for (const Cost& cost : kind.costs) {
      json.begin_object()
          .field("length", cost.length)
          .field("seconds", cost.seconds)
          .field("bytes", cost.bytes)
          .field("token_seconds", cost.token_seconds)
          .end_object();
    }
    json.end_array()
        .field("seconds_slope", slope(kind, &Cost::seconds))
        .field("bytes_slope", slope(kind, &Cost::bytes));
    json.field("token_seconds_slope", slope(kind, &Cost::token_seconds));
    json.field("faster_than_full_from", crossover(kinds.front(), kind));
    fmt::print("{}\n", json.end_object().text());
  }
}

void draw(const std::filesystem::path& file, const std::string& title, const std::string& y_label,
          const std::vector<KindCosts>& kinds, Value value, double unit) {
  LineChart chart{.title = title, .x_label = "tokens", .y_label = y_label};
  chart.width = 860;  // for the names of all kinds in a row
  chart.log_x = chart.log_y = true;
  for (const KindCosts& kind : kinds) {
    ChartSeries series;
    series.name = kind.kind + " (" + number_or_none(slope(kind, value), "{:.2f}") + ")";
    series.marks = true;
    for (const Cost& cost : kind.costs) {
      series.x.push_back(static_cast<double>(cost.length));
      series.y.push_back(cost.*value * unit);
    }
    chart.series.push_back(std::move(series));
  }
  AtomicFile out(file);
  out.write(line_chart_svg(chart));
  out.commit();
}

void bench_lengths(const LengthsArguments& a, const Globals& globals) {
  if (a.from > a.to)
    throw UsageError("--from: expected at most --to " + std::to_string(a.to) + ", got " +
                     std::to_string(a.from));
  std::vector<KindCosts> kinds;
  for (const char* kind : {"full", "window", "strided", "fixed", "linear", "formula"}) {
    kinds.push_back({kind, {}});
    for (std::int64_t n = a.from; n <= (kinds.back().kind == "formula" ? std::min(a.to, a.formula_to) : a.to);
         n *= 2) {
      if (!globals.quiet) std::cerr << kind << ", " << n << " tokens\n";
      kinds.back().costs.push_back(cost_of(a, kind, n));
    }
  }
  if (globals.json) {
    print_json(kinds);
  } else {
    print_table("time, ms", kinds, &Cost::seconds, 1e3);
    print_table("memory, MB", kinds, &Cost::bytes, 1e-6);
    print_table("next token, us", kinds, &Cost::token_seconds, 1e6);
    for (const KindCosts& kind : kinds) {
      const double length = crossover(kinds.front(), kind);
      if (std::isfinite(length))
        fmt::print("{} is faster than full from {:.0f} tokens on\n", kind.kind, length);
    }
  }
  if (a.output.empty()) return;
  std::filesystem::create_directories(a.output);
  draw(a.output / "time.svg", "Attention, forward and backward", "milliseconds", kinds, &Cost::seconds, 1e3);
  draw(a.output / "memory.svg", "Attention, forward and backward", "peak MB besides inputs", kinds,
       &Cost::bytes, 1e-6);
  draw(a.output / "token.svg", "Attention of one more token", "microseconds", kinds, &Cost::token_seconds,
       1e6);
}

}  // namespace

void add_bench_attention(CLI::App& parent, const Globals& globals) {
  CLI::App* command =
      parent.add_subcommand("attention", "Time attention: full, in a window, sparse or linear");
  auto a = std::make_shared<AttentionArguments>();
  command->add_option("--kind", a->kind, "Which keys a query attends to, and how")
      ->capture_default_str()
      ->type_name("full|window|strided|fixed|linear|formula")
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
  command->callback([a, &globals] { bench(attention_bench(*a), a->options, globals); });
}

void add_bench_lengths(CLI::App& parent, const Globals& globals) {
  CLI::App* command = parent.add_subcommand(
      "lengths", "Time and memory of every kind of attention by length, with slopes and charts");
  auto a = std::make_shared<LengthsArguments>();
  add_size(*command, "--from", a->from, "Shortest length in tokens")->capture_default_str();
  add_size(*command, "--to", a->to, "Longest length; each is twice the one before")->capture_default_str();
  add_size(*command, "--formula-to", a->formula_to,
           "Longest length for the formula, whose memory is quadratic")
      ->capture_default_str();
  add_size(*command, "--heads", a->heads, "Heads")->capture_default_str();
  add_size(*command, "--head-dim", a->head_dim, "Dimension of a head")->capture_default_str();
  add_size(*command, "--window", a->window, "Keys that a query of kind window sees")->capture_default_str();
  command
      ->add_option("-o,--output", a->output,
                   "Folder for the charts time.svg, memory.svg and token.svg (created if missing)")
      ->type_name("DIR")
      ->group("Output");
  a->options.seconds = 0.5;
  add_bench_options(*command, a->options);
  command->footer(
      "Examples:\n"
      "  heed bench lengths --output costs\n"
      "  heed bench lengths --to 8192 --heads 8 --json");
  command->callback([a, &globals] { bench_lengths(*a, globals); });
}

}  // namespace heed::cli
