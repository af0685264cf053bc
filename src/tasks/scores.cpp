// Softmax and the largest scores.
#include "tasks/scores.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "heed/error.h"

namespace heed::tasks {
namespace {

const char* head_name(EncoderHead head) {
  switch (head) {
    case EncoderHead::none: return "no head";
    case EncoderHead::masked_lm: return "a head for masked tokens";
    case EncoderHead::sequence: return "a head for labels of texts";
    case EncoderHead::token: return "a head for labels of tokens";
    case EncoderHead::span: return "a head for answers";
    case EncoderHead::ctc: return "a head for the letters of speech";
  }
  HEED_ASSERT(false, "unknown head");
}

}  // namespace

void require_head(const EncoderModel& model, EncoderHead wanted, const char* task) {
  if (model.head() == wanted) return;
  throw Error(std::string(task) + ": expected a model with " + head_name(wanted) + ", got one with " +
              head_name(model.head()));
}

void throw_not_finite() {
  throw Error(
      "model: expected it to put out numbers, got NaN or infinity (its weights or dtype are at fault)");
}

std::vector<double> log_softmax(std::span<const float> logits) {
  const double highest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - highest);
  if (std::isnan(sum)) throw_not_finite();  // NaN or +inf among the logits, or all are -inf
  std::vector<double> scores;
  scores.reserve(logits.size());
  for (const float x : logits) scores.push_back(static_cast<double>(x) - highest - std::log(sum));
  return scores;
}

std::vector<double> softmax(std::span<const float> logits) {
  std::vector<double> scores = log_softmax(logits);
  for (double& score : scores) score = std::exp(score);
  return scores;
}

std::vector<std::size_t> largest(std::span<const double> scores, std::size_t count) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  count = std::min(count, order.size());
  const auto middle = order.begin() + static_cast<std::ptrdiff_t>(count);
  std::partial_sort(order.begin(), middle, order.end(), [&](std::size_t a, std::size_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  });
  order.resize(count);
  return order;
}

}  // namespace heed::tasks
