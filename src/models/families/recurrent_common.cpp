// What the encoder and the decoder of a recurrent model compute. A decoder that reads nothing of its own
// output runs layer by layer over the whole target, and attends once; one that does runs step by step.
#include "models/families/recurrent_common.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "heed/ops/activation.h"
#include "heed/ops/shape.h"
#include "heed/ops/softmax.h"

namespace heed {
namespace {

// The tap `STACK.layers.I.WHAT`.
std::string layer_tap(const char* stack, std::size_t layer, const char* what) {
  return std::string(stack) + ".layers." + std::to_string(layer) + "." + what;
}

// layer(x, initial, options) with the taps NAME.gates [B, T, G H], NAME.cell [B, T, H] (LSTM) and NAME.state
// [B, T, H]. Where a listener replaces one, the steps run again, each going on from what was given.
RecurrentResult run_with_taps(const RecurrentLayer& layer, const Tensor& x, const RecurrentState& initial,
                              RecurrentOptions options, Context& context, const std::string& name) {
  const bool wants_gates = context.wants(name + ".gates"), wants_cells = context.wants(name + ".cell");
  options.trace = wants_gates || wants_cells;
  RecurrentResult result = layer(x, initial, options);
  RecurrentReplacements given;
  const auto offer = [&](const char* what, Tensor value, Tensor& replacement) {
    const Tensor own = value;
    tap(context, name + what, value);
    if (value.is_same(own)) return;
    replacement = value;
    result = layer.replay(x, initial, options, given);
  };
  if (wants_gates) offer(".gates", result.gates, given.gates);
  if (wants_cells && result.cells.defined()) offer(".cell", result.cells, given.cells);
  offer(".state", result.y, given.states);
  return result;
}

Tensor concat_defined(const Tensor& a, const Tensor& b) { return a.defined() ? concat({a, b}, 1) : a; }

// Step t of x [B, T, D]: [B, D].
Tensor step_of(const Tensor& x, std::int64_t t) {
  return reshape(slice(x, 1, t, t + 1), {x.size(0), x.size(2)});
}

}  // namespace

/// The taps of a decoder's layers. Those of a pass over all steps at once are offered as they are computed.
/// In a pass step by step, each is collected over the steps and offered once, for all of them; where a
/// listener replaces it, the steps run again with what was given for each.
class DecoderTaps {
 public:
  enum class Runs { whole, stepwise };
  DecoderTaps(Context& context, Runs runs) : context_(context), runs_(runs) {}

  bool wants(std::size_t layer, const char* what) const {
    return context_.taps != nullptr && context_.taps->wants(layer_tap("decoder", layer, what));
  }
  /// Of each layer, whether a tap listens to the values of its cells.
  std::vector<bool> to_cells(std::size_t layers) const;
  /// `value` has all steps, or the next one (then it may lack the axis of queries: [B, D]).
  void offer(std::size_t layer, const char* what, Tensor& value, TapAxes axes = kTokenAxes);
  /// Of a pass step by step: calls `run`, which starts from the first step in each call, and emits the
  /// collected values; returns the last result.
  Tensor run_and_emit(const std::function<Tensor()>& run);

 private:
  struct Values {
    std::string name;
    TapAxes axes;
    std::vector<Tensor> steps = {};
    Tensor given = {};      // what a listener put in their place
    std::int64_t next = 0;  // the step that comes
  };
  void offer_step(Values& values, Tensor& value) const;

  Context& context_;
  Runs runs_;
  std::vector<Values> values_ = {};  // in the order in which a step computes them
  std::size_t emitted_ = 0;          // those that listeners have got
};

std::vector<bool> DecoderTaps::to_cells(std::size_t layers) const {
  std::vector<bool> listens;
  for (std::size_t i = 0; i < layers; ++i) {
    const bool gates = wants(i, "rnn.gates"), cells = wants(i, "rnn.cell"), states = wants(i, "rnn.state");
    listens.push_back(gates || cells || states);
  }
  return listens;
}

void DecoderTaps::offer(std::size_t layer, const char* what, Tensor& value, TapAxes axes) {
  if (!wants(layer, what)) return;
  const std::string name = layer_tap("decoder", layer, what);
  if (runs_ == Runs::whole) return context_.taps->emit(name, value, axes);
  const auto known =
      std::find_if(values_.begin(), values_.end(), [&](const Values& values) { return values.name == name; });
  if (known != values_.end()) return offer_step(*known, value);
  values_.push_back({name, axes});
  offer_step(values_.back(), value);
}

void DecoderTaps::offer_step(Values& values, Tensor& value) const {
  const bool lacks_axis = value.rank() == 2;
  const std::int64_t t = values.next++;
  if (values.given.defined()) {
    value = reshape(slice(values.given, values.axes.queries, t, t + 1), value.shape()).contiguous();
  } else if (&values - values_.data() >= static_cast<std::ptrdiff_t>(emitted_)) {
    values.steps.push_back(lacks_axis ? unsqueeze(value, 1) : value);
  }
}

Tensor DecoderTaps::run_and_emit(const std::function<Tensor()>& run) {
  const auto run_again = [&] {
    for (Values& values : values_) {
      values.steps.clear();
      values.next = 0;
    }
    return run();
  };
  Tensor result = run();
  for (emitted_ = 0; emitted_ < values_.size();) {
    Values& values = values_[emitted_];
    const Tensor own = concat(values.steps, values.axes.queries);
    Tensor offered = own;
    ++emitted_;
    context_.taps->emit(values.name, offered, values.axes);
    if (offered.is_same(own)) continue;
    values.given = offered;
    result = run_again();
  }
  return result;
}
EncodedSource RecurrentEncoder::operator()(const Tensor& ids, const Tensor& lengths, Context& context) const {
  Tensor x = apply_dropout(tokens(ids), dropout, context);
  tap(context, "encoder.embed", x);
  EncodedSource result;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    context.check_stop();
    if (i > 0) x = apply_dropout(x, dropout, context);
    tap(context, layer_tap("encoder", i, "in"), x);
    const std::string name = layer_tap("encoder", i, "rnn");
    RecurrentResult ahead = run_with_taps(layers[i].forward, x, {}, {.lengths = lengths}, context, name);
    if (layers[i].backward) {
      const RecurrentResult back = run_with_taps(
          *layers[i].backward, x, {}, {.lengths = lengths, .reverse = true}, context, name + "_reverse");
      ahead = {concat({ahead.y, back.y}, 2),
               {concat_defined(ahead.state.h, back.state.h), concat_defined(ahead.state.c, back.state.c)}};
    }
    x = ahead.y;
    tap(context, layer_tap("encoder", i, "out"), x);
    result.states.push_back(ahead.state);
  }
  result.memory = x;
  return result;
}

RecurrentDecoderState RecurrentDecoder::start(const EncodedSource& source) const {
  RecurrentDecoderState state;
  state.layers.assign(source.states.end() - static_cast<std::ptrdiff_t>(layers.size()), source.states.end());
  const Tensor& h = state.layers.back().h;
  if (fed_back == FedBack::output) state.fed = Tensor::zeros(h.shape(), h.dtype());
  return state;
}

Tensor RecurrentDecoder::operator()(const Tensor& ids, RecurrentDecoderState& state,
                                    const SourceMemory& memory, Context& context) const {
  Tensor x = apply_dropout(tokens(ids), dropout, context);
  tap(context, "decoder.embed", x);
  SourceMemory source = memory;
  const std::string values = layer_tap("decoder", layers.size() - 1, "cross_attn.v");
  if (attention && context.wants(values)) {
    Tensor heads = unsqueeze(source.values, 1);  // [B, 1, S, H]
    tap(context, values, heads, kKeyAxes);
    source.values = reshape(heads, source.values.shape());
  }
  const std::string transformed = layer_tap("decoder", layers.size() - 1, "cross_attn.transformed");
  if (attention && context.wants(transformed)) {
    Tensor parts = unsqueeze(context_columns(source.values), 1);  // [B, 1, S, H]
    tap(context, transformed, parts, kKeyAxes);
  }
  return fed_back == FedBack::nothing ? whole(std::move(x), state, source, context)
                                      : stepwise(x, state, source, context);
}

// What the columns of W_c for the context make of each value [B, S, H], without a bias.
Tensor RecurrentDecoder::context_columns(const Tensor& values) const {
  Linear no_bias = combine;
  no_bias.bias = {};
  const std::int64_t rest = combine.weight.size(1) - values.size(2);
  return no_bias(concat({values, Tensor::zeros({values.size(0), values.size(1), rest}, values.dtype())}, 2));
}

// The context [B, T, H] of queries [B, T, A].
Tensor RecurrentDecoder::read(const Tensor& queries, const SourceMemory& memory, DecoderTaps& taps) const {
  const std::size_t last = layers.size() - 1;
  const bool wants_weights = taps.wants(last, "cross_attn.weights");
  Tensor weights;
  Tensor context = attention->context(queries, memory, wants_weights ? &weights : nullptr);
  if (taps.wants(last, "cross_attn.scores")) {
    const Tensor own = attention->scores(queries, memory);
    Tensor scores = own;
    taps.offer(last, "cross_attn.scores", scores, kScoreAxes);
    if (!scores.is_same(own)) {
      weights = softmax(scores, -1);
      context = context_of(weights, memory);
    }
  }
  if (wants_weights) {
    const Tensor own = weights;
    taps.offer(last, "cross_attn.weights", weights, kScoreAxes);
    if (!weights.is_same(own)) context = context_of(weights, memory);
  }
  if (taps.wants(last, "cross_attn.heads")) {
    Tensor heads = unsqueeze(context, 1);  // [B, 1, T, H]
    taps.offer(last, "cross_attn.heads", heads, kQueryAxes);
    context = reshape(heads, context.shape());
  }
  return context;
}

Tensor RecurrentDecoder::whole(Tensor x, RecurrentDecoderState& state, const SourceMemory& memory,
                               Context& context) const {
  DecoderTaps taps(context, DecoderTaps::Runs::whole);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    context.check_stop();
    if (i > 0) x = apply_dropout(x, dropout, context);
    taps.offer(i, "in", x);
    const RecurrentResult result =
        run_with_taps(layers[i], x, state.layers[i], {}, context, layer_tap("decoder", i, "rnn"));
    state.layers[i] = result.state;
    x = result.y;
    taps.offer(i, "out", x);
  }
  if (!attention) return apply_dropout(x, dropout, context);
  const Tensor seen = read(attention->query.weight.defined() ? attention->query(x) : x, memory, taps);
  Tensor result = combine(concat({seen, x}, 2), Activation::tanh);  // [B, T, H]
  taps.offer(layers.size() - 1, "cross_attn.out", result);
  return apply_dropout(result, dropout, context);
}

// The maps of a step, for one pass.
struct RecurrentDecoder::StepMaps {
  std::vector<RecurrentSteps> layers;
  StepLinear query, combine;
  explicit StepMaps(const RecurrentDecoder& of)
      : layers(of.layers.begin(), of.layers.end()), query(of.attention->query), combine(of.combine) {}
};

Tensor RecurrentDecoder::steps(const Tensor& embedded, RecurrentDecoderState& state,
                               const SourceMemory& memory, Context& context, DecoderTaps& taps) const {
  const StepMaps maps(*this);
  const std::vector<bool> listens = taps.to_cells(layers.size());
  std::vector<Tensor> outputs;
  for (std::int64_t t = 0; t < embedded.size(1); ++t) {
    context.check_stop();
    const auto attend = [&](const Tensor& query) {
      const Tensor projected = attention->query.weight.defined() ? maps.query(query) : query;
      return step_of(read(unsqueeze(projected, 1), memory, taps), 0);  // [B, H]
    };
    Tensor seen;
    if (fed_back == FedBack::context) seen = attend(state.layers.back().h);
    Tensor x = concat({step_of(embedded, t), fed_back == FedBack::context ? seen : state.fed}, 1);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (i > 0) x = apply_dropout(x, dropout, context);
      taps.offer(i, "in", x);
      CellListener listener;
      if (listens[i]) {
        listener = [&](const char* what, Tensor& value) {
          taps.offer(i, (std::string("rnn.") + what).c_str(), value);
        };
      }
      state.layers[i] = maps.layers[i](x, state.layers[i], listener);
      x = state.layers[i].h;
      taps.offer(i, "out", x);
    }
    if (fed_back == FedBack::output) seen = attend(x);
    x = tanh(maps.combine(concat({seen, x}, 1)));
    taps.offer(layers.size() - 1, "cross_attn.out", x);
    x = apply_dropout(x, dropout, context);
    if (fed_back == FedBack::output) state.fed = x;
    outputs.push_back(x);
  }
  return stack(outputs, 1);
}

Tensor RecurrentDecoder::stepwise(const Tensor& x, RecurrentDecoderState& state, const SourceMemory& memory,
                                  Context& context) const {
  const RecurrentDecoderState first = state;
  DecoderTaps taps(context, DecoderTaps::Runs::stepwise);
  return taps.run_and_emit([&] {
    state = first;
    return steps(x, state, memory, context, taps);
  });
}

}  // namespace heed
