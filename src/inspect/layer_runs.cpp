#include "inspect/layer_runs.h"

#include "heed/nn/stack.h"
#include "heed/ops/shape.h"

namespace heed::inspect {
namespace {

std::vector<std::string> stack_names(const Model& model) {
  const auto* encoder = dynamic_cast<const EncoderModel*>(&model);
  return encoder != nullptr ? std::vector<std::string>{encoder->stack_name()}
                            : std::vector<std::string>{"encoder", "decoder"};
}

}  // namespace

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

}  // namespace heed::inspect
