// Checks of decoding: a cached step equals the full pass, and reordered beams continue what they took over.
#include <fmt/format.h>

#include "doctor/examination.h"
#include "heed/ops/shape.h"

namespace heed::doctor {
namespace {

constexpr std::int64_t kPrompt = 8;
constexpr std::int64_t kSteps = 4;
// Relative to the largest logit. A step and a full pass add the same numbers, in an order that may differ.
constexpr double kStepRounding = 1e-4;

Tensor columns(const Tensor& ids, std::int64_t begin, std::int64_t end) {
  return slice(ids, 1, begin, end).contiguous();
}

// Why the model does not decode; empty if it does.
std::string why_not_decoded(Examination& e) {
  if (!e.decodes()) return "the model does not decode";
  if (e.length(kPrompt + kSteps) < kPrompt + kSteps) return "the model has too few positions";
  return e.full_logits(e.ids(1, 1)).defined() ? "" : "the model has no output map";
}

}  // namespace

Finding check_cache(Examination& e) {
  if (const std::string reason = why_not_decoded(e); !reason.empty()) return skip(reason);
  const Tensor ids = e.ids(1, kPrompt + kSteps);
  const auto decoding = e.decode(1);
  double worst = 0;
  std::int64_t worst_step = 0;
  for (std::int64_t step = 0; step <= kSteps; ++step) {
    Context context;
    const std::int64_t end = kPrompt + step;
    const Tensor cached =
        decoding->step(step == 0 ? columns(ids, 0, end) : columns(ids, end - 1, end), context);
    const double difference = relative_difference(e.full_logits(columns(ids, 0, end)), cached);
    if (difference > worst) {
      worst = difference;
      worst_step = step;
    }
  }
  Finding found{
      .measurement = fmt::format("{} steps differ from the full pass by {} at most", kSteps, percent(worst)),
      .values = {{"difference", worst}}};
  if (worst <= kStepRounding) return found;
  found.status = CheckStatus::failed;
  found.measurement += worst_step == 0 ? ", the prompt already" : fmt::format(", at step {}", worst_step);
  found.advice =
      "look at the positions of the new token and of the keys in the cache, and at whether keys are kept "
      "rotated";
  return found;
}

Finding check_beams(Examination& e) {
  if (const std::string reason = why_not_decoded(e); !reason.empty()) return skip(reason);
  const std::vector<std::int64_t> from{2, 0, 0, 1};
  const auto rows = static_cast<std::int64_t>(from.size());
  const Tensor prompts = e.ids(3, kPrompt), next = e.ids(rows, 1);
  Context context;
  const auto beams = e.decode(3);
  beams->step(prompts, context);
  beams->reorder(from);
  const Tensor continued = beams->step(next, context);
  const auto afresh = e.decode(rows);
  afresh->step(gather(prompts, 0, Tensor::from(from, {rows})), context);
  const double difference = relative_difference(afresh->step(next, context), continued);
  Finding found{
      .measurement = fmt::format("reordered rows differ from decoding afresh by {}", percent(difference)),
      .values = {{"difference", difference}}};
  if (difference <= kStepRounding) return found;
  found.status = CheckStatus::failed;
  found.advice = "what a part remembers is not reordered with its rows (PartState::reorder)";
  return found;
}

}  // namespace heed::doctor
