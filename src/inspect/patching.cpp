// Activation patching.
#include <map>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/ops/shape.h"
#include "inspect/analysis_common.h"

namespace heed {
namespace {

// The tap of a site, below its layer.
std::string site_suffix(const PatchOptions& options) {
  switch (options.site) {
    case PatchSite::residual: return ".in";
    case PatchSite::attention: return "." + options.part + ".added";
    case PatchSite::feed_forward: return ".feed_forward.added";
    case PatchSite::heads: return "." + options.part + ".heads";
  }
  HEED_ASSERT(false, "unknown site");
}

// logit(token) - logit(other) at the last position, or of labels.
double metric_of(const Model& model, const TensorMap& inputs, const PatchOptions& options, Taps* taps) {
  Context context{.taps = taps};
  const Tensor logits = model.forward(inputs, {}, context).at("logits");  // [1, T, V], or [1, L]
  const std::int64_t count = logits.size(logits.rank() - 1);
  for (const std::int64_t id : {options.token, options.other}) {
    if (id < 0 || id >= count)
      throw Error("patch: expected tokens below " + std::to_string(count) + ", got " + std::to_string(id));
  }
  const auto last =
      inspect::numbers(logits.rank() == 3 ? slice(logits, 1, logits.size(1) - 1, logits.size(1)) : logits);
  return last[static_cast<std::size_t>(options.token)] - last[static_cast<std::size_t>(options.other)];
}

}  // namespace

double PatchResult::effect(std::size_t row, std::size_t column) const {
  return (patched[row][column] - corrupted) / (clean - corrupted);
}

PatchResult patch_activations(const Model& model, const TensorMap& clean, const TensorMap& corrupted,
                              const PatchOptions& options) {
  const NoGradients guard;
  inspect::require_predictions(model, "patch");
  for (const auto& [name, value] : clean) {
    const auto other = corrupted.find(name);
    if (other == corrupted.end() || other->second.shape() != value.shape())
      throw Error("patch: expected two texts with the same number of tokens, got " + name + " " +
                  value.str() + " and " +
                  (other == corrupted.end() ? std::string("none") : other->second.str()));
  }
  const std::string prefix = options.stack + ".layers.", suffix = site_suffix(options);
  std::map<std::int64_t, Tensor> values;  // of the clean run, by layer
  PatchResult result;
  {
    Taps taps;
    taps.listen(prefix + "*" + suffix, [&](const std::string& name, Tensor& value) {
      if (const auto layer = inspect::layer_of_tap(name, prefix, suffix)) values[*layer] = value.clone();
    });
    result.clean = metric_of(model, clean, options, &taps);
    taps.require_all_fired();
  }
  result.corrupted = metric_of(model, corrupted, options, nullptr);
  if (result.clean == result.corrupted)
    throw Error("patch: expected texts with different logit differences, got " +
                std::to_string(result.clean) + " for both");
  std::int64_t done = 0, total = 0;
  for (const auto& [layer, value] : values) total += value.size(1);
  for (const auto& [layer, value] : values) {
    result.layers.push_back(layer);
    std::vector<double>& row = result.patched.emplace_back();
    for (std::int64_t i = 0; i < value.size(1); ++i) {  // a position or a head
      TapSelection selection;
      if (options.site == PatchSite::heads) {
        selection.heads = {i};
      } else {
        selection.queries = {i, i + 1};
      }
      Taps taps;
      taps.listen(prefix + std::to_string(layer) + suffix, selection, replace_by(slice(value, 1, i, i + 1)));
      row.push_back(metric_of(model, corrupted, options, &taps));
      if (options.progress) options.progress(++done, total);
    }
  }
  return result;
}

}  // namespace heed
