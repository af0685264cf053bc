// Collecting, offering and replacing the values of recurrent layers.
#include "models/families/recurrent_taps.h"

#include <algorithm>

#include "heed/ops/shape.h"

namespace heed {

std::string layer_tap(const char* stack, std::size_t layer, const char* what) {
  return std::string(stack) + ".layers." + std::to_string(layer) + "." + what;
}

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

}  // namespace heed
