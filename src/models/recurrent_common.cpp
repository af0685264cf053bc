// What the encoder and the decoder of a recurrent model compute. A decoder that reads nothing of its own
// output runs layer by layer over the whole target, and attends once; one that does runs step by step.
#include "models/recurrent_common.h"

#include <utility>

#include "heed/ops/activation.h"
#include "heed/ops/shape.h"

namespace heed {
namespace {

std::string layer_tap(const char* stack, std::size_t layer) {
  return std::string(stack) + ".layers." + std::to_string(layer) + ".out";
}

Tensor concat_defined(const Tensor& a, const Tensor& b) { return a.defined() ? concat({a, b}, 1) : a; }

// Step t of x [B, T, D]: [B, D].
Tensor step_of(const Tensor& x, std::int64_t t) {
  return reshape(slice(x, 1, t, t + 1), {x.size(0), x.size(2)});
}

}  // namespace

EncodedSource RecurrentEncoder::operator()(const Tensor& ids, const Tensor& lengths, Context& context) const {
  Tensor x = apply_dropout(tokens(ids), dropout, context);
  tap(context, "encoder.embed", x);
  EncodedSource result;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    context.check_stop();
    if (i > 0) x = apply_dropout(x, dropout, context);
    RecurrentResult ahead = layers[i].forward(x, {}, {.lengths = lengths});
    if (layers[i].backward) {
      const RecurrentResult back = (*layers[i].backward)(x, {}, {.lengths = lengths, .reverse = true});
      ahead = {concat({ahead.y, back.y}, 2),
               {concat_defined(ahead.state.h, back.state.h), concat_defined(ahead.state.c, back.state.c)}};
    }
    x = ahead.y;
    tap(context, layer_tap("encoder", i), x);
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

std::string RecurrentDecoder::weights_tap() const {
  return "decoder.layers." + std::to_string(layers.size() - 1) + ".cross_attn.weights";
}

Tensor RecurrentDecoder::operator()(const Tensor& ids, RecurrentDecoderState& state,
                                    const SourceMemory& memory, Context& context) const {
  Tensor x = apply_dropout(tokens(ids), dropout, context);
  tap(context, "decoder.embed", x);
  return fed_back == FedBack::nothing ? whole(std::move(x), state, memory, context)
                                      : stepwise(x, state, memory, context);
}

Tensor RecurrentDecoder::whole(Tensor x, RecurrentDecoderState& state, const SourceMemory& memory,
                               Context& context) const {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    context.check_stop();
    if (i > 0) x = apply_dropout(x, dropout, context);
    const RecurrentResult result = layers[i](x, state.layers[i]);
    state.layers[i] = result.state;
    x = result.y;
    tap(context, layer_tap("decoder", i), x);
  }
  if (!attention) return apply_dropout(x, dropout, context);
  const Tensor queries = attention->query.weight.defined() ? attention->query(x) : x;
  const std::string name = weights_tap();
  Tensor weights;
  Tensor read = attention->context(queries, memory, context.wants(name) ? &weights : nullptr);
  if (weights.defined()) {
    const Tensor own = weights;
    tap(context, name, weights, kScoreAxes);
    if (!weights.is_same(own)) read = context_of(weights, memory);
  }
  return apply_dropout(combine(concat({read, x}, 2), Activation::tanh), dropout, context);  // [B, T, H]
}

// The maps of a step, for one pass.
struct RecurrentDecoder::StepMaps {
  std::vector<RecurrentSteps> layers;
  StepLinear query, combine;
  explicit StepMaps(const RecurrentDecoder& of)
      : layers(of.layers.begin(), of.layers.end()), query(of.attention->query), combine(of.combine) {}
};

// What listeners want of the steps.
struct RecurrentDecoder::Seen {
  bool wants_weights = false;
  std::vector<Tensor> weights;           // [B, 1, 1, S] each
  std::vector<std::vector<Tensor>> out;  // of layers, [B, H] each; empty for those nobody wants
};

Tensor RecurrentDecoder::steps(const Tensor& embedded, RecurrentDecoderState& state,
                               const SourceMemory& memory, Context& context, const Tensor& given_weights,
                               Seen& seen) const {
  const StepMaps maps(*this);
  std::vector<Tensor> outputs;
  for (std::int64_t t = 0; t < embedded.size(1); ++t) {
    context.check_stop();
    const auto attend = [&](const Tensor& query) {
      if (given_weights.defined())
        return step_of(context_of(slice(given_weights, 2, t, t + 1).contiguous(), memory), 0);
      const Tensor projected = attention->query.weight.defined() ? maps.query(query) : query;
      if (seen.wants_weights) seen.weights.emplace_back();
      Tensor* weights = seen.wants_weights ? &seen.weights.back() : nullptr;
      return step_of(attention->context(unsqueeze(projected, 1), memory, weights), 0);  // [B, H]
    };
    Tensor read;
    if (fed_back == FedBack::context) read = attend(state.layers.back().h);
    Tensor x = concat({step_of(embedded, t), fed_back == FedBack::context ? read : state.fed}, 1);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (i > 0) x = apply_dropout(x, dropout, context);
      state.layers[i] = maps.layers[i](x, state.layers[i]);
      x = state.layers[i].h;
      if (context.wants(layer_tap("decoder", i))) seen.out[i].push_back(x);
    }
    if (fed_back == FedBack::output) read = attend(x);
    x = apply_dropout(tanh(maps.combine(concat({read, x}, 1))), dropout, context);
    if (fed_back == FedBack::output) state.fed = x;
    outputs.push_back(x);
  }
  return stack(outputs, 1);
}

Tensor RecurrentDecoder::stepwise(const Tensor& x, RecurrentDecoderState& state, const SourceMemory& memory,
                                  Context& context) const {
  const RecurrentDecoderState first = state;
  Seen seen{context.wants(weights_tap()), {}, std::vector<std::vector<Tensor>>(layers.size())};
  Tensor y = steps(x, state, memory, context, {}, seen);
  if (seen.wants_weights) {
    const Tensor own = concat(seen.weights, 2);  // [B, 1, T, S]
    Tensor weights = own;
    tap(context, weights_tap(), weights, kScoreAxes);
    if (!weights.is_same(own)) {  // later steps depend on what earlier ones read: all run again
      state = first;
      seen.out.assign(layers.size(), {});
      y = steps(x, state, memory, context, weights, seen);
    }
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (seen.out[i].empty()) continue;
    const Tensor own = stack(seen.out[i], 1);
    Tensor out = own;
    tap(context, layer_tap("decoder", i), out);
    if (!out.is_same(own)) {
      throw Error("taps: expected " + layer_tap("decoder", i) +
                  " to be read, as the decoder runs step by step, got a replacement");
    }
  }
  return y;
}

}  // namespace heed
