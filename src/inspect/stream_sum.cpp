// The residual stream as a sum of its parts.
#include "inspect/stream_sum.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "heed/error.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "inspect/taps.h"

namespace heed::inspect {
namespace {

constexpr std::pair<const char*, const char*> kEmbeddings[] = {
    {"tokens", "token"}, {"types", "type"}, {"positions", "position"}};  // taps and parts

double largest_magnitude(const Tensor& x) {
  double largest = 0;
  for (const double value : numbers(x)) largest = std::max(largest, std::abs(value));
  return largest;
}

double length_of(const Tensor& x) {
  double squares = 0;
  for (const double value : numbers(x)) squares += value * value;
  return std::sqrt(squares);
}

// [1, P, D]
Tensor one_part(const Tensor& values) { return unsqueeze(values, 0); }

std::string layer_name(const Stack& stack, std::int64_t layer) {
  return stack.name + ".layers." + std::to_string(layer);
}

}  // namespace

std::vector<double> scaled_as(const Tensor& parts, const Tensor& before, const Tensor& after) {
  std::vector<double> scaled = numbers(parts);
  const std::vector<double> from = numbers(before), to = numbers(after);
  for (std::size_t i = 0; i < scaled.size(); ++i) {
    const std::size_t j = i % from.size();
    scaled[i] *= from[j] != 0 ? to[j] / from[j] : 0;
  }
  return scaled;
}

std::string part_label(const StreamPart& part) {
  if (part.layer < 0) return part.name == "embed_bias" ? "embed bias" : part.name;
  const auto named = [&](const char* sublayer, const char* label) {
    return part.name.starts_with(sublayer) ? std::optional<std::string>(label) : std::nullopt;
  };
  std::string sublayer =
      named("self_attn", "attn")
          .value_or(named("cross_attn", "cross").value_or(named("feed_forward", "ff").value_or(part.name)));
  if (part.head >= 0)
    return (sublayer == "attn" ? "head" : sublayer) + " " + std::to_string(part.layer) + "." +
           std::to_string(part.head);
  if (part.name.ends_with("_norm")) {
    sublayer += " norm";
  } else if (part.name.ends_with("_attn")) {
    sublayer += " bias";
  }
  return sublayer + " " + std::to_string(part.layer);
}

Tensor StreamSum::whole() const { return heed::sum(values, 0); }

void StreamSum::add(const std::vector<StreamPart>& names, const Tensor& added) {
  parts.insert(parts.end(), names.begin(), names.end());
  values = values.defined() ? concat({values, added}, 0) : added;
}

void StreamSum::apply(const Norm& norm, const StreamPart& bias) {
  const Tensor sum = whole();
  values = norm.of_part(values, sum);
  if (norm.bias.defined()) add({bias}, one_part(broadcast_to(norm.bias.to(DType::f64), sum.shape())));
}

std::string tap_of(const Stack& stack, const StreamPoint& point) {
  if (point.layer == std::ssize(stack.layers))
    return point.layer == 0 ? stack.name + ".embed" : layer_name(stack, point.layer - 1) + ".out";
  constexpr const char* kSteps[] = {".in", ".mid", ".mid2"};
  return layer_name(stack, point.layer) + kSteps[point.step];
}

StreamPoint end_of(const Stack& stack) { return {.layer = std::ssize(stack.layers), .step = 0}; }

template <class Visit>
void StreamRecorder::each_step(Visit visit) const {
  for (std::int64_t layer = 0; layer < std::ssize(stack_.layers) && layer <= point_.layer; ++layer) {
    const std::vector<ResidualStep>& steps = stack_.layers[static_cast<std::size_t>(layer)].steps;
    const std::size_t end = layer < point_.layer ? steps.size() : point_.step;
    for (std::size_t step = 0; step < end; ++step) visit(StreamPoint{layer, step}, steps[step]);
  }
}

Tensor StreamRecorder::at_positions(const Tensor& value, int axis, std::int64_t first) const {
  const Shape shape(std::span<const std::int64_t>(value.shape().begin() + 1, value.shape().end()));
  const Tensor row = reshape(value, shape);
  std::vector<Tensor> chosen;
  for (const auto& [what, position] : positions_) {
    check_position(what, position - first, value.size(axis));
    chosen.push_back(slice(row, axis - 1, position - first, position - first + 1));
  }
  return concat(chosen, axis - 1).clone();
}

void StreamRecorder::listen(Taps& taps) {
  const auto keep = [&](const std::string& tap, Tensor& place, int axis) {
    taps.listen(
        tap, [this, &place, axis](const std::string&, Tensor& value) { place = at_positions(value, axis); });
  };
  const auto by_position = [](const NamedPosition& a, const NamedPosition& b) {
    return a.position < b.position;
  };
  const auto [least, most] = std::minmax_element(positions_.begin(), positions_.end(), by_position);
  const std::int64_t first = least->position;
  const TapSelection selection{.queries = {first, most->position + 1}};
  keep(stack_.name + ".embed", embeddings_[""], 1);
  for (const auto& [tap, name] : kEmbeddings) keep(stack_.name + ".embed." + tap, embeddings_[name], 1);
  const auto keep_stream = [&](const StreamPoint& point) {
    const std::string tap = tap_of(stack_, point);
    keep(tap, streams_[tap], 1);
  };
  each_step([&](const StreamPoint& point, const ResidualStep& step) {
    keep_stream(point);
    for (const Sublayer& sublayer : step.sublayers) {
      const std::string name = layer_name(stack_, point.layer) + "." + sublayer.name;
      Added& added = added_[name];
      taps.listen(name + ".contributions", selection,
                  [this, &added, first](const std::string&, Tensor& value) {
                    added.contributions = at_positions(value, 2, first);
                  });
      keep(name + ".out", added.out, 1);
      keep(name + ".added", added.added, 1);
    }
  });
  keep_stream(point_);
}

void StreamRecorder::add_embeddings(StreamSum& sum) const {
  const Tensor whole = embeddings_.at("").to(DType::f64);
  Tensor rest = whole;
  for (const auto& [tap, name] : kEmbeddings) {
    const Tensor& part = embeddings_.at(name);
    if (!part.defined()) continue;
    const Tensor exact = part.to(DType::f64);
    sum.add({{.name = name}}, one_part(exact));
    rest = rest - exact;
  }
  if (sum.parts.empty()) return sum.add({{.name = "embed"}}, one_part(whole));
  if (largest_magnitude(rest) > 1e-6 * largest_magnitude(whole))
    sum.add({{.name = "embed_bias"}}, one_part(rest));
}

void StreamRecorder::add_sublayer(StreamSum& sum, std::int64_t layer, const std::string& name) const {
  const Added& recorded = added_.at(layer_name(stack_, layer) + "." + name);
  const Tensor added = recorded.added.to(DType::f64);
  if (!recorded.contributions.defined()) return sum.add({{.name = name, .layer = layer}}, one_part(added));
  const Tensor heads = Tensor::from(scaled_as(recorded.contributions, recorded.out, recorded.added),
                                    recorded.contributions.shape());
  std::vector<StreamPart> names;
  for (std::int64_t head = 0; head < heads.size(0); ++head) names.push_back({name, layer, head});
  sum.add(names, heads);
  sum.add({{.name = name, .layer = layer}}, one_part(added - heed::sum(heads, 0)));
}

void StreamRecorder::add_steering(StreamSum& sum, std::int64_t layer) const {
  Tensor added = stack_.layers[static_cast<std::size_t>(layer)].steering;
  if (const auto found = steering_.find(layer_name(stack_, layer) + ".out"); found != steering_.end())
    added = added.defined() ? added + found->second : found->second;
  if (!added.defined()) return;
  const Tensor everywhere = broadcast_to(added.to(DType::f64), streams_.at(tap_of(stack_, point_)).shape());
  sum.add({{.name = "steering", .layer = layer}}, one_part(everywhere));
}

StreamSum StreamRecorder::sum() const {
  StreamSum sum;
  add_embeddings(sum);
  const auto apply = [&](const std::optional<Norm>& norm, const Sublayer& sublayer, std::int64_t layer) {
    if (norm) sum.apply(*norm, {.name = sublayer.name + "_norm", .layer = layer});
  };
  each_step([&](const StreamPoint& point, const ResidualStep& step) {
    apply(step.norm_input, step.sublayers.front(), point.layer);
    for (const Sublayer& sublayer : step.sublayers) add_sublayer(sum, point.layer, sublayer.name);
    apply(step.norm_sum, step.sublayers.back(), point.layer);
    if (&step == &stack_.layers[static_cast<std::size_t>(point.layer)].steps.back())
      add_steering(sum, point.layer);
  });
  const Tensor stream = streams_.at(tap_of(stack_, point_)).to(DType::f64);
  HEED_ASSERT(!(largest_magnitude(stream - sum.whole()) > 1e-3 * largest_magnitude(stream)),
              "the parts of a stream add up to it");
  if (point_.layer < std::ssize(stack_.layers)) {
    const ResidualStep& next = stack_.layers[static_cast<std::size_t>(point_.layer)].steps[point_.step];
    apply(next.norm_input, next.sublayers.front(), point_.layer);
  }
  return sum;
}

std::vector<PartSize> StreamRecorder::sizes() const {
  std::vector<PartSize> sizes;
  each_step([&](const StreamPoint& point, const ResidualStep& step) {
    const double stream = length_of(slice(streams_.at(tap_of(stack_, point)), 0, 0, 1));
    for (const Sublayer& sublayer : step.sublayers) {
      StreamSum own;
      add_sublayer(own, point.layer, sublayer.name);
      for (std::int64_t i = 0; i < std::ssize(own.parts); ++i) {
        const double added = length_of(slice(slice(own.values, 0, i, i + 1), 1, 0, 1));
        sizes.push_back({own.parts[static_cast<std::size_t>(i)], stream > 0 ? added / stream : 0});
      }
    }
  });
  return sizes;
}

ScoreSides sides_of(const ScoreAttribution& score) {
  ScoreSides sides{std::vector<double>(score.query_parts.size()), std::vector<double>(score.key_parts.size()),
                   std::abs(score.position_bias)};
  for (std::size_t i = 0; i < sides.query.size(); ++i) {
    for (std::size_t j = 0; j < sides.key.size(); ++j) {
      sides.query[i] += score.pairs[i][j];
      sides.key[j] += score.pairs[i][j];
      sides.magnitude += std::abs(score.pairs[i][j]);
    }
  }
  return sides;
}

std::vector<std::size_t> largest(const std::vector<double>& values, std::size_t count) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return std::abs(values[a]) > std::abs(values[b]); });
  order.resize(std::min(count, order.size()));
  return order;
}

ReadOut required_read_out(const Model& model, const char* where) {
  const std::optional<ReadOut> read_out = model.read_out();
  if (!read_out)
    throw Error(std::string(where) +
                ": expected a model that predicts the next token (a decoder or an encoder-decoder), got " +
                model.family());
  return *read_out;
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

}  // namespace heed::inspect
