// Ablation of heads and feed-forward networks.
#include "heed/inspect/ablation.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "heed/autograd.h"
#include "heed/error.h"
#include "inspect/measured_run.h"
#include "inspect/replacements.h"
#include "inspect/taps.h"

namespace heed {
namespace {

using inspect::kFeedForward;
using inspect::Replacements;
using inspect::tap_of;

std::vector<const TensorMap*> inputs_of(std::span<const MeasuredInput> measured) {
  std::vector<const TensorMap*> inputs;
  for (const MeasuredInput& one : measured) inputs.push_back(&one.inputs);
  return inputs;
}

std::set<std::string> taps_of(const AblationOptions& options) {
  std::set<std::string> taps;
  for (const Component& c : options.removed) taps.insert(tap_of(c));
  for (const Component& c : options.each) taps.insert(tap_of(c));
  return taps;
}

class AblationRuns {
 public:
  AblationRuns(const Model& model, std::span<const MeasuredInput> inputs, const AblationOptions& options)
      : model_(model),
        inputs_(inputs),
        options_(options),
        references_(inspect::references_of(options, inputs_of(inputs))) {
    result_.each.resize(options.each.size());
    for (const MeasuredInput& input : inputs) {
      inspect::check_metric(model, input, "ablation");
      result_.weights.push_back(static_cast<double>(inspect::measured_positions(model, input)));
    }
    result_.whole = result_.removed = std::vector<double>(inputs.size());
    for (auto& values : result_.each) values.resize(inputs.size());
    inspect::check_components(model, inputs.front().inputs, options.removed);
    inspect::check_components(model, inputs.front().inputs, options.each);
    source_.emplace(model, taps_of(options), options, references_);
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

  Replacements replacements_of(const Block& block) const {
    std::vector<inspect::ReplacedInput> replaced;
    for (const std::size_t member : block.members) {
      const auto number = static_cast<std::int64_t>(member);
      replaced.push_back({inputs_[member].inputs, options_.reference.empty() ? number : -1, number});
    }
    return source_->of(replaced);
  }

  // Replaces the removed components in all rows, which are of these members of the block.
  void listen_to_removed(Taps& taps, const Block& block, const std::vector<std::int64_t>& members) const {
    for (const Component& component : options_.removed) {
      taps.listen(tap_of(component), [&block, &component, members](const std::string& tap, Tensor& value) {
        value = value.clone();
        for (std::int64_t row = 0; row < value.size(0); ++row)
          inspect::replace_component(block.replacements, tap, value, row, component,
                                     members[static_cast<std::size_t>(row)]);
      });
    }
  }

  std::vector<double> measure(std::span<const inspect::RunRow> rows, Taps& taps) const {
    return inspect::numbers(inspect::run_measured(model_, rows, &taps));
  }

  void run_block(Block& block) {
    for (const std::size_t member : block.members) block.rows.push_back({&inputs_[member]});
    block.replacements = replacements_of(block);
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
              inspect::replace_component(block.replacements, tap, value, i - from, component, i % members);
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
  std::vector<const TensorMap*> references_;
  std::optional<inspect::ReplacementSource> source_;
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
  model.forward(input.inputs, {.logits = false}, context);
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

void replace_components(Taps& taps, const Model& model, const TensorMap& inputs,
                        const AblationOptions& options) {
  const NoGradients guard;
  inspect::check_components(model, inputs, options.removed);
  const std::vector<const TensorMap*> references =
      inspect::references_of(options, std::vector<const TensorMap*>{&inputs});
  const Replacements values =
      inspect::ReplacementSource(model, taps_of(options), options, references)
          .of(std::vector<inspect::ReplacedInput>{{inputs, options.reference.empty() ? 0 : -1, 0}});
  for (const Component& component : options.removed) {
    taps.listen(tap_of(component), [values, component](const std::string& tap, Tensor& value) {
      value = value.clone();
      for (std::int64_t row = 0; row < value.size(0); ++row)
        inspect::replace_component(values, tap, value, row, component, 0);
    });
  }
}

}  // namespace heed
