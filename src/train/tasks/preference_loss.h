// Losses of training on preferences, from the log-probabilities of two answers to each of P prompts.
#pragma once

#include <string>

#include "heed/tensor.h"
#include "heed/train/recipe.h"

namespace heed {

/// Of one answer to each prompt: tensors f64 [P].
struct AnswerLogps {
  Tensor policy;          ///< log p(answer | prompt), the sum over its tokens
  Tensor reference = {};  ///< the same of the reference; undefined where a loss has none
  Tensor tokens;          ///< of the answer
};

/// Tensors f64 [P].
struct PreferenceLoss {
  Tensor losses;
  Tensor chosen_rewards, rejected_rewards;
};

/// With c and r the log-probabilities of the chosen and the rejected answer, divided by those of the
/// reference (as logarithms: less them), m their means over tokens, s = sigmoid and e = `label_smoothing`:
///   dpo:   -(1 - e) log s(d) - e log s(-d),  d = beta (c - r);   rewards beta c, beta r
///   ipo:   (m(c) - m(r) - 1 / (2 beta))^2;                       rewards beta c, beta r
/// and without a reference
///   simpo: -(1 - e) log s(d) - e log s(-d),  d = beta (m(c) - m(r)) - gamma;   rewards beta m(c), beta m(r)
///   orpo:  -lambda log s(o(c) - o(r)),  o = m - log(1 - exp(m));               rewards lambda m(c), lambda
///   m(r)
/// ORPO's cross-entropy of prompt and chosen answer is not in it. Rafailov et al. 2023, "Direct Preference
/// Optimization", equation 7, and with e Mitchell 2023, "A note on DPO with noisy preferences"; Azar et al.
/// 2023, "A general theoretical paradigm to understand learning from human preferences", equation 17, with
/// means over tokens as TRL takes them; Meng et al. 2024, "SimPO", equation 6; Hong et al. 2024, "ORPO",
/// equation 7.
PreferenceLoss preference_loss(const Recipe::Task& task, double label_smoothing, const AnswerLogps& chosen,
                               const AnswerLogps& rejected);

/// Whether task.loss compares with a reference.
bool has_reference(const std::string& loss);

}  // namespace heed
