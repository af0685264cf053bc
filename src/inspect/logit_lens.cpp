// The logit lens, and direct logit attribution.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/ops/shape.h"
#include "inspect/analysis_common.h"

namespace heed {
namespace inspect {

std::vector<double> added_by_heads(const Tensor& contributions, const Tensor& out, const Tensor& added) {
  std::vector<double> heads = numbers(contributions);
  const std::vector<double> before = numbers(out), after = numbers(added);
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const std::size_t j = i % before.size();
    heads[i] *= before[j] != 0 ? after[j] / before[j] : 0;
  }
  return heads;
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

void require_predictions(const Model& model, const char* where) {
  if (dynamic_cast<const EncoderDecoderModel*>(&model) == nullptr && classifier_of(model) == nullptr)
    required_read_out(model, where);
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

// The values of one pass that attribution adds up, at one position.
struct Stream {
  Tensor embed, last;
  struct Component {
    std::string name;
    std::int64_t layer = 0;
    Tensor contributions, out, added;  // [1, H, T, D] (attention), [1, T, D], [1, T, D]
  };
  std::vector<Component> components;

  Component& component(std::int64_t layer, const std::string& name) {
    for (Component& one : components)
      if (one.layer == layer && one.name == name) return one;
    components.push_back({name, layer, {}, {}, {}});
    return components.back();
  }
};

Stream stream_of(const Model& model, const TensorMap& inputs) {
  Stream stream;
  Taps taps;
  taps.listen("decoder.embed", [&](const std::string&, Tensor& value) { stream.embed = value.clone(); });
  taps.listen("decoder.layers.*", [&](const std::string& name, Tensor& value) {
    if (inspect::layer_of_tap(name, kLayers, ".out")) stream.last = value.clone();
    for (const char* part : {"self_attn", "cross_attn", "feed_forward"}) {
      const auto layer_of = [&](const char* tap) {
        return inspect::layer_of_tap(name, kLayers, "." + std::string(part) + "." + tap);
      };
      if (const auto layer = layer_of("contributions"))
        stream.component(*layer, part).contributions = value.clone();
      if (const auto layer = layer_of("out")) stream.component(*layer, part).out = value.clone();
      if (const auto layer = layer_of("added")) stream.component(*layer, part).added = value.clone();
    }
  });
  Context context{.taps = &taps};
  model.forward(inputs, {}, context);
  return stream;
}

// What position `t` of a value [1, T, D] holds.
std::vector<double> at_position(const Tensor& value, std::int64_t t) {
  return inspect::numbers(slice(value, 1, t, t + 1));
}

// The linear map from parts of the residual stream to one logit: the norm's deviation is that of the whole.
class LogitDirection {
 public:
  LogitDirection(const ReadOut& read_out, const std::vector<double>& stream, std::int64_t token)
      : direction_(inspect::numbers(read_out.output.weight.embedding(
            Tensor::from(std::vector<std::int64_t>{token}, {1, 1}), 1.0, {}))) {
    for (double& d : direction_) d *= read_out.scale;
    if (read_out.output.bias.defined())
      bias_ = inspect::numbers(read_out.output.bias)[static_cast<std::size_t>(token)];
    if (!read_out.norm) return;
    const Norm& norm = *read_out.norm;
    if (norm.bias.defined()) {
      const std::vector<double> shift = inspect::numbers(norm.bias);
      for (std::size_t i = 0; i < shift.size(); ++i) bias_ += shift[i] * direction_[i];
    }
    centered_ = norm.kind == NormKind::layer;
    const double mean = centered_ ? mean_of(stream) : 0;
    double square = 0;
    for (const double x : stream) square += (x - mean) * (x - mean) / static_cast<double>(stream.size());
    const std::vector<double> weight = inspect::numbers(norm.weight);
    for (std::size_t i = 0; i < direction_.size(); ++i)
      direction_[i] *= (weight[i] + norm.offset) / std::sqrt(square + norm.eps);
  }

  double of(const std::vector<double>& part) const {
    const double mean = centered_ ? mean_of(part) : 0;
    double sum = 0;
    for (std::size_t i = 0; i < part.size(); ++i) sum += (part[i] - mean) * direction_[i];
    return sum;
  }
  double bias() const { return bias_; }

 private:
  static double mean_of(const std::vector<double>& x) {
    return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
  }
  std::vector<double> direction_;
  double bias_ = 0;
  bool centered_ = false;
};

// Throws Error unless the parts add up to the stream.
void check_sum(const Model& model, const Stream& stream, std::int64_t position) {
  const std::vector<double> whole = at_position(stream.last, position);
  std::vector<double> sum = at_position(stream.embed, position);
  for (const Stream::Component& part : stream.components) {
    const std::vector<double> added = at_position(part.added, position);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += added[i];
  }
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    largest = std::max(largest, std::abs(whole[i]));
    difference = std::max(difference, std::abs(whole[i] - sum[i]));
  }
  if (!(difference <= 1e-3 * largest))
    throw Error(
        "attribution: expected a residual stream that is a sum of its parts, got a norm of the sum (" +
        model.family() + " has norms after the sum)");
}

// The heads of an attention, then its bias.
void attribute_attention(const Stream::Component& part, std::int64_t position,
                         const LogitDirection& direction, std::vector<LogitPart>& parts) {
  const auto here = [&](const Tensor& value, int axis) { return slice(value, axis, position, position + 1); };
  const std::vector<double> heads =
      inspect::added_by_heads(here(part.contributions, 2), here(part.out, 1), here(part.added, 1));
  double rest = direction.of(at_position(part.added, position));
  const std::int64_t d = part.added.size(2);
  for (std::int64_t h = 0; h < part.contributions.size(1); ++h) {
    const std::vector<double> head(heads.begin() + h * d, heads.begin() + (h + 1) * d);
    parts.push_back({part.name, part.layer, h, direction.of(head)});
    rest -= parts.back().logit;
  }
  parts.push_back({part.name, part.layer, -1, rest});
}

}  // namespace

std::vector<LensLayer> logit_lens(const Model& model, const TensorMap& inputs, std::int64_t top_k) {
  const NoGradients guard;
  const ReadOut read_out = inspect::required_read_out(model, "lens");
  std::vector<LensLayer> layers;
  const auto read = [&](const std::string& name, const Tensor& stream) {
    LensLayer layer{name, {}};
    const Tensor logits = read_out.logits(stream.contiguous());  // [1, T, V]
    const std::vector<double> all = inspect::numbers(logits);
    for (std::int64_t t = 0; t < logits.size(1); ++t)
      layer.positions.push_back(most_probable(all.data() + t * logits.size(2), logits.size(2), top_k));
    layers.push_back(std::move(layer));
  };
  Taps taps;
  taps.listen("decoder.embed", [&](const std::string&, Tensor& value) { read("embed", value); });
  taps.listen("decoder.layers.*.out", [&](const std::string& name, Tensor& value) {
    if (const auto layer = inspect::layer_of_tap(name, kLayers, ".out")) read(std::to_string(*layer), value);
  });
  Context context{.taps = &taps};
  model.forward(inputs, {}, context);
  return layers;
}

std::vector<LensLayer> label_lens(const Model& model, const TensorMap& inputs, std::int64_t top_k) {
  const NoGradients guard;
  const EncoderModel* classifier = inspect::classifier_of(model);
  if (classifier == nullptr)
    throw Error("lens: expected a model with a head of labels, got " + model.family() + " without");
  const std::string stack = classifier->stack_name(), layers = stack + ".layers.";
  std::vector<std::pair<std::string, Tensor>> streams;
  Taps taps;
  taps.listen(stack + ".embed",
              [&](const std::string&, Tensor& value) { streams.emplace_back("embed", value.clone()); });
  taps.listen(layers + "*.out", [&](const std::string& name, Tensor& value) {
    if (const auto layer = inspect::layer_of_tap(name, layers, ".out"))
      streams.emplace_back(std::to_string(*layer), value.clone());
  });
  Context context{.taps = &taps};
  model.forward(inputs, {}, context);
  taps.require_all_fired();
  const std::string last = layers + streams.back().first + ".out";
  std::vector<LensLayer> result;
  for (const auto& [name, stream] : streams) {
    Taps replaced;
    replaced.listen(last, replace_by(stream));
    Context again{.taps = &replaced};
    const std::vector<double> logits = inspect::numbers(model.forward(inputs, {}, again).at("logits"));
    result.push_back({name, {most_probable(logits.data(), std::ssize(logits), top_k)}});
  }
  return result;
}

LogitAttribution attribute_logit(const Model& model, const TensorMap& inputs, std::int64_t position,
                                 std::int64_t token) {
  const NoGradients guard;
  const ReadOut read_out = inspect::required_read_out(model, "attribution");
  if (token < 0 || token >= read_out.output.weight.size(0))
    throw Error("attribution: expected a token below " + std::to_string(read_out.output.weight.size(0)) +
                ", got " + std::to_string(token));
  const Stream stream = stream_of(model, inputs);
  if (position < 0 || position >= stream.embed.size(1))
    throw Error("attribution: expected a position below " + std::to_string(stream.embed.size(1)) + ", got " +
                std::to_string(position));
  check_sum(model, stream, position);
  const LogitDirection direction(read_out, at_position(stream.last, position), token);
  LogitAttribution result;
  result.parts.push_back({"embed", -1, -1, direction.of(at_position(stream.embed, position))});
  for (const Stream::Component& part : stream.components) {
    if (part.contributions.defined()) {
      attribute_attention(part, position, direction, result.parts);
    } else {
      result.parts.push_back({part.name, part.layer, -1, direction.of(at_position(part.added, position))});
    }
  }
  result.parts.push_back({"bias", -1, -1, direction.bias()});
  for (const LogitPart& part : result.parts) result.logit += part.logit;
  return result;
}

}  // namespace heed
