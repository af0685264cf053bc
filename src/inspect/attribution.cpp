// What input tokens add to an output, by gradients with respect to their embeddings and by replacing them.
#include "heed/inspect/attribution.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/models/kind.h"
#include "heed/nn/tap.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "inspect/measured_run.h"
#include "inspect/taps.h"

namespace heed {
namespace {

using ByStack = std::map<std::string, Tensor>;  // [R, T, E] of each stack

std::string lookup_tap(const std::string& stack) { return stack + ".embed.lookup"; }

class AttributedInput {
 public:
  AttributedInput(const Model& model, const MeasuredInput& input, const InputAttributionOptions& options)
      : model_(model), input_(input), options_(options) {
    check();
    embeddings_ = lookups(input_);
    for (const auto& [stack, x] : embeddings_) baseline_[stack] = Tensor::zeros(x.shape(), x.dtype());
    if (!options.baseline) return;
    MeasuredInput replaced = input_;
    for (const auto& [stack, name] : ids_)
      replaced.inputs[name] =
          Tensor::full(input_.inputs.at(name).shape(), static_cast<double>(*options.baseline), DType::i64);
    baseline_ = lookups(replaced);
  }

  InputAttribution attribute() {
    const NoGradients guard;
    InputAttribution result{.value = measured(embeddings_).front(),
                            .baseline_value = measured(baseline_).front()};
    for (const auto& [stack, name] : ids_)
      result.stacks.push_back({stack, options_.method == InputMethod::occlusion
                                          ? occluded(stack, result.value)
                                          : std::vector<double>()});
    if (options_.method == InputMethod::occlusion) return result;
    const bool integrates = options_.method == InputMethod::integrated;
    for (std::int64_t steps = integrates ? options_.steps : 1;;) {
      const std::map<std::string, std::vector<double>> sums = along_gradients(steps);
      for (TokenAttributions& stack : result.stacks) stack.values = sums.at(stack.stack);
      result.steps = steps;
      if (!integrates || result.is_complete() || steps >= options_.max_steps) return result;
      steps = std::min(2 * steps, options_.max_steps);
    }
  }

 private:
  void check() {
    const auto fail = [&](const std::string& text) { throw Error("attribute: " + text); };
    if (model_.input().kind != InputKind::tokens)
      fail("expected a model that reads tokens, got " + model_.family());
    visit(
        model_,
        [this](const EncoderModel& encoder) {
          ids_ = {{encoder.stack_name(), "input_ids"}};
        },
        [this](const EncoderDecoderModel&) {
          ids_ = {{"encoder", "input_ids"}, {"decoder", "decoder_input_ids"}};
        },
        [this](const Model&) {
          ids_ = {{"decoder", "input_ids"}};
        });
    for (const auto& [stack, name] : ids_) {
      if (model_.stack_named(stack) == nullptr)
        fail("expected a model with layers of attention, got " + model_.family());
      const auto found = input_.inputs.find(name);
      if (found == input_.inputs.end()) fail("expected " + name + ", got none");
      if (found->second.rank() != 2 || found->second.size(0) != 1)
        fail("expected " + name + " of one row, got " + found->second.str());
    }
    if (input_.metric.kind == MetricKind::kl) fail("expected a metric of one run, got the KL divergence");
    inspect::check_metric(model_, input_, "attribute");
    if (options_.steps < 1) fail("expected at least one step, got " + std::to_string(options_.steps));
    if (options_.baseline && (*options_.baseline < 0 || *options_.baseline >= model_.vocab_size()))
      fail("expected a baseline below " + std::to_string(model_.vocab_size()) + ", got " +
           std::to_string(*options_.baseline));
  }

  // What the tables give for an input.
  ByStack lookups(const MeasuredInput& input) const {
    const NoGradients guard;
    ByStack found;
    Taps taps;
    for (const auto& [stack, name] : ids_)
      taps.listen(lookup_tap(stack), [&found, stack = stack](const std::string&, Tensor& value) {
        found[stack] = value.clone();
      });
    const inspect::RunRow row{&input};
    inspect::run_measured(model_, {&row, 1}, &taps);
    taps.require_all_fired();
    return found;
  }

  // The metric of each row, f64 [R], of a model that reads these embeddings.
  Tensor run(const ByStack& given) const {
    const std::vector<inspect::RunRow> rows(static_cast<std::size_t>(given.begin()->second.size(0)),
                                            inspect::RunRow{&input_});
    Taps taps;
    for (const auto& [stack, x] : given) taps.listen(lookup_tap(stack), replace_by(x));
    return inspect::run_measured(model_, rows, &taps);
  }
  std::vector<double> measured(const ByStack& given) const { return inspect::numbers(run(given)); }

  std::int64_t rows_at_once() const {
    std::int64_t tokens = 0;
    for (const auto& [stack, x] : embeddings_) tokens += x.size(1);
    return inspect::rows_at_once(tokens);
  }
  void advance(std::int64_t rows, std::int64_t total) {
    done_ += rows;
    if (options_.progress) options_.progress(done_, total);
  }

  std::vector<double> occluded(const std::string& stack, double value) {
    const std::int64_t count = embeddings_.at(stack).size(1);
    std::int64_t total = 0;
    for (const auto& [name, x] : embeddings_) total += x.size(1);
    std::vector<double> falls;
    for (std::int64_t begin = 0; begin < count; begin += rows_at_once()) {
      const std::int64_t rows = std::min(count - begin, rows_at_once());
      ByStack given;
      for (const auto& [name, x] : embeddings_) {
        Tensor keeps = Tensor::full({rows, x.size(1), 1}, 1.0, x.dtype());
        if (name == stack) {
          for (std::int64_t r = 0; r < rows; ++r)
            slice(slice(keeps, 0, r, r + 1), 1, begin + r, begin + r + 1)
                .copy_from(Tensor::zeros({1, 1, 1}, x.dtype()));
        }
        given[name] = x * keeps + baseline_.at(name) * (keeps * -1.0 + 1.0);
      }
      for (const double changed : measured(given)) falls.push_back(value - changed);
      advance(rows, total);
    }
    return falls;
  }

  // The difference from the baseline times the mean of the gradients between it and the input; of the method
  // `gradient`, times that at the input.
  std::map<std::string, std::vector<double>> along_gradients(std::int64_t steps) {
    const bool integrates = options_.method == InputMethod::integrated;
    const std::int64_t total = done_ + steps;
    std::map<std::string, std::vector<double>> sums;
    for (const auto& [stack, x] : embeddings_) sums[stack].resize(static_cast<std::size_t>(x.size(1)));
    for (std::int64_t begin = 0; begin < steps; begin += rows_at_once()) {
      const std::int64_t rows = std::min(steps - begin, rows_at_once());
      std::vector<float> parts;
      for (std::int64_t r = 0; r < rows; ++r)
        parts.push_back(integrates ? (static_cast<float>(begin + r) + 0.5F) / static_cast<float>(steps)
                                   : 1.0F);
      ByStack given;
      for (const auto& [stack, x] : embeddings_) {
        const Tensor part = Tensor::from(parts, {rows, 1, 1}).to(x.dtype());
        given[stack] = baseline_.at(stack) + (x - baseline_.at(stack)) * part;
      }
      for (const auto& [stack, gradient] : gradients(given)) {
        const Tensor change = (embeddings_.at(stack) - baseline_.at(stack)).to(DType::f64);
        const std::vector<double> added = inspect::numbers(sum(sum(change * gradient.to(DType::f64), 2), 0));
        for (std::size_t t = 0; t < added.size(); ++t)
          sums[stack][t] += added[t] / static_cast<double>(steps);
      }
      advance(rows, total);
    }
    return sums;
  }

  ByStack gradients(const ByStack& at) const {
    const RecordGradients guard;
    ByStack leaves, result;
    for (const auto& [stack, x] : at) leaves[stack] = x.detach().clone().set_requires_grad();
    const Tensor metric = run(leaves);
    metric.backward(Tensor::full(metric.shape(), 1.0, metric.dtype()));
    for (const Parameter& parameter : model_.parameters()) parameter.tensor.zero_grad();
    for (const auto& [stack, leaf] : leaves) {
      const Tensor gradient = leaf.grad();
      result[stack] = gradient.defined() ? gradient : Tensor::zeros(leaf.shape(), leaf.dtype());
    }
    return result;
  }

  const Model& model_;
  const MeasuredInput& input_;
  const InputAttributionOptions& options_;
  std::vector<std::pair<std::string, std::string>> ids_;  // stacks, and the inputs that they read
  ByStack embeddings_, baseline_;                         // [1, T, E]
  std::int64_t done_ = 0;
};

}  // namespace

double InputAttribution::sum() const {
  double sum = 0;
  for (const TokenAttributions& stack : stacks) {
    for (const double value : stack.values) sum += value;
  }
  return sum;
}

bool InputAttribution::is_complete() const {
  constexpr double kPart = 0.05, kRounding = 1e-4;  // of f32, where the outputs are nearly equal
  return std::abs(completeness_error()) <=
         kPart * std::abs(value - baseline_value) +
             kRounding * std::max(std::abs(value), std::abs(baseline_value));
}

InputAttribution attribute_input(const Model& model, const MeasuredInput& input,
                                 const InputAttributionOptions& options) {
  return AttributedInput(model, input, options).attribute();
}

}  // namespace heed
