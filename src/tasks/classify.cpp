// Labels of whole texts.
#include "heed/tasks/classify.h"

#include <cmath>

#include "heed/text/tokenizer.h"
#include "tasks/scores.h"

namespace heed {
namespace {

std::vector<double> label_scores(std::span<const float> logits, LabelFunction function) {
  if (function == LabelFunction::softmax) return tasks::softmax(logits);
  std::vector<double> scores;
  for (const float logit : logits) {
    const double x = static_cast<double>(logit);
    if (std::isnan(x)) tasks::throw_not_finite();
    scores.push_back(function == LabelFunction::none ? x : 1.0 / (1.0 + std::exp(-x)));
  }
  return scores;
}

}  // namespace

LabelFunction label_function(const EncoderModel& model) {
  if (const std::optional<Activation> given = model.score_activation(); given && model.labels().size() == 1)
    return *given == Activation::sigmoid ? LabelFunction::sigmoid : LabelFunction::none;
  if (model.problem() == LabelProblem::regression) return LabelFunction::none;
  if (model.problem() == LabelProblem::multi_label || model.labels().size() == 1)
    return LabelFunction::sigmoid;
  return LabelFunction::softmax;
}

std::vector<std::vector<LabelScore>> classify(const EncoderModel& model, const Tokenizer& tokenizer,
                                              std::span<const TextPair> texts, std::int64_t top_k,
                                              const TaskOptions& options) {
  tasks::require_head(model, EncoderHead::sequence, "classify");
  const std::int64_t longest = longest_input(model, tokenizer);
  const std::size_t labels = model.labels().size();
  std::vector<Encoding> encodings;
  for (std::size_t i = 0; i < texts.size(); ++i)
    encodings.push_back(encode_cut(tokenizer, texts[i], longest, options, i));
  std::vector<std::vector<LabelScore>> results(texts.size());
  encode_batches(model, encodings, options, [&](std::span<const std::size_t> chosen, const Tensor& hidden) {
    Context context;
    const Tensor mask = padded_batch(encodings, chosen, model.pad_id(), false).mask;
    const std::vector<float> logits = model.predict(hidden, mask, context).to_vector<float>();  // [B, L]
    for (std::size_t b = 0; b < chosen.size(); ++b) {
      const std::vector<double> scores =
          label_scores(std::span(logits).subspan(b * labels, labels), label_function(model));
      const std::size_t count = top_k == 0 ? labels : static_cast<std::size_t>(top_k);
      for (const std::size_t best : tasks::largest(scores, count))
        results[chosen[b]].push_back({best, scores[best]});
    }
  });
  return results;
}

}  // namespace heed
