// The formulas of training on preferences: TRL's losses and rewards of given log-probabilities.
#include "train/tasks/preference_loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "heed/ops/reduce.h"
#include "reference/gradient_check.h"
#include "reference/json.h"

namespace heed {
namespace {

using Numbers = std::vector<double>;

const nlohmann::json& expected() {
  static const nlohmann::json all = read_json(HEED_FIXTURES "/train/preferences/expected.json");
  return all;
}

Recipe::Task settings(const nlohmann::json& of) {
  Recipe::Task task;
  task.loss = of.at("loss");
  task.beta = of.value("beta", 0.0);
  task.gamma = of.value("gamma", 0.0);
  task.lambda = of.value("lambda", 0.0);
  return task;
}

Tensor of_pairs(const nlohmann::json& numbers) { return Tensor::from(numbers.get<Numbers>(), {6}); }

AnswerLogps answers(const nlohmann::json& of, const std::string& side) {
  Numbers tokens;
  for (std::size_t i = side == "chosen" ? 0 : 1; i < 12; i += 2) tokens.push_back(of.at("answer_lengths")[i]);
  AnswerLogps result{.policy = of_pairs(of.at(side + "_logps")), .tokens = Tensor::from(tokens, {6})};
  if (of.contains("ref_" + side + "_logps")) result.reference = of_pairs(of.at("ref_" + side + "_logps"));
  return result;
}

TEST(PreferenceLoss, EqualsTrl) {
  for (const auto& entry : expected().items()) {
    SCOPED_TRACE(entry.key());
    const nlohmann::json& of = entry.value();
    const double smoothing = of.at("settings").value("label_smoothing", 0.0);
    const PreferenceLoss loss = preference_loss(settings(of.at("settings")), smoothing, answers(of, "chosen"),
                                                answers(of, "rejected"));
    // The numbers of f32 sums of up to 300 nats, times beta.
    const auto near = [&](const Tensor& got, const char* key) {
      const Numbers wanted = of.at(key);
      for (std::size_t i = 0; i < 6; ++i)
        EXPECT_NEAR(got.data<double>()[i], wanted[i], 1e-5 * std::max(1.0, std::abs(wanted[i])))
            << key << " " << i;
    };
    near(loss.losses, of.contains("pair_losses") ? "pair_losses" : "log_odds_losses");
    near(loss.chosen_rewards, "chosen_rewards");
    near(loss.rejected_rewards, "rejected_rewards");
  }
}

TEST(PreferenceLoss, BeginsWhereTheReferenceIs) {
  const Tensor logps = of_pairs({-1, -20, -3, -4, -5, -60}), tokens = of_pairs({1, 2, 3, 4, 5, 6});
  const AnswerLogps both{logps, logps, tokens};
  for (const double item :
       preference_loss({.loss = "dpo", .beta = 0.3}, 0.2, both, both).losses.to_vector<double>())
    EXPECT_NEAR(item, std::log(2), 1e-12);
  for (const double item :
       preference_loss({.loss = "ipo", .beta = 0.5}, 0, both, both).losses.to_vector<double>())
    EXPECT_NEAR(item, 1, 1e-12);
}

TEST(PreferenceLoss, HasGradientsThatAreFiniteFarAway) {
  const Tensor tokens = of_pairs({1, 2, 3, 4, 5, 6}), reference = of_pairs({-1, -2, -3, -4, -5, -6});
  for (const char* name : {"dpo", "ipo", "simpo", "orpo"}) {
    SCOPED_TRACE(name);
    const bool compares = has_reference(name);
    const auto loss = [&](const Tensor& chosen, const Tensor& rejected) {
      const Tensor none = compares ? reference : Tensor();
      return sum(preference_loss({.loss = name, .beta = 0.7, .gamma = 0.4, .lambda = 0.3}, 0.1,
                                 {chosen, none, tokens}, {rejected, none, tokens})
                     .losses);
    };
    reference::check_gradients([&](const auto& in) { return loss(in[0], in[1]); },
                               {of_pairs({-3, -1, -0.1, -7, -2, -5}), of_pairs({-1, -4, -0.3, -2, -9, -5})});
    // Answers that are certain, and others that are nearly impossible.
    Tensor certain = Tensor::zeros({6}, DType::f64), impossible = Tensor::full({6}, -1e4, DType::f64);
    for (Tensor* side : {&certain, &impossible}) side->set_requires_grad();
    for (const auto& [chosen, rejected] : {std::pair(certain, impossible), std::pair(impossible, certain)}) {
      const Tensor far = loss(chosen, rejected);
      EXPECT_TRUE(std::isfinite(far.item()));
      far.backward();
      EXPECT_TRUE(all_finite(certain.grad()) && all_finite(impossible.grad()));
    }
  }
}

}  // namespace
}  // namespace heed
