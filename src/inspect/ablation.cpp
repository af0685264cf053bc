// Ablation of heads and feed-forward networks.
#include "heed/inspect/ablation.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "heed/random.h"
#include "inspect/analysis_common.h"
#include "inspect/layer_runs.h"
#include "inspect/measured_run.h"

namespace heed {
namespace {

constexpr const char* kFeedForward = "feed_forward";

using Replacements = std::map<std::string, Tensor>;  // by tap, [1 or rows, heads or 1, 1 or T, d]

std::string tap_of(const Component& c) {
  const bool feeds = c.part == kFeedForward;
  return c.stack + ".layers." + std::to_string(c.layer) + "." + c.part + (feeds ? ".added" : ".heads");
}

// [B, H, T, d]: a feed-forward network is a single head.
Tensor with_heads(const Tensor& value) { return value.rank() == 3 ? unsqueeze(value, 1) : value; }

// Overwrites one row's component in a value [B, H, T, d], or [B, T, D].
void replace_row(const Tensor& value, std::int64_t row, const Component& component, const Tensor& by,
                 std::int64_t row_of_by) {
  const std::int64_t head = std::max<std::int64_t>(0, component.head);
  const Tensor all = with_heads(value), place = slice(slice(all, 0, row, row + 1), 1, head, head + 1);
  if (!by.defined()) return place.copy_from(Tensor::zeros(place.shape(), place.dtype()));
  const std::int64_t from = by.size(0) == 1 ? 0 : row_of_by;
  const Tensor own = slice(slice(by, 0, from, from + 1), 1, head, head + 1);
  place.copy_from(broadcast_to(own, place.shape()).contiguous());
}

// Whether the input can lend its values, position by position, to another.
bool can_replace(const TensorMap& donor, const TensorMap& input) {
  return std::all_of(input.begin(), input.end(), [&](const auto& one) {
    const auto found = donor.find(one.first);
    if (found == donor.end()) return one.first == "labels";  // which only a loss needs
    const Tensor &theirs = found->second, &own = one.second;
    if (own.rank() == 2 && !is_floating(own.dtype()) && theirs.rank() == 2)
      return theirs.size(1) >= own.size(1);
    return theirs.shape() == own.shape();
  });
}

class AblationRuns {
 public:
  AblationRuns(const Model& model, std::span<const MeasuredInput> inputs, const AblationOptions& options)
      : model_(model), inputs_(inputs), options_(options) {
    for (const Component& c : options.removed) taps_of_.insert({tap_of(c), &c});
    for (const Component& c : options.each) taps_of_.insert({tap_of(c), &c});
    result_.each.resize(options.each.size());
    for (const MeasuredInput& input : inputs) {
      inspect::check_metric(model, input, "ablation");
      result_.weights.push_back(static_cast<double>(inspect::measured_positions(model, input)));
    }
    result_.whole = result_.removed = std::vector<double>(inputs.size());
    for (auto& values : result_.each) values.resize(inputs.size());
    check_components();
    if (options.replacement == Replacement::mean) add_means();
  }

  AblationResult run() {
    std::vector<bool> done(inputs_.size());
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (done[i]) continue;
      Block block;
      const std::int64_t most = inspect::rows_at_once(inspect::positions_of(inputs_[i].inputs));
      for (std::size_t j = i; j < inputs_.size() && std::ssize(block.members) < most; ++j) {
        if (done[j] || !inspect::can_share_run(inputs_[i], inputs_[j])) continue;
        done[j] = true;
        block.members.push_back(j);
      }
      run_block(block);
    }
    return std::move(result_);
  }

 private:
  // Inputs of equal shapes.
  struct Block {
    std::vector<std::size_t> members;
    std::vector<inspect::RunRow> rows;
    Replacements replacements;
    inspect::LayerInputs layers;  // of the run without the removed components
  };

  void check_components() const {
    std::map<std::string, std::int64_t> heads;
    Taps taps;
    for (const auto& [tap, component] : taps_of_)
      taps.listen(tap,
                  [&](const std::string& name, Tensor& value) { heads[name] = with_heads(value).size(1); });
    Context context{.taps = &taps};
    model_.forward(inputs_.front().inputs, {}, context);
    const auto check = [&](const Component& c) {
      const auto found = heads.find(tap_of(c));
      if (found == heads.end() || c.head >= found->second || c.layer < 0 ||
          (c.head < 0) != (c.part == kFeedForward)) {
        throw Error("ablation: expected a head or feed-forward network of the model, got " +
                    (c.head < 0 ? std::to_string(c.layer) + ".ff"
                                : std::to_string(c.layer) + "." + std::to_string(c.head)));
      }
    };
    for (const Component& c : options_.removed) check(c);
    for (const Component& c : options_.each) check(c);
  }

  // What a run of one input gives at the taps of the components.
  Replacements values_of(const TensorMap& input) const {
    Replacements values;
    Taps taps;
    for (const auto& [tap, component] : taps_of_)
      taps.listen(tap,
                  [&](const std::string& name, Tensor& value) { values[name] = with_heads(value).clone(); });
    Context context{.taps = &taps};
    model_.forward(input, {}, context);
    return values;
  }

  std::int64_t reference_count() const {
    return options_.reference.empty() ? std::ssize(inputs_) : std::ssize(options_.reference);
  }
  const TensorMap& reference(std::int64_t i) const {
    const auto at = static_cast<std::size_t>(i);
    return options_.reference.empty() ? inputs_[at].inputs : options_.reference[at];
  }

  void add_means() {
    std::map<std::string, double> positions;
    Replacements sums;
    for (std::int64_t i = 0; i < reference_count(); ++i) {
      for (const auto& [tap, value] : values_of(reference(i))) {
        const Tensor sum = heed::sum(value.to(DType::f64), 2, true);  // [1, H, 1, d]
        sums[tap] = sums.contains(tap) ? sums[tap] + sum : sum;
        positions[tap] += static_cast<double>(value.size(2));
      }
    }
    for (const auto& [tap, sum] : sums) means_[tap] = sum * (1 / positions.at(tap));
  }

  // The values of another input for each member of the block.
  Replacements resampled(const Block& block) const {
    std::map<std::string, std::vector<Tensor>> parts;
    for (const std::size_t member : block.members) {
      std::vector<std::int64_t> donors;
      for (std::int64_t i = 0; i < reference_count(); ++i) {
        const bool same = options_.reference.empty() && i == static_cast<std::int64_t>(member);
        if (!same && can_replace(reference(i), inputs_[member].inputs)) donors.push_back(i);
      }
      if (donors.empty())
        throw Error("ablation: expected another reference text with as many tokens as text " +
                    std::to_string(member + 1) + ", to take values from, got none");
      const std::uint32_t word = RandomStream{options_.seed, 0}.word(member);
      for (const auto& [tap, value] : values_of(reference(donors[word % donors.size()])))
        parts[tap].push_back(value);
    }
    Replacements replacements;
    for (auto& [tap, values] : parts) {
      std::int64_t least = values.front().size(2);  // no member has more positions
      for (const Tensor& value : values) least = std::min(least, value.size(2));
      for (Tensor& value : values) value = slice(value, 2, 0, least);
      replacements[tap] = concat(values, 0);
    }
    return replacements;
  }

  // Replaces the removed components in all rows, which are of these members of the block.
  void listen_to_removed(Taps& taps, const Block& block, const std::vector<std::int64_t>& members) const {
    for (const Component& component : options_.removed) {
      taps.listen(tap_of(component),
                  [this, &block, &component, members](const std::string& tap, Tensor& value) {
                    value = value.clone();
                    for (std::int64_t row = 0; row < value.size(0); ++row)
                      put(block, tap, value, row, component, members[static_cast<std::size_t>(row)]);
                  });
    }
  }

  void put(const Block& block, const std::string& tap, const Tensor& value, std::int64_t row,
           const Component& component, std::int64_t member) const {
    const auto found = block.replacements.find(tap);
    Tensor by = found == block.replacements.end() ? Tensor() : found->second;
    const std::int64_t positions = with_heads(value).size(2);
    if (by.defined() && by.size(2) > positions) by = slice(by, 2, 0, positions);
    replace_row(value, row, component, by, member);
  }

  std::vector<double> measure(std::span<const inspect::RunRow> rows, Taps& taps) const {
    return inspect::numbers(inspect::run_measured(model_, rows, &taps));
  }

  void run_block(Block& block) {
    for (const std::size_t member : block.members) block.rows.push_back({&inputs_[member]});
    if (options_.replacement == Replacement::mean) block.replacements = means_;
    if (options_.replacement == Replacement::resample) block.replacements = resampled(block);
    const bool compares = block.rows.front().input->metric.kind == MetricKind::kl;
    std::vector<std::int64_t> all(block.members.size());
    std::iota(all.begin(), all.end(), std::int64_t{0});
    if (compares) {
      const std::vector<Tensor> references = inspect::log_probabilities(model_, block.rows);
      for (std::size_t i = 0; i < references.size(); ++i) block.rows[i].reference = references[i];
    }
    Taps removed;
    listen_to_removed(removed, block, all);
    block.layers.listen(model_, removed);
    const std::vector<double> without = measure(block.rows, removed);
    Taps none;
    const std::vector<double> whole = options_.removed.empty() ? without : measure(block.rows, none);
    for (std::size_t i = 0; i < block.members.size(); ++i) {
      result_.removed[block.members[i]] = without[i];
      result_.whole[block.members[i]] = whole[i];
    }
    for (std::size_t begin = 0; begin < options_.each.size();) {
      const Component& first = options_.each[begin];
      std::size_t end = begin;
      while (end < options_.each.size() && options_.each[end].layer == first.layer &&
             options_.each[end].stack == first.stack)
        ++end;
      run_layer(block, begin, end);
      begin = end;
    }
  }

  // Components of one layer, each in rows of its own.
  void run_layer(const Block& block, std::size_t begin, std::size_t end) {
    const auto members = std::ssize(block.members);
    const std::int64_t total = members * static_cast<std::int64_t>(end - begin);
    const std::int64_t most = inspect::rows_at_once(inspect::positions_of(block.rows.front().input->inputs));
    for (std::int64_t from = 0; from < total; from += most) {
      const std::int64_t to = std::min(total, from + most);
      std::vector<inspect::RunRow> rows;
      std::vector<std::int64_t> of_members;
      for (std::int64_t i = from; i < to; ++i) {
        of_members.push_back(i % members);
        rows.push_back(block.rows[static_cast<std::size_t>(i % members)]);
      }
      Taps taps;
      listen_to_removed(taps, block, of_members);
      for (std::size_t c = begin; c < end; ++c) {
        const Component& component = options_.each[c];
        taps.listen(tap_of(component), [&, c](const std::string& tap, Tensor& value) {
          value = value.clone();
          for (std::int64_t i = from; i < to; ++i) {
            if (begin + static_cast<std::size_t>(i / members) == c)
              put(block, tap, value, i - from, component, i % members);
          }
        });
      }
      const Component& first = options_.each[begin];
      const auto resumed = block.layers.resume(first.stack, first.layer, of_members);
      const std::vector<double> values = measure(rows, taps);
      for (std::int64_t i = from; i < to; ++i) {
        result_.each[begin + static_cast<std::size_t>(i / members)]
                    [block.members[static_cast<std::size_t>(i % members)]] =
            values[static_cast<std::size_t>(i - from)];
      }
      done_ += to - from;
      if (options_.progress) options_.progress(done_, std::ssize(inputs_) * std::ssize(options_.each));
    }
  }

  const Model& model_;
  std::span<const MeasuredInput> inputs_;
  const AblationOptions& options_;
  std::map<std::string, const Component*> taps_of_;
  Replacements means_;
  AblationResult result_;
  std::int64_t done_ = 0;
};

}  // namespace

std::vector<Component> components_of(const Model& model, const MeasuredInput& input, const std::string& stack,
                                     const std::string& part, bool feed_forwards, const char* where) {
  const NoGradients guard;
  const std::string prefix = stack + ".layers.", heads = "." + part + ".heads",
                    feeds = std::string(".") + kFeedForward + ".added";
  std::map<std::int64_t, std::vector<Component>> layers;
  Taps taps;
  taps.listen(prefix + "*" + heads, [&](const std::string& name, Tensor& value) {
    const auto layer = inspect::layer_of_tap(name, prefix, heads);
    for (std::int64_t head = 0; layer && head < value.size(1); ++head)
      layers[*layer].push_back({stack, part, *layer, head});
  });
  if (feed_forwards) {
    taps.listen(prefix + "*" + feeds, [&](const std::string& name, Tensor&) {
      if (const auto layer = inspect::layer_of_tap(name, prefix, feeds))
        layers[*layer].push_back({stack, kFeedForward, *layer, -1});
    });
  }
  Context context{.taps = &taps};
  model.forward(input.inputs, {}, context);
  std::vector<Component> components;
  for (auto& [layer, own] : layers) {
    std::stable_sort(own.begin(), own.end(), [](const Component& a, const Component& b) {
      return (a.head >= 0) > (b.head >= 0);  // of parallel steps, heads first
    });
    components.insert(components.end(), own.begin(), own.end());
  }
  if (components.empty())
    throw Error(std::string(where) + ": expected a model with " + part + " in its " + stack + ", got " +
                model.family());
  return components;
}

std::vector<double> AblationResult::effect(std::size_t component) const {
  std::vector<double> effects = each[component];
  for (std::size_t i = 0; i < effects.size(); ++i) effects[i] -= removed[i];
  return effects;
}

AblationResult measure_ablations(const Model& model, std::span<const MeasuredInput> inputs,
                                 const AblationOptions& options) {
  const NoGradients guard;
  if (inputs.empty()) throw Error("ablation: expected a text, got none");
  return AblationRuns(model, inputs, options).run();
}

}  // namespace heed
