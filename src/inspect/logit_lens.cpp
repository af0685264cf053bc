// The logit lens, and direct logit attribution.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/reduce.h"
#include "inspect/analysis_common.h"
#include "inspect/stream_sum.h"
#include "nn/stack_resume.h"

namespace heed {
namespace inspect {

std::vector<double> scaled_as(const Tensor& parts, const Tensor& before, const Tensor& after) {
  std::vector<double> scaled = numbers(parts);
  const std::vector<double> from = numbers(before), to = numbers(after);
  for (std::size_t i = 0; i < scaled.size(); ++i) {
    const std::size_t j = i % from.size();
    scaled[i] *= from[j] != 0 ? to[j] / from[j] : 0;
  }
  return scaled;
}

std::optional<std::int64_t> layer_of_tap(const std::string& name, const std::string& prefix,
                                         const std::string& suffix) {
  if (!name.starts_with(prefix) || !name.ends_with(suffix) || name.size() <= prefix.size() + suffix.size())
    return std::nullopt;
  const std::string number = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
  if (!std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  return std::stoll(number);
}

void check_position(const char* what, std::int64_t position, std::int64_t count) {
  if (position < 0 || position >= count)
    throw Error(std::string(what) + ": expected a position below " + std::to_string(count) + ", got " +
                std::to_string(position));
}

ReadOut required_read_out(const Model& model, const char* where) {
  const std::optional<ReadOut> read_out = model.read_out();
  if (!read_out)
    throw Error(std::string(where) +
                ": expected a model that predicts the next token (a decoder or an encoder-decoder), got " +
                model.family());
  return *read_out;
}

const EncoderModel* classifier_of(const Model& model) {
  const auto* encoder = dynamic_cast<const EncoderModel*>(&model);
  return encoder != nullptr && encoder->head() == EncoderHead::sequence ? encoder : nullptr;
}

const EncoderModel* masked_model_of(const Model& model) {
  const auto* encoder = dynamic_cast<const EncoderModel*>(&model);
  return encoder != nullptr && encoder->head() == EncoderHead::masked_lm ? encoder : nullptr;
}

void require_predictions(const Model& model, const char* where) {
  if (dynamic_cast<const EncoderDecoderModel*>(&model) == nullptr && classifier_of(model) == nullptr &&
      masked_model_of(model) == nullptr)
    required_read_out(model, where);
}

void require_linear(const ReadOut& read_out, const Model& model, std::int64_t token) {
  if (token < 0 || token >= read_out.output.weight.size(0))
    throw Error("attribution: expected a token below " + std::to_string(read_out.output.weight.size(0)) +
                ", got " + std::to_string(token));
  if (read_out.transform.dense)
    throw Error("attribution: expected logits that are linear in the normed stream, got an activation (" +
                model.family() + ")");
}

LogitAttribution logit_parts(StreamSum sum, const ReadOut& read_out, std::int64_t token) {
  if (read_out.norm) sum.apply(*read_out.norm, {.name = "bias"});
  const Tensor row = read_out.output.weight.embedding(Tensor::from(std::vector<std::int64_t>{token}, {1}),
                                                      read_out.scale, {});  // [1, D]
  const std::vector<double> logits = numbers(heed::sum(sum.values * row.to(DType::f64), 2));
  LogitAttribution result;
  result.parts.push_back({{.name = "embed"}, 0});
  double bias =
      read_out.output.bias.defined() ? numbers(read_out.output.bias)[static_cast<std::size_t>(token)] : 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const StreamPart& part = sum.parts[i];
    if (part.layer >= 0) {
      result.parts.push_back({part, logits[i]});
    } else {
      (part.name == "bias" ? bias : result.parts.front().logit) += logits[i];
    }
  }
  result.parts.push_back({{.name = "bias"}, bias});
  for (const LogitPart& part : result.parts) result.logit += part.logit;
  return result;
}

}  // namespace inspect

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
  if (const EncoderModel* masked = inspect::masked_model_of(model))
    return lens_of_encoder(*masked, inputs, top_k);
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
  const EncoderModel* classifier = inspect::classifier_of(model);
  if (classifier == nullptr)
    throw Error("lens: expected a model with a head of labels, got " + model.family() + " without");
  return lens_of_encoder(*classifier, inputs, top_k);
}

LogitAttribution attribute_logit(const Model& model, const TensorMap& inputs, std::int64_t position,
                                 std::int64_t token) {
  const NoGradients guard;
  const ReadOut read_out = inspect::required_read_out(model, "attribution");
  inspect::require_linear(read_out, model, token);
  const Stack& stack = *model.stack_named("decoder");
  inspect::StreamRecorder recorder(stack, {{"attribution", position}}, inspect::end_of(stack));
  Taps taps;
  recorder.listen(taps);
  Context context{.taps = &taps};
  model.forward(inputs, {.logits = false}, context);
  return inspect::logit_parts(recorder.sum(), read_out, token);
}

}  // namespace heed
