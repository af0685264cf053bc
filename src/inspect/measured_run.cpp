// One number per row, made of the logits of a run; and where a run begins.
#include "inspect/measured_run.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/models/kind.h"
#include "heed/nn/stack.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "heed/ops/softmax.h"
#include "inspect/stream_sum.h"
#include "inspect/taps.h"

namespace heed {
namespace inspect {
namespace {

constexpr std::int64_t kTokensAtOnce = 1024, kLogitsAtOnce = std::int64_t{1} << 24;
constexpr std::int64_t kNoTarget = -1;  // the metric names its token

bool is_mean_of_tokens(const LogitMetric& metric) { return metric.kind == MetricKind::loss && !metric.token; }

const Tensor* input_named(const TensorMap& inputs, const char* name) {
  const auto found = inputs.find(name);
  return found == inputs.end() ? nullptr : &found->second;
}

bool predicts_label(const Model& model) { return traits_of(model).is_encoder(EncoderHead::sequence); }

// Throws Error for a model that predicts neither tokens nor a label.
void require_predictions(const Model& model, const char* where) {
  const ModelTraits traits = traits_of(model);
  if (!traits.is(ModelKind::encoder_decoder) && !predicts_label(model) &&
      !traits.is_encoder(EncoderHead::masked_lm))
    required_read_out(model, where);
}

std::int64_t logit_count(const Model& model) {
  return predicts_label(model) ? traits_of(model).labels : model.vocab_size();
}

// How many positions the logits have; 1 of a classifier.
std::int64_t logit_positions(const Model& model, const TensorMap& inputs) {
  if (predicts_label(model)) return 1;
  const bool decodes = traits_of(model).is(ModelKind::encoder_decoder);
  for (const char* name : {"decoder_input_ids", decodes ? "labels" : "input_ids"}) {
    if (const Tensor* ids = input_named(inputs, name)) return ids->size(1);
  }
  return 1;
}

// Where the metric is measured, and the token that follows there (of the mean over tokens), else kNoTarget.
struct MeasuredPlaces {
  std::vector<std::int64_t> positions, targets;
};

MeasuredPlaces places_of(const Model& model, const MeasuredInput& input) {
  const std::int64_t count = logit_positions(model, input.inputs);
  const LogitMetric& metric = input.metric;
  if (!is_mean_of_tokens(metric)) return {{metric.position.value_or(count - 1)}, {kNoTarget}};
  const std::vector<std::int64_t> labels = input.inputs.at("labels").to_vector<std::int64_t>();
  const bool shifts = traits_of(model).is(ModelKind::decoder);
  MeasuredPlaces places;
  for (std::int64_t t = shifts ? 1 : 0; t < std::ssize(labels); ++t) {
    if (labels[static_cast<std::size_t>(t)] < 0) continue;
    places.positions.push_back(shifts ? t - 1 : t);
    places.targets.push_back(labels[static_cast<std::size_t>(t)]);
  }
  return places;
}

std::vector<std::string> stack_names(const Model& model) {
  const auto* encoder = as<EncoderModel>(model);
  return encoder != nullptr ? std::vector<std::string>{encoder->stack_name()}
                            : std::vector<std::string>{"encoder", "decoder"};
}

Tensor index_tensor(const std::vector<std::int64_t>& indices) {
  return Tensor::from(indices, {std::ssize(indices)});
}

// Rows `indices` of x [B, T, D] taken as [B * T, D].
Tensor rows_of(const Tensor& x, const std::vector<std::int64_t>& indices) {
  return gather(reshape(x, {x.numel() / x.size(-1), x.size(-1)}), 0, index_tensor(indices));
}

// The element of each row [N, V].
Tensor elements(const Tensor& x, const std::vector<std::int64_t>& columns) {
  std::vector<std::int64_t> flat(columns.size());
  for (std::size_t i = 0; i < columns.size(); ++i)
    flat[i] = static_cast<std::int64_t>(i) * x.size(1) + columns[i];
  return gather(reshape(x, {x.numel()}), 0, index_tensor(flat));
}

// Logits [N, V] of N places of a run, as many at once as memory allows.
class RunLogits {
 public:
  RunLogits(const Model& model, std::span<const RunRow> rows, Taps* outer) : model_(model), taps_(outer) {
    const TensorMap inputs = joined_rows(rows);
    const std::int64_t positions = logit_positions(model, rows.front().input->inputs);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const MeasuredPlaces places = places_of(model, *rows[r].input);
      for (const std::int64_t t : places.positions)
        places_.push_back(static_cast<std::int64_t>(r) * positions + t);
      targets_.insert(targets_.end(), places.targets.begin(), places.targets.end());
    }
    const auto* decoder = as<DecoderModel>(model);
    if (decoder != nullptr) read_out_ = of_stream(*decoder);
    if (read_out_) {
      run_decoder(*decoder, inputs);
    } else {
      Context context{.taps = &taps_};
      values_ = rows_of(model.forward(inputs, {}, context).at("logits"), places_);
    }
  }

  std::int64_t count() const { return std::ssize(places_); }
  std::int64_t target(std::int64_t i) const { return targets_[static_cast<std::size_t>(i)]; }
  /// How many places' logits are held at once.
  std::int64_t at_once() const {
    const std::int64_t each = std::max<std::int64_t>(1, logit_count(model_));
    return gradients_enabled() ? count() : std::max<std::int64_t>(1, kLogitsAtOnce / each);
  }
  Tensor operator()(std::int64_t begin, std::int64_t end) const {
    const Tensor some = slice(values_, 0, begin, end);
    return read_out_ ? read_out_->logits(some.contiguous()) : some;
  }
  /// Those of some tokens, [n, tokens].
  Tensor of_tokens(std::int64_t begin, std::int64_t end, const std::vector<std::int64_t>& tokens) const {
    const Tensor some = slice(values_, 0, begin, end), ids = index_tensor(tokens);
    return read_out_ ? read_out_->logits(some.contiguous(), ids) : gather(some, 1, ids);
  }

 private:
  // A decoder's logits are read of the chosen positions of its stream alone, unless a listener may hear what
  // comes between.
  std::optional<ReadOut> of_stream(const DecoderModel& model) const {
    const Stack* stack = model.stack_named("decoder");
    if (stack == nullptr || taps_.wants("logits") || taps_.wants("decoder.final_norm")) return std::nullopt;
    return model.read_out();
  }
  void run_decoder(const DecoderModel& model, const TensorMap& inputs) {
    const std::size_t layers = model.stack_named("decoder")->layers.size();
    taps_.listen("decoder.layers." + std::to_string(layers - 1) + ".out",
                 [this](const std::string&, Tensor& value) { values_ = rows_of(value, places_); });
    Context context{.taps = &taps_};
    model.encode({.ids = inputs.at("input_ids")}, context);
  }

  const Model& model_;
  Taps taps_;
  std::optional<ReadOut> read_out_;
  std::vector<std::int64_t> places_, targets_;
  Tensor values_;  // [N, D] of the stream, or the logits [N, V]
};

// Whether a metric is made of the logits of its tokens alone.
bool needs_no_others(MetricKind kind) {
  return kind == MetricKind::logit || kind == MetricKind::logit_difference;
}

// The tokens that occur, each once; `tokens` and `others` become their places among these.
std::vector<std::int64_t> distinct(std::vector<std::int64_t>& tokens, std::vector<std::int64_t>& others) {
  std::vector<std::int64_t> all = tokens;
  all.insert(all.end(), others.begin(), others.end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  for (std::vector<std::int64_t>* each : {&tokens, &others}) {
    for (std::int64_t& token : *each) token = std::lower_bound(all.begin(), all.end(), token) - all.begin();
  }
  return all;
}

// The metric of each place, f64 [n]; `references` are of the places.
Tensor metric_of(const Tensor& logits, const LogitMetric& metric, const std::vector<std::int64_t>& tokens,
                 const std::vector<std::int64_t>& others, const Tensor& reference) {
  switch (metric.kind) {
    case MetricKind::logit: return elements(logits, tokens).to(DType::f64);
    case MetricKind::logit_difference:
      return elements(logits, tokens).to(DType::f64) - elements(logits, others).to(DType::f64);
    case MetricKind::loss: return elements(log_softmax(logits, 1), tokens).to(DType::f64) * -1.0;
    case MetricKind::probability: return exp(elements(log_softmax(logits, 1), tokens).to(DType::f64));
    case MetricKind::kl: return sum(exp(reference) * (reference - log_softmax(logits, 1)), 1).to(DType::f64);
  }
  HEED_ASSERT(false, "unknown metric");
}

}  // namespace

void check_metric(const Model& model, const MeasuredInput& input, const char* where) {
  const auto fail = [&](const std::string& text) { throw Error(std::string(where) + ": " + text); };
  require_predictions(model, where);
  const LogitMetric& metric = input.metric;
  const bool labels = predicts_label(model);
  const std::string what = labels ? "label" : "token";
  if (is_mean_of_tokens(metric)) {
    if (traits_of(model).is(ModelKind::encoder) && !labels)
      fail("expected a token for the loss of a masked language model, got none");
    if (!input.inputs.contains("labels") || places_of(model, input).positions.empty())
      fail("expected texts with tokens to predict, got none");
    return;
  }
  const bool needs = metric.kind != MetricKind::kl;
  if (needs && !metric.token) fail("expected a " + what + " for this metric, got none");
  if (metric.kind == MetricKind::logit_difference && !metric.other)
    fail("expected two " + what + "s for a logit difference, got one");
  const std::int64_t count = logit_count(model);
  for (const auto& id : {metric.token, metric.other}) {
    if (id && (*id < 0 || (count > 0 && *id >= count)))
      fail("expected " + what + "s below " + std::to_string(count) + ", got " + std::to_string(*id));
  }
  if (metric.position) check_position(where, *metric.position, logit_positions(model, input.inputs));
}

void check_same_shapes(const TensorMap& clean, const TensorMap& corrupted, const char* where) {
  for (const auto& [name, value] : clean) {
    const auto other = corrupted.find(name);
    if (other == corrupted.end() || other->second.shape() != value.shape())
      throw Error(std::string(where) + ": expected two texts with the same number of tokens, got " + name +
                  " " + value.str() + " and " +
                  (other == corrupted.end() ? std::string("none") : other->second.str()));
  }
}

void check_metrics_differ(double clean, double corrupted, const char* where) {
  if (clean == corrupted)
    throw Error(std::string(where) + ": expected texts with different metrics, got " + std::to_string(clean) +
                " for both");
}

bool can_share_run(const MeasuredInput& a, const MeasuredInput& b) {
  return a.metric.kind == b.metric.kind && a.metric.token.has_value() == b.metric.token.has_value() &&
         std::equal(a.inputs.begin(), a.inputs.end(), b.inputs.begin(), b.inputs.end(),
                    [](const auto& x, const auto& y) {
                      return x.first == y.first && x.second.shape() == y.second.shape();
                    });
}

std::int64_t measured_positions(const Model& model, const MeasuredInput& input) {
  return std::ssize(places_of(model, input).positions);
}

TensorMap joined_rows(std::span<const RunRow> rows) {
  TensorMap joined;
  for (const auto& [name, value] : rows.front().input->inputs) {
    std::vector<Tensor> parts;
    for (const RunRow& row : rows) parts.push_back(row.input->inputs.at(name));
    joined[name] = parts.size() == 1 ? value : concat(parts, 0);
  }
  return joined;
}

Tensor run_measured(const Model& model, std::span<const RunRow> rows, Taps* taps) {
  const RunLogits logits(model, rows, taps);
  const std::int64_t each = logits.count() / std::ssize(rows);
  std::vector<Tensor> values;
  for (std::int64_t begin = 0; begin < logits.count(); begin += logits.at_once()) {
    const std::int64_t end = std::min(logits.count(), begin + logits.at_once());
    std::vector<std::int64_t> tokens, others;
    std::vector<Tensor> references;
    for (std::int64_t i = begin; i < end; ++i) {
      const RunRow& row = rows[static_cast<std::size_t>(i / each)];
      tokens.push_back(row.input->metric.token.value_or(std::max<std::int64_t>(0, logits.target(i))));
      others.push_back(row.input->metric.other.value_or(0));
      if (row.reference.defined()) references.push_back(slice(row.reference, 0, i % each, i % each + 1));
    }
    const LogitMetric& metric = rows.front().input->metric;
    const Tensor some = needs_no_others(metric.kind) ? logits.of_tokens(begin, end, distinct(tokens, others))
                                                     : logits(begin, end);
    values.push_back(
        metric_of(some, metric, tokens, others, references.empty() ? Tensor() : concat(references, 0)));
  }
  const Tensor all = values.size() == 1 ? values.front() : concat(values, 0);
  return each == 1 ? all : mean(reshape(all, {std::ssize(rows), each}), 1);
}

std::vector<Tensor> log_probabilities(const Model& model, std::span<const RunRow> rows, Taps* taps) {
  const RunLogits logits(model, rows, taps);
  const std::int64_t each = logits.count() / std::ssize(rows);
  std::vector<Tensor> result;
  for (std::int64_t row = 0; row < std::ssize(rows); ++row)
    result.push_back(log_softmax(logits(row * each, (row + 1) * each), 1).detach());
  return result;
}

std::int64_t rows_at_once(std::int64_t positions) {
  return std::max<std::int64_t>(1, kTokensAtOnce / std::max<std::int64_t>(1, positions));
}

std::int64_t positions_of(const TensorMap& inputs) {
  std::int64_t most = 1;
  for (const auto& [name, value] : inputs) {
    if (name.ends_with("ids") && value.rank() == 2) most = std::max(most, value.size(1));
    if (!name.ends_with("ids") && value.rank() > 2) most = std::max<std::int64_t>(most, 256);
  }
  return most;
}

void LayerInputs::listen(const Model& model, Taps& taps) {
  for (const std::string& name : stack_names(model)) {
    const Stack* stack = model.stack_named(name);
    if (stack == nullptr || stack->layers.empty()) continue;
    const std::size_t count = stack->layers.size();
    std::vector<Tensor>& inputs = inputs_[name];
    inputs.resize(count + 1);
    for (std::size_t i = 0; i <= count; ++i) {
      const std::string tap =
          name + ".layers." + (i < count ? std::to_string(i) + ".in" : std::to_string(count - 1) + ".out");
      taps.listen(tap, [&inputs, i](const std::string&, Tensor& value) { inputs[i] = value.clone(); });
    }
  }
}

std::vector<std::unique_ptr<StackResume>> LayerInputs::resume(const std::string& stack, std::int64_t layer,
                                                              const std::vector<std::int64_t>& rows) const {
  std::vector<std::unique_ptr<StackResume>> resumed;
  if (!inputs_.contains(stack)) return resumed;
  const auto begin_at = [&](const std::string& name, std::int64_t at) {
    resumed.push_back(std::make_unique<StackResume>(name, at, rows_at(name, at, rows)));
  };
  begin_at(stack, layer);
  if (stack == "decoder" && inputs_.contains("encoder"))
    begin_at("encoder", std::ssize(inputs_.at("encoder")) - 1);
  return resumed;
}

Tensor LayerInputs::end(const std::string& stack, const std::vector<std::int64_t>& rows) const {
  return rows_at(stack, std::ssize(inputs_.at(stack)) - 1, rows);
}

Tensor LayerInputs::rows_at(const std::string& stack, std::int64_t layer,
                            const std::vector<std::int64_t>& rows) const {
  return gather(inputs_.at(stack)[static_cast<std::size_t>(layer)], 0,
                Tensor::from(rows, {std::ssize(rows)}));
}

}  // namespace inspect

double measure(const Model& model, const MeasuredInput& input) {
  const NoGradients guard;
  inspect::check_metric(model, input, "metric");
  std::vector<inspect::RunRow> rows{{&input}};
  if (input.metric.kind == MetricKind::kl) return 0;
  return inspect::numbers(inspect::run_measured(model, rows)).front();
}

Estimate estimate_of(std::span<const double> values, std::span<const double> weights) {
  const auto weight = [&](std::size_t i) { return weights.empty() ? 1.0 : weights[i]; };
  double whole = 0, sum = 0, squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i) whole += weight(i), sum += weight(i) * values[i];
  Estimate estimate{.mean = sum / whole};
  if (values.size() < 2) return estimate;
  for (std::size_t i = 0; i < values.size(); ++i)
    squares += std::pow(weight(i) * (values[i] - estimate.mean), 2);
  const auto n = static_cast<double>(values.size());
  estimate.error = std::sqrt(n / (n - 1) * squares) / std::abs(whole);
  return estimate;
}

}  // namespace heed
