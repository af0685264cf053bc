// Whether outputs are finite, and where they stop being so. Other checks compare outputs only if they are.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "doctor/examination.h"
#include "models/non_finite.h"

namespace heed::doctor {
namespace {

constexpr std::int64_t kRows = 2, kTokens = 32;  // with the ids that the other checks feed
constexpr std::int64_t kLogitTokens = 12;

OutputCount count_of(const std::string& name, const Tensor& output) {
  const std::vector<float> values = output.to(DType::f32).to_vector<float>();
  return {name,
          std::ssize(values),
          std::count_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); }),
          {}};
}

// The first part or layer, in the order in which they run, whose output has a NaN or an infinity.
std::string first_non_finite_part(const Pathway& pathway, const Tensor& ids) {
  if (!pathway.is_stack()) return {};
  std::string first;
  const auto look = [&](const std::string& name, Tensor& value) {
    if (first.empty() && first_non_finite(value)) first = name;
  };
  Taps taps;
  taps.listen(pathway.name + ".embed", look);
  taps.listen(pathway.name + ".layers.*.out", look);
  Context context;
  context.taps = &taps;
  pathway(ids, context);
  return first;
}

}  // namespace

const std::vector<OutputCount>& Examination::outputs() {
  if (outputs_) return *outputs_;
  outputs_.emplace();
  for (const Pathway& pathway : pathways()) {
    const Tensor rows = ids(pathway.tokens ? kRows : 1, length(kTokens));
    OutputCount count = count_of(pathway.name, pathway(rows));
    if (count.non_finite > 0) count.first = first_non_finite_part(pathway, rows);
    outputs_->push_back(count);
  }
  if (decodes()) {
    const Tensor logits = full_logits(ids(1, length(kLogitTokens)));
    if (logits.defined()) outputs_->push_back(count_of("logits", logits));
  }
  return *outputs_;
}

bool Examination::is_finite() {
  return std::all_of(outputs().begin(), outputs().end(),
                     [](const OutputCount& count) { return count.non_finite == 0; });
}

Finding check_outputs_finite(Examination& e) {
  Finding total;
  for (const OutputCount& count : e.outputs()) {
    Finding found{.measurement =
                      fmt::format("{} outputs, {} of them not finite", count.outputs, count.non_finite)};
    if (count.non_finite > 0) {
      found.status = CheckStatus::failed;
      if (!count.first.empty()) found.measurement += ", from " + count.first + " on";
      const std::optional<std::string> weight = first_non_finite_weight(e.model());
      found.advice = weight ? *weight + ": correct this weight, or take an earlier checkpoint"
                            : "all weights are finite, so numbers overflow: look at the norms of weights and "
                              "at the settings of norms and scales";
    }
    add(total, count.name, found);
  }
  return total.measurement.empty() ? skip("the model's inputs are not known without its config.json") : total;
}

}  // namespace heed::doctor
