// Runs with values of another run, and gradients in their place.
#include "heed/inspect/patching.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/shape.h"
#include "inspect/measured_run.h"
#include "inspect/taps.h"

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

// Both runs, and the values of the clean one at the site.
class PatchedRuns {
 public:
  PatchedRuns(const Model& model, const TensorMap& clean, const TensorMap& corrupted,
              const PatchOptions& options)
      : model_(model),
        options_(options),
        clean_{clean, options.metric},
        corrupted_{corrupted, options.metric},
        prefix_(options.stack + ".layers."),
        suffix_(site_suffix(options)) {
    inspect::check_same_shapes(clean, corrupted, "patch");
    inspect::check_metric(model, clean_, "patch");
    Taps taps;
    taps.listen(prefix_ + "*" + suffix_, [&](const std::string& name, Tensor& value) {
      if (const auto layer = inspect::layer_of_tap(name, prefix_, suffix_)) values_[*layer] = value.clone();
    });
    const NoGradients guard;
    inspect::RunRow row{&clean_};
    if (options.metric.kind == MetricKind::kl)
      reference_ = inspect::log_probabilities(model, {&row, 1}).front();
    row.reference = reference_;
    result_.clean = inspect::numbers(inspect::run_measured(model, {&row, 1}, &taps)).front();
    taps.require_all_fired();
    for (const auto& [layer, value] : values_) {
      result_.layers.push_back(layer);
      result_.patched.emplace_back(static_cast<std::size_t>(value.size(1)));
    }
  }

  PatchResult patch() {
    const NoGradients guard;
    Taps taps;
    inspect::LayerInputs layers;
    layers.listen(model_, taps);
    result_.corrupted = run(1, &taps).front();
    inspect::check_metrics_differ(result_.clean, result_.corrupted, "patch");
    std::int64_t done = 0, total = 0;
    for (const auto& row : result_.patched) total += std::ssize(row);
    for (std::size_t r = 0; r < result_.layers.size(); ++r) {
      std::vector<double>& row = result_.patched[r];
      const std::int64_t most = inspect::rows_at_once(inspect::positions_of(corrupted_.inputs));
      for (std::int64_t begin = 0; begin < std::ssize(row); begin += most) {
        const std::int64_t end = std::min(std::ssize(row), begin + most);
        patch_layer(layers, result_.layers[r], begin, end, row);
        done += end - begin;
        if (options_.progress) options_.progress(done, total);
      }
    }
    return result_;
  }

  PatchResult attribute() {
    std::map<std::int64_t, Tensor> offsets, values;  // zeros that have the gradients of values
    Taps taps;
    taps.listen(prefix_ + "*" + suffix_, [&](const std::string& name, Tensor& value) {
      const auto layer = inspect::layer_of_tap(name, prefix_, suffix_);
      if (!layer) return;
      values[*layer] = value.detach().clone();
      offsets[*layer] = Tensor::zeros(value.shape(), value.dtype()).set_requires_grad();
      value = value + offsets[*layer];
    });
    const inspect::RunRow row{&corrupted_, reference_};
    const Tensor metric = inspect::run_measured(model_, {&row, 1}, &taps);
    result_.corrupted = inspect::numbers(metric).front();
    inspect::check_metrics_differ(result_.clean, result_.corrupted, "patch");
    metric.backward(Tensor::full(metric.shape(), 1.0, metric.dtype()));
    for (const Parameter& parameter : model_.parameters()) parameter.tensor.zero_grad();
    const NoGradients guard;
    for (std::size_t r = 0; r < result_.layers.size(); ++r) {
      const std::int64_t layer = result_.layers[r];
      const Tensor gradient = offsets.at(layer).grad();
      const Tensor change = gradient.defined() ? (values_.at(layer) - values.at(layer)) * gradient
                                               : Tensor::zeros(values_.at(layer).shape());
      const std::vector<double> all = inspect::numbers(change);
      std::vector<double>& cells = result_.patched[r];
      const std::size_t each = all.size() / cells.size();
      std::fill(cells.begin(), cells.end(), result_.corrupted);
      for (std::size_t i = 0; i < all.size(); ++i) cells[i / each] += all[i];
    }
    return result_;
  }

 private:
  std::vector<double> run(std::int64_t count, Taps* taps) const {
    const std::vector<inspect::RunRow> rows(static_cast<std::size_t>(count),
                                            inspect::RunRow{&corrupted_, reference_});
    return inspect::numbers(inspect::run_measured(model_, rows, taps));
  }

  // Positions or heads `begin` to `end`, each in a row of its own.
  void patch_layer(const inspect::LayerInputs& layers, std::int64_t layer, std::int64_t begin,
                   std::int64_t end, std::vector<double>& row) const {
    const Tensor& clean = values_.at(layer);
    Taps taps;
    taps.listen(prefix_ + std::to_string(layer) + suffix_, [&](const std::string&, Tensor& value) {
      value = value.clone();
      for (std::int64_t i = begin; i < end; ++i)
        slice(slice(value, 0, i - begin, i - begin + 1), 1, i, i + 1).copy_from(slice(clean, 1, i, i + 1));
    });
    const auto resumed = layers.resume(options_.stack, layer,
                                       std::vector<std::int64_t>(static_cast<std::size_t>(end - begin)));
    const std::vector<double> values = run(end - begin, &taps);
    std::copy(values.begin(), values.end(), row.begin() + begin);
  }

  const Model& model_;
  const PatchOptions& options_;
  MeasuredInput clean_, corrupted_;
  std::string prefix_, suffix_;
  std::map<std::int64_t, Tensor> values_;  // of the clean run, by layer
  Tensor reference_;
  PatchResult result_;
};

}  // namespace

double PatchResult::effect(std::size_t row, std::size_t column) const {
  return (patched[row][column] - corrupted) / (clean - corrupted);
}

PatchResult patch_activations(const Model& model, const TensorMap& clean, const TensorMap& corrupted,
                              const PatchOptions& options) {
  return PatchedRuns(model, clean, corrupted, options).patch();
}

PatchResult attribute_patches(const Model& model, const TensorMap& clean, const TensorMap& corrupted,
                              const PatchOptions& options) {
  return PatchedRuns(model, clean, corrupted, options).attribute();
}

PatchAgreement agreement_of(const PatchResult& estimated, const PatchResult& patched) {
  PatchAgreement agreement;
  double n = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0;
  for (std::size_t r = 0; r < patched.patched.size(); ++r) {
    for (std::size_t c = 0; c < patched.patched[r].size(); ++c) {
      const double a = estimated.effect(r, c), b = patched.effect(r, c);
      agreement.largest = std::max(agreement.largest, std::abs(a - b));
      n += 1, x += a, y += b, xx += a * a, yy += b * b, xy += a * b;
    }
  }
  const double spread = (n * xx - x * x) * (n * yy - y * y);
  if (spread > 0) agreement.correlation = (n * xy - x * y) / std::sqrt(spread);
  return agreement;
}

}  // namespace heed
