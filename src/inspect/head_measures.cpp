// Sums of weights and lengths, over the queries of all inputs.
#include "heed/inspect/head_measures.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/ops/shape.h"
#include "inspect/patch_grid.h"
#include "inspect/stream_sum.h"
#include "inspect/taps.h"

namespace heed {
namespace {

constexpr double kDead = 1e-3, kRedundant = 0.05;

// A mean over queries.
struct QueryMean {
  double sum = 0;
  std::int64_t count = 0;
  void add(double x) {
    sum += x;
    ++count;
  }
  double value() const { return count > 0 ? sum / static_cast<double>(count) : 0; }
};

struct HeadSums {
  QueryMean previous, duplicate, induction, entropy, distance, first, separator, size;
  std::vector<QueryMean> distances;  // to the other heads of the layer
};

using LayerSums = std::vector<HeadSums>;  // by head

// What the keys of one text are: tokens, or parts of an image or a sound.
struct HeadKeys {
  std::vector<std::int64_t> ids;
  std::optional<inspect::PatchGrid> grid;
  bool of_queries = true;  // not of cross-attention
};

// How far from its own patch a query looks, in patches.
void add_distance(HeadSums& sums, const double* weight, std::int64_t t, const inspect::PatchGrid& grid) {
  if (t < grid.first) return;
  const auto place = [&](std::int64_t position) {
    return std::pair((position - grid.first) / grid.columns, (position - grid.first) % grid.columns);
  };
  double distance = 0, whole = 0;
  for (std::int64_t s = grid.first; s < grid.positions(); ++s) {
    const auto [row, column] = place(s);
    const auto [own_row, own_column] = place(t);
    distance +=
        weight[s] * std::hypot(static_cast<double>(row - own_row), static_cast<double>(column - own_column));
    whole += weight[s];
  }
  if (whole > 0) sums.distance.add(distance / whole);
}

// What relates the query's token to keys of its own sequence.
void add_relations(HeadSums& sums, const double* weight, std::int64_t t,
                   const std::vector<std::int64_t>& ids) {
  const auto length = static_cast<std::int64_t>(ids.size());
  const auto id = [&](std::int64_t s) { return ids[static_cast<std::size_t>(s)]; };
  double distance = 0, duplicate = 0, induction = 0;
  bool has_duplicate = false, has_follower = false;
  for (std::int64_t s = 0; s < length; ++s) {
    const double w = weight[s];
    distance += w * static_cast<double>(std::abs(t - s));
    if (s != t && id(s) == id(t) && (s < t || w > 0)) {
      has_duplicate = true;
      duplicate += w;
    }
    if (s > 0 && s < t && id(s - 1) == id(t)) {
      has_follower = true;
      induction += w;
    }
  }
  sums.distance.add(distance);
  if (t > 0) sums.previous.add(weight[t - 1]);
  if (has_duplicate) sums.duplicate.add(duplicate);
  if (has_follower) sums.induction.add(induction);
}

// One query's row of weights.
void add_row(HeadSums& sums, const double* weight, std::int64_t t, std::int64_t count, const HeadKeys& keys,
             const std::set<std::int64_t>& separators) {
  double entropy = 0, separator = 0;
  for (std::int64_t s = 0; s < count; ++s) {
    if (weight[s] > 0) entropy -= weight[s] * std::log(weight[s]);
    if (!keys.grid && separators.contains(keys.ids[static_cast<std::size_t>(s)])) separator += weight[s];
  }
  sums.entropy.add(entropy);
  sums.separator.add(separator);
  if (t > 0 || !keys.of_queries) sums.first.add(weight[0]);
  if (keys.grid) {
    add_distance(sums, weight, t, *keys.grid);
  } else if (keys.of_queries) {
    add_relations(sums, weight, t, keys.ids);
  }
}

// The weights [1, H, T, S] of one text and layer.
void add_weights(LayerSums& layer, const Tensor& weights, const HeadKeys& keys_of_text,
                 const std::set<std::int64_t>& separators) {
  const std::vector<double> all = inspect::numbers(weights);
  const std::int64_t heads = weights.size(1), time = weights.size(2), keys = weights.size(3);
  layer.resize(static_cast<std::size_t>(heads));
  for (std::int64_t h = 0; h < heads; ++h) {
    HeadSums& sums = layer[static_cast<std::size_t>(h)];
    sums.distances.resize(static_cast<std::size_t>(heads));
    for (std::int64_t t = 0; t < time; ++t) {
      const double* row = all.data() + (h * time + t) * keys;
      add_row(sums, row, t, keys, keys_of_text, separators);
      for (std::int64_t other = 0; other < heads; ++other) {
        const double* theirs = all.data() + (other * time + t) * keys;
        double difference = 0;
        for (std::int64_t s = 0; s < keys; ++s) difference += std::abs(row[s] - theirs[s]) / 2;
        sums.distances[static_cast<std::size_t>(other)].add(difference);
      }
    }
  }
}

// What one attention reads and writes in a pass.
struct AttentionValues {
  Tensor stream, contributions, out;  // [1, T, D], [1, H, T, D], [1, T, D]
};

// What the heads add to the stream against the stream itself.
void add_sizes(LayerSums& layer, const AttentionValues& values, const Tensor& added) {
  const Tensor& stream = values.stream;
  const std::vector<double> parts = inspect::scaled_as(values.contributions, values.out, added),
                            whole = inspect::numbers(stream);
  const auto time = static_cast<std::size_t>(stream.size(1)), d = static_cast<std::size_t>(stream.size(2));
  const auto length = [&](const double* x) {
    double square = 0;
    for (std::size_t i = 0; i < d; ++i) square += x[i] * x[i];
    return std::sqrt(square);
  };
  layer.resize(static_cast<std::size_t>(values.contributions.size(1)));
  for (std::size_t h = 0; h < layer.size(); ++h) {
    for (std::size_t t = 0; t < time; ++t) {
      const double size = length(whole.data() + t * d);
      if (size > 0) layer[h].size.add(length(parts.data() + (h * time + t) * d) / size);
    }
  }
}

class HeadMeasurer {
 public:
  HeadMeasurer(const Model& model, const HeadsOptions& options)
      : model_(model), options_(options), prefix_(options.stack + ".layers."), part_("." + options.part) {}

  void add(const TensorMap& text) {
    const bool self = options_.part == "self_attn";
    const HeadKeys keys = keys_of(text);
    if ((keys.grid ? keys.grid->positions() : std::ssize(keys.ids)) < 2) return;
    std::map<std::int64_t, AttentionValues> values;  // by layer
    Taps taps(options_.taps);
    const auto listen = [&](const std::string& suffix, auto use) {
      taps.listen(prefix_ + "*" + suffix, [this, suffix, use](const std::string& name, Tensor& value) {
        if (const auto layer = inspect::layer_of_tap(name, prefix_, suffix)) use(*layer, value);
      });
    };
    listen(self ? ".in" : ".mid",
           [&](std::int64_t layer, const Tensor& value) { values[layer].stream = value.clone(); });
    listen(part_ + ".weights", [&](std::int64_t layer, const Tensor& value) {
      add_weights(layers_[layer], value, keys, options_.separators);
    });
    listen(part_ + ".contributions",
           [&](std::int64_t layer, const Tensor& value) { values[layer].contributions = value.clone(); });
    listen(part_ + ".out",
           [&](std::int64_t layer, const Tensor& value) { values[layer].out = value.clone(); });
    listen(part_ + ".added", [&](std::int64_t layer, const Tensor& value) {
      add_sizes(layers_[layer], values.at(layer), value);
      values.erase(layer);
    });
    Context context{.taps = &taps};
    model_.forward(text, {.logits = false}, context);
    taps.require_all_fired();
    ++texts_;
  }

  std::vector<HeadMeasures> result() const {
    if (texts_ == 0) throw Error("heads: expected a text of at least two tokens, got none");
    std::vector<HeadMeasures> all;
    for (const auto& [layer, heads] : layers_) {
      for (std::size_t h = 0; h < heads.size(); ++h)
        all.push_back(measures(layer, static_cast<std::int64_t>(h), heads[h]));
    }
    return all;
  }

 private:
  HeadKeys keys_of(const TensorMap& text) const {
    const bool self = options_.part == "self_attn";
    if (const auto grid = inspect::patch_grid(model_.input(), text)) return {{}, grid, self};
    const bool decoder_ids = self && options_.stack == "decoder" && text.contains("decoder_input_ids");
    return {text.at(decoder_ids ? "decoder_input_ids" : "input_ids").to_vector<std::int64_t>(), std::nullopt,
            self};
  }

  static HeadMeasures measures(std::int64_t layer, std::int64_t head, const HeadSums& sums) {
    HeadMeasures m{.layer = layer, .head = head};
    m.previous = sums.previous.value();
    m.duplicate = sums.duplicate.value();
    m.induction = sums.induction.value();
    m.entropy = sums.entropy.value();
    m.distance = sums.distance.value();
    m.first = sums.first.value();
    m.separator = sums.separator.value();
    m.size = sums.size.value();
    m.dead = m.size < kDead;
    for (std::size_t other = 0; other < sums.distances.size(); ++other) {
      const double distance = sums.distances[other].value();
      if (static_cast<std::int64_t>(other) == head || distance >= m.nearest_distance) continue;
      m.nearest = static_cast<std::int64_t>(other);
      m.nearest_distance = distance;
    }
    m.redundant = m.nearest_distance < kRedundant;
    return m;
  }

  const Model& model_;
  const HeadsOptions& options_;
  std::string prefix_, part_;
  std::map<std::int64_t, LayerSums> layers_;
  std::int64_t texts_ = 0;
};

}  // namespace

std::vector<HeadMeasures> measure_heads(const Model& model, std::span<const TensorMap> texts,
                                        const HeadsOptions& options) {
  const NoGradients guard;
  HeadMeasurer measurer(model, options);
  for (const TensorMap& text : texts) measurer.add(text);
  return measurer.result();
}

}  // namespace heed
