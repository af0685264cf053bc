// Reads the stream after each layer by the model's head.
#include "heed/inspect/logit_lens.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/models/kind.h"
#include "inspect/stream_sum.h"
#include "inspect/taps.h"
#include "nn/stack_resume.h"

namespace heed {
namespace {

constexpr const char* kLayers = "decoder.layers.";

std::vector<TokenProbability> most_probable(const double* logits, std::int64_t count, std::int64_t top_k) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), std::int64_t{0});
  const auto top = static_cast<std::ptrdiff_t>(std::min(top_k, count));
  std::partial_sort(ids.begin(), ids.begin() + top, ids.end(), [&](std::int64_t a, std::int64_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  const double largest = logits[ids.front()];
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += std::exp(logits[i] - largest);
  std::vector<TokenProbability> best;
  for (std::ptrdiff_t i = 0; i < top; ++i) {
    const std::int64_t id = ids[static_cast<std::size_t>(i)];
    best.push_back({id, std::exp(logits[id] - largest) / sum});
  }
  return best;
}

// The residual stream before the first layer of an encoder, and after each, with their names.
std::vector<std::pair<std::string, Tensor>> streams_of(const EncoderModel& model, const TensorMap& inputs) {
  const std::string stack = model.stack_name(), layers = stack + ".layers.";
  std::vector<std::pair<std::string, Tensor>> streams;
  Taps taps;
  taps.listen(stack + ".embed",
              [&](const std::string&, Tensor& value) { streams.emplace_back("embed", value.clone()); });
  taps.listen(layers + "*.out", [&](const std::string& name, Tensor& value) {
    if (const auto layer = inspect::layer_of_tap(name, layers, ".out"))
      streams.emplace_back(std::to_string(*layer), value.clone());
  });
  Context context{.taps = &taps};
  model.forward(inputs, {.logits = false}, context);
  taps.require_all_fired();
  return streams;
}

// The logits of an encoder's head, where a stream stands in the place of the last layer's output.
Tensor logits_of(const EncoderModel& model, const TensorMap& inputs, const Tensor& stream) {
  const Stack* stack = model.stack_named(model.stack_name());
  HEED_ASSERT(stack != nullptr, "an encoder with a head has a stack");
  const StackResume resume(stack->name, std::ssize(stack->layers), stream);
  return model.forward(inputs).at("logits");
}

LensLayer lens_layer(const std::string& name, const Tensor& logits, std::int64_t top_k) {
  LensLayer layer{name, {}};
  const std::vector<double> all = inspect::numbers(logits);  // [1, T, V], or [1, L]
  const std::int64_t count = logits.size(-1);
  for (std::size_t begin = 0; begin < all.size(); begin += static_cast<std::size_t>(count))
    layer.positions.push_back(most_probable(all.data() + begin, count, top_k));
  return layer;
}

std::vector<LensLayer> lens_of_encoder(const EncoderModel& model, const TensorMap& inputs,
                                       std::int64_t top_k) {
  std::vector<LensLayer> layers;
  for (const auto& [name, stream] : streams_of(model, inputs))
    layers.push_back(lens_layer(name, logits_of(model, inputs, stream), top_k));
  return layers;
}

}  // namespace

std::vector<LensLayer> logit_lens(const Model& model, const TensorMap& inputs, std::int64_t top_k) {
  const NoGradients guard;
  const auto* encoder = as<EncoderModel>(model);
  if (encoder != nullptr && encoder->head() == EncoderHead::masked_lm)
    return lens_of_encoder(*encoder, inputs, top_k);
  const ReadOut read_out = inspect::required_read_out(model, "lens");
  std::vector<LensLayer> layers;
  const auto read = [&](const std::string& name, const Tensor& stream) {
    layers.push_back(lens_layer(name, read_out.logits(stream.contiguous()), top_k));
  };
  Taps taps;
  taps.listen("decoder.embed", [&](const std::string&, Tensor& value) { read("embed", value); });
  taps.listen("decoder.layers.*.out", [&](const std::string& name, Tensor& value) {
    if (const auto layer = inspect::layer_of_tap(name, kLayers, ".out")) read(std::to_string(*layer), value);
  });
  Context context{.taps = &taps};
  model.forward(inputs, {.logits = false}, context);
  return layers;
}

std::vector<LensLayer> label_lens(const Model& model, const TensorMap& inputs, std::int64_t top_k) {
  const NoGradients guard;
  const auto* encoder = as<EncoderModel>(model);
  if (encoder == nullptr || encoder->head() != EncoderHead::sequence)
    throw Error("lens: expected a model with a head of labels, got " + model.family() + " without");
  return lens_of_encoder(*encoder, inputs, top_k);
}

}  // namespace heed
