// DPO, IPO, SimPO and the odds ratio of ORPO.
#include "train/tasks/preference_loss.h"

#include "heed/ops/elementwise.h"
#include "ops/softplus.h"

namespace heed {
namespace {

Tensor negative_log_sigmoid(const Tensor& x) { return softplus(neg(x)); }

Tensor smoothed(const Tensor& margin, double smoothing) {
  const Tensor loss = negative_log_sigmoid(margin) * (1 - smoothing);
  return smoothing > 0 ? loss + negative_log_sigmoid(neg(margin)) * smoothing : loss;
}

// log(p / (1 - p)). An answer whose tokens are all certain has finite odds.
Tensor log_odds(const Tensor& logp) {
  constexpr double kLeast = 1e-12;
  return logp - log(neg(exp(logp)) + (1.0 + kLeast));
}

Tensor log_ratio(const AnswerLogps& answer) {
  return answer.reference.defined() ? answer.policy - answer.reference : answer.policy;
}

}  // namespace

PreferenceLoss preference_loss(const Recipe::Task& task, double label_smoothing, const AnswerLogps& chosen,
                               const AnswerLogps& rejected) {
  const Tensor sum_c = log_ratio(chosen), sum_r = log_ratio(rejected);
  const bool means = task.loss != "dpo";
  const Tensor c = means ? sum_c / chosen.tokens : sum_c, r = means ? sum_r / rejected.tokens : sum_r;
  PreferenceLoss result;
  double reward = task.beta;
  if (task.loss == "ipo") {
    const Tensor distance = c - r - 1 / (2 * task.beta);
    result.losses = distance * distance;
  } else if (task.loss == "orpo") {
    reward = task.lambda;
    result.losses = negative_log_sigmoid(log_odds(c) - log_odds(r)) * task.lambda;
  } else {
    const double margin = task.loss == "simpo" ? task.gamma : 0;
    result.losses = smoothed((c - r) * task.beta - margin, label_smoothing);
  }
  const bool compares = has_reference(task.loss);
  result.chosen_rewards = (compares ? sum_c : c).detach() * reward;
  result.rejected_rewards = (compares ? sum_r : r).detach() * reward;
  return result;
}

bool has_reference(const std::string& loss) { return loss == "dpo" || loss == "ipo"; }

}  // namespace heed
