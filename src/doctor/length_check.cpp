// The loss by position, within the trained length and beyond it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "doctor/checks.h"
#include "heed/error.h"
#include "heed/ops/shape.h"

namespace heed::doctor {
namespace {

constexpr double kWork = 2e11;  // products of one run: some ten seconds of a slow core
constexpr std::int64_t kLongest = 2048;
constexpr double kRise = 0.5;       // nats beyond the trained length that are worth a warning
constexpr std::int64_t kParts = 4;  // of the trained length

// -log p of the labels [T] by logits [T, V].
std::vector<double> losses(const Tensor& logits, const std::vector<std::int64_t>& labels) {
  const Tensor dense = logits.to(DType::f32).contiguous();
  const std::int64_t vocabulary = dense.size(1);
  std::vector<double> all;
  const float* row = dense.data<float>();
  for (const std::int64_t label : labels) {
    const float largest = *std::max_element(row, row + vocabulary);
    double sum = 0;
    for (std::int64_t v = 0; v < vocabulary; ++v) sum += static_cast<double>(std::exp(row[v] - largest));
    all.push_back(std::log(sum) + static_cast<double>(largest - row[label]));
    row += vocabulary;
  }
  return all;
}

struct Window {
  std::int64_t trained = 0;  // positions within the trained length
  std::int64_t length = 0;   // of a window, with those beyond
  std::int64_t count = 0;
};

Window choose_window(Examination& e, std::int64_t tokens) {
  std::int64_t parameters = 1;
  for (const Parameter& p : e.model().parameters()) parameters += p.tensor.numel();
  const auto budget =
      std::max<std::int64_t>(64, static_cast<std::int64_t>(kWork / static_cast<double>(parameters)));
  const std::int64_t trained = trained_length(e.model(), *e.tokenizer()).value_or(kLongest);
  const std::int64_t most = std::min({tokens - 1, budget, e.length(kLongest + kLongest / 2)});
  Window w{.trained = std::min({trained, most, kLongest})};
  w.length = trained > w.trained ? w.trained : std::min(most, trained + trained / 2);
  w.count = std::clamp<std::int64_t>(std::min(budget / w.length, (tokens - 1) / w.length), 1, 8);
  return w;
}

// The mean loss at each position of the windows.
std::vector<double> loss_by_position(const DecoderModel& model, const std::vector<std::int64_t>& ids,
                                     const Window& w) {
  std::vector<double> mean(static_cast<std::size_t>(w.length), 0.0);
  for (std::int64_t i = 0; i < w.count; ++i) {
    const auto begin = ids.begin() + i * w.length;
    const std::vector<std::int64_t> fed(begin, begin + w.length), labels(begin + 1, begin + w.length + 1);
    Context context;
    const TensorMap outputs = model.forward({{"input_ids", Tensor::from(fed, {1, w.length})}}, {}, context);
    const Tensor& logits = outputs.at("logits");
    const std::vector<double> loss = losses(reshape(logits, {logits.size(1), logits.size(2)}), labels);
    for (std::size_t t = 0; t < mean.size(); ++t) mean[t] += loss[t] / static_cast<double>(w.count);
  }
  return mean;
}

double mean_of(const std::vector<double>& all, std::int64_t begin, std::int64_t end) {
  double sum = 0;
  for (std::int64_t i = begin; i < end; ++i) sum += all[static_cast<std::size_t>(i)];
  return sum / static_cast<double>(end - begin);
}

}  // namespace

Finding check_lengths(Examination& e) {
  const auto* decoder = dynamic_cast<const DecoderModel*>(&e.model());
  if (decoder == nullptr) return skip("the model does not continue text");
  if (!e.full_logits(e.ids(1, 1)).defined()) return skip("the model has no output map");
  const std::vector<std::int64_t> ids = e.tokenizer()->encode(e.checked.text, false).ids;
  if (static_cast<std::int64_t>(ids.size()) < 2 * kParts)
    return skip(fmt::format("the text has {} tokens", ids.size()));
  for (const std::int64_t id : ids) {
    if (id >= e.model().vocab_size())
      return {CheckStatus::failed, fmt::format("the text has token {}, outside the vocabulary", id),
              "take the tokenizer that the model was trained with"};
  }
  const Window w = choose_window(e, static_cast<std::int64_t>(ids.size()));
  const std::vector<double> loss = loss_by_position(*decoder, ids, w);
  Finding found;
  double last = 0;
  for (std::int64_t part = 0; part < kParts; ++part) {
    const std::int64_t begin = part * w.trained / kParts, end = (part + 1) * w.trained / kParts;
    if (begin == end) continue;
    last = mean_of(loss, begin, end);
    found.figure += fmt::format("{}{:.2f} at {} to {}", part == 0 ? "loss " : ", ", last, begin + 1, end);
    found.values.emplace_back(fmt::format("{}-{}", begin + 1, end), last);
  }
  const double mean = mean_of(loss, 0, w.trained);
  const double chance = std::log(static_cast<double>(e.model().vocab_size()));
  if (mean > chance) {
    found.status = CheckStatus::warning;
    found.figure += fmt::format("; guessing would lose {:.2f}", chance);
    found.advice = "the model is not trained, or the tokenizer is that of another";
  }
  if (w.length == w.trained) return found;
  const double beyond = mean_of(loss, w.trained, w.length);
  found.figure += fmt::format(", {:.2f} beyond the trained length, to {}", beyond, w.length);
  found.values.emplace_back("beyond", beyond);
  if (beyond <= last + kRise) return found;
  found.status = CheckStatus::warning;
  found.advice = fmt::format("keep texts within {} tokens, or train with longer ones", w.trained);
  return found;
}

}  // namespace heed::doctor
