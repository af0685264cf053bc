// Sums over the parts of a stream, recorded in one pass, and projected as the model does with their sum.
#include "heed/inspect/stream_attribution.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/nn/attention.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/matmul.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "inspect/scored_attention.h"
#include "inspect/stream_sum.h"
#include "inspect/taps.h"
#include "nn/attention_common.h"

namespace heed {
namespace {

constexpr double kTolerance = 1e-3;  // of what sums in f32 leave

using inspect::StreamPoint;
using inspect::StreamRecorder;
using inspect::StreamSum;

// A head, with what its sublayer reads.
struct ScoredHead : inspect::ScoredAttention {
  const Stack* stack = nullptr;
  const Stack* source = nullptr;  // of the keys: the same, or the encoder
  StreamPoint point = {};

  std::string tap(const char* what) const { return name + "." + what; }
};

void check_below(const char* what, std::int64_t number, std::int64_t count) {
  if (number < 0 || number >= count)
    throw Error("attribute score: expected a " + std::string(what) + " below " + std::to_string(count) +
                ", got " + std::to_string(number));
}

// Throws Error for a head that the model does not have.
ScoredHead scored_head(const Model& model, const ScoreOptions& options) {
  ScoredHead found{inspect::scored_attention(model, options.stack, options.part, options.layer),
                   model.stack_named(options.stack)};
  const std::string expected = "attribute score: expected a model with " + options.part + " in its " +
                               options.stack + " that has scores, got " + model.family();
  if (found.stack == nullptr) throw Error(expected);
  check_below("layer", options.layer, std::ssize(found.stack->layers));
  found.point = {options.layer, found.step};
  if (found.attention == nullptr) throw Error(expected);
  check_below("head", options.head, found.attention->heads);
  found.source = found.is_cross ? model.stack_named("encoder") : found.stack;
  HEED_ASSERT(found.source != nullptr, "cross-attention reads an encoder");
  return found;
}

// What one pass gives of a score, in f64.
struct ScoreValues {
  std::vector<double> scores, weights;  // [S]
  Tensor query_rotation, key_rotation;  // [1, r], or undefined
  double product = 0;                   // of query and key, scaled and capped
  double cap = 1;                       // what the cap makes of the scaled product, over that
};

// The scores and weights of the query.
void listen_to_row(Taps& taps, const ScoredHead& head, const ScoreOptions& options, ScoreValues& values) {
  taps.listen(head.stack->name + ".embed", [&](const std::string&, Tensor& value) {
    inspect::check_position("attribute score: query", options.query, value.size(1));
  });
  const TapSelection row{.heads = {options.head}, .queries = {options.query, options.query + 1}};
  taps.listen(head.tap("scores"), row,
              [&](const std::string&, Tensor& value) { values.scores = inspect::numbers(value); });
  taps.listen(head.tap("weights"), row,
              [&](const std::string&, Tensor& value) { values.weights = inspect::numbers(value); });
}

// What makes the query and the key: rotations, and the product itself.
class ProductListener {
 public:
  ProductListener(const ScoredHead& head, std::int64_t number, std::int64_t query, std::int64_t key)
      : head_(head), number_(number), query_(query), key_(key) {}

  void listen(Taps& taps, ScoreValues& values) {
    taps.listen(head_.tap("rotation"), [&](const std::string&, Tensor& value) {
      const Tensor table = reshape(value, {value.numel() / value.size(-1), value.size(-1)}).to(DType::f64);
      values.query_rotation = slice(table, 0, query_, query_ + 1);
      values.key_rotation = slice(table, 0, key_, key_ + 1);
    });
    taps.listen(head_.tap("q"), {.heads = {number_}, .queries = {query_, query_ + 1}},
                [this](const std::string&, Tensor& value) { q_ = inspect::numbers(value); });
    taps.listen(head_.tap("k"), {.heads = {head_.key_head(number_)}, .keys = {key_, key_ + 1}},
                [this](const std::string&, Tensor& value) { k_ = inspect::numbers(value); });
  }
  void finish(ScoreValues& values) const {
    double product = 0;
    for (std::size_t i = 0; i < q_.size(); ++i) product += q_[i] * k_[i];
    product *= head_.scale(std::ssize(q_));
    const double cap = head_.attention->score_cap;
    values.product = cap > 0 ? cap * std::tanh(product / cap) : product;
    if (cap > 0 && product != 0) values.cap = values.product / product;
  }

 private:
  const ScoredHead& head_;
  std::int64_t number_, query_, key_;
  std::vector<double> q_, k_;
};

// The queries or keys of all heads.
enum class Side { query, key };

Tensor projected(const MultiHeadAttention& attention, bool is_cross, Side side, const Tensor& x) {
  if (is_cross)
    return side == Side::query ? project_queries(attention, x) : project_memory(attention, x).keys;
  const ProjectedHeads heads = project_heads(attention, x);
  return side == Side::query ? heads.queries : heads.keys;
}

// [1, H, C, d] -> f64 [C, H * d]
Tensor heads_joined(const Tensor& x) {
  return reshape(permute(x, {0, 2, 1, 3}), {x.size(2), x.size(1) * x.size(3)}).to(DType::f64);
}

// `x` with `bias` added to its last row, that of the biases.
Tensor with_bias(const Tensor& x, const Tensor& bias) {
  const std::int64_t last = x.size(0) - 1;
  return concat({slice(x, 0, 0, last), slice(x, 0, last, last + 1) + bias}, 0);
}

// The map from the normed stream to queries or keys, as it acted on the sum of the rows [C, D]: [C, H, d].
Tensor mapped(const MultiHeadAttention& attention, bool is_cross, Side side, const Tensor& rows) {
  MultiHeadAttention map = attention;
  map.q_norm.reset();
  map.k_norm.reset();
  if (map.fused) map.fused->clip.reset();
  const Tensor zeros = projected(map, is_cross, side, Tensor::zeros({1, 1, rows.size(1)}));  // [1, H, 1, d]
  const std::int64_t heads = zeros.size(1), d = zeros.size(3);
  map.q.bias = map.k.bias = map.v.bias = {};
  if (map.fused) map.fused->projection.bias = {};
  Tensor x = heads_joined(projected(map, is_cross, side, unsqueeze(rows.to(DType::f32), 0)));
  x = with_bias(x, heads_joined(zeros));
  if (attention.fused && attention.fused->clip) {
    const Tensor whole = sum(x, 0, true);
    const double clip = *attention.fused->clip;
    x = Tensor::from(inspect::scaled_as(x, whole, clamp(whole, -clip, clip)), x.shape());
  }
  if (const std::optional<Norm>& norm = side == Side::query ? attention.q_norm : attention.k_norm) {
    if (norm->weight.size(0) == d) x = reshape(x, {x.size(0), heads, d});  // else over all heads together
    x = norm->of_part(x, sum(x, 0, true));
    if (norm->bias.defined()) x = with_bias(x, norm->bias.to(DType::f64));
  }
  return reshape(x, {x.size(0), heads, d});
}

// What each part of the stream at one position, and last the biases, adds to a query or key: f64 [C, d].
Tensor projected_parts(const ScoredHead& head, Side side, std::int64_t number, StreamSum& stream,
                       const std::optional<Norm>& norm, const Tensor& rotation) {
  const StreamPart bias{.name = "bias"};
  if (norm) stream.apply(*norm, bias);
  const std::int64_t d_model = stream.values.size(2);
  if (stream.parts.back().name != bias.name) stream.add({bias}, Tensor::zeros({1, 1, d_model}, DType::f64));
  const std::int64_t count = stream.values.size(0);
  const Tensor all = mapped(*head.attention, head.is_cross, side, reshape(stream.values, {count, d_model}));
  Tensor x = reshape(slice(all, 1, number, number + 1), {1, count, 1, all.size(2)});
  if (rotation.defined()) {
    const auto& positions = head.attention->rotary;
    x = rotary(x, rotation, positions != nullptr ? positions->layout() : RotaryLayout::halves);
  }
  return reshape(x, {count, x.size(3)});
}

// The parts at the position of index `i`.
StreamSum at(const StreamSum& sum, std::int64_t i) {
  return {.parts = sum.parts, .values = slice(sum.values, 1, i, i + 1)};
}

std::vector<std::vector<double>> products(const Tensor& queries, const Tensor& keys, double factor) {
  const std::vector<double> all = inspect::numbers(matmul(queries, transpose(keys, 0, 1)) * factor);
  std::vector<std::vector<double>> rows;
  for (auto row = all.begin(); row != all.end(); row += keys.size(0))
    rows.emplace_back(row, row + keys.size(0));
  return rows;
}

double total(const std::vector<std::vector<double>>& rows) {
  double sum = 0;
  for (const auto& row : rows) sum = std::accumulate(row.begin(), row.end(), sum);
  return sum;
}

// The key of the largest weight, by a pass of its own.
std::int64_t strongest_key(const Model& model, const TensorMap& inputs, const ScoredHead& head,
                           const ScoreOptions& options) {
  ScoreValues values;
  Taps taps(options.taps);
  listen_to_row(taps, head, options, values);
  Context context{.taps = &taps, .stop = options.stop};
  model.forward(inputs, {.logits = false}, context);
  return std::max_element(values.weights.begin(), values.weights.end()) - values.weights.begin();
}

// The streams that make the query and the key, before the norm that the head reads them through.
struct ScoredStreams {
  StreamSum query, key;
};

ScoredStreams record(const Model& model, const TensorMap& inputs, const ScoredHead& head,
                     const ScoreOptions& options, std::int64_t key, ScoreValues& values) {
  const inspect::NamedPosition from{"attribute score: query", options.query}, to{"attribute score: key", key};
  std::vector<inspect::NamedPosition> positions{from};
  if (!head.is_cross) positions.push_back(to);
  StreamRecorder own(*head.stack, positions, head.point, options.added);
  StreamRecorder memory(*head.source, {to}, inspect::end_of(*head.source), options.added);
  ProductListener product(head, options.head, options.query, key);
  Taps taps(options.taps);
  own.listen(taps);
  if (head.is_cross) memory.listen(taps);
  listen_to_row(taps, head, options, values);
  product.listen(taps, values);
  Context context{.taps = &taps, .stop = options.stop};
  model.forward(inputs, {.logits = false}, context);
  product.finish(values);
  const StreamSum streams = own.sum();
  return {at(streams, 0), head.is_cross ? memory.sum() : at(streams, 1)};
}

void require_linear(const ReadOut& read_out, const Model& model, std::int64_t token) {
  if (token < 0 || token >= read_out.output.weight.size(0))
    throw Error("attribution: expected a token below " + std::to_string(read_out.output.weight.size(0)) +
                ", got " + std::to_string(token));
  if (read_out.transform.dense)
    throw Error("attribution: expected logits that are linear in the normed stream, got an activation (" +
                model.family() + ")");
}

}  // namespace

LogitAttribution attribute_logit(const Model& model, const TensorMap& inputs, std::int64_t position,
                                 std::int64_t token) {
  const NoGradients guard;
  const ReadOut read_out = inspect::required_read_out(model, "attribution");
  require_linear(read_out, model, token);
  const Stack& stack = *model.stack_named("decoder");
  inspect::StreamRecorder recorder(stack, {{"attribution", position}}, inspect::end_of(stack));
  Taps taps;
  recorder.listen(taps);
  Context context{.taps = &taps};
  model.forward(inputs, {.logits = false}, context);
  return inspect::logit_parts(recorder.sum(), read_out, token);
}

ScoreAttribution attribute_score(const Model& model, const TensorMap& inputs, const ScoreOptions& options) {
  const NoGradients guard;
  const ScoredHead head = scored_head(model, options);
  ScoreAttribution result{.key = options.key ? *options.key : strongest_key(model, inputs, head, options)};
  ScoreValues values;
  auto [query, key] = record(model, inputs, head, options, result.key, values);
  result.score = values.scores[static_cast<std::size_t>(result.key)];
  result.weight = values.weights[static_cast<std::size_t>(result.key)];
  if (result.score == -std::numeric_limits<double>::infinity())
    throw Error("attribute score: expected a key that the query at position " +
                std::to_string(options.query) + " can attend to, got " + std::to_string(result.key) +
                " (masked)");
  const std::optional<Norm>& norm = head.sublayer->norm_before;
  const Tensor q = projected_parts(head, Side::query, options.head, query, norm, values.query_rotation);
  const Tensor k = projected_parts(head, Side::key, head.key_head(options.head), key,
                                   head.is_cross ? head.source->final_norm : norm, values.key_rotation);
  result.query_parts = query.parts;
  result.key_parts = key.parts;
  result.pairs = products(q, k, head.scale(q.size(1)) * values.cap);
  if (head.has_positions()) result.position_bias = result.score - values.product;
  const double sum = total(result.pairs) + result.position_bias;
  if (std::abs(sum - result.score) > kTolerance * std::max(1.0, std::abs(result.score)))
    throw Error("attribute score: expected a score that is the sum of its parts, got " +
                std::to_string(result.score) + " and a sum of " + std::to_string(sum));
  return result;
}

}  // namespace heed
