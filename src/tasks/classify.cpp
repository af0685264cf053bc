// Labels of whole texts and images.
#include "heed/tasks/classify.h"

#include <cmath>

#include "heed/autograd.h"
#include "heed/ops/shape.h"
#include "heed/tasks/embed.h"
#include "heed/text/tokenizer.h"
#include "models/named_tensors.h"
#include "tasks/file_input.h"
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

// Sets the results of the chosen inputs to the `top_k` best labels of logits [B, labels].
void rank_labels(const Tensor& logits, LabelFunction function, std::span<const std::size_t> chosen,
                 std::int64_t top_k, std::vector<std::vector<LabelScore>>& results) {
  const auto labels = static_cast<std::size_t>(logits.size(1));
  const std::size_t count = top_k == 0 ? labels : static_cast<std::size_t>(top_k);
  const std::vector<float> numbers = logits.to_vector<float>();
  for (std::size_t b = 0; b < chosen.size(); ++b) {
    const std::vector<double> scores = label_scores(std::span(numbers).subspan(b * labels, labels), function);
    for (const std::size_t best : tasks::largest(scores, count))
      results[chosen[b]].push_back({best, scores[best]});
  }
}

// The same of the head's logits, for what it reads of the last hidden state.
void predict_labels(const EncoderModel& model, const Tensor& hidden, const Tensor& mask,
                    std::span<const std::size_t> chosen, std::int64_t top_k,
                    std::vector<std::vector<LabelScore>>& results) {
  Context context;
  rank_labels(model.predict(hidden, mask, context), label_function(model), chosen, top_k, results);
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
  std::vector<Encoding> encodings;
  for (std::size_t i = 0; i < texts.size(); ++i)
    encodings.push_back(encode_cut(tokenizer, texts[i], longest, options, i));
  std::vector<std::vector<LabelScore>> results(texts.size());
  encode_batches(model, encodings, options, [&](std::span<const std::size_t> chosen, const Tensor& hidden) {
    const Tensor mask = padded_batch(encodings, chosen, model.pad_id(), false).mask;
    predict_labels(model, hidden, mask, chosen, top_k, results);
  });
  return results;
}

std::vector<std::vector<LabelScore>> classify_images(const EncoderModel& model,
                                                     const ImageProcessor& processor,
                                                     std::span<const std::string> files, std::int64_t top_k,
                                                     const TaskOptions& options) {
  tasks::require_head(model, EncoderHead::sequence, "classify");
  const NoGradients guard;
  Context context{.stop = options.stop};
  std::vector<std::vector<LabelScore>> results(files.size());
  tasks::for_each_image_batch(
      {model.input(), model.trained_positions().value_or(1)}, processor, files, options, "classify",
      [&](std::span<const std::size_t> chosen, const ModelInput& images) {
        predict_labels(model, model.encode_for_head(images, context), {}, chosen, top_k, results);
      });
  return results;
}

std::vector<std::vector<LabelScore>> classify_sounds(const EncoderModel& model,
                                                     const SoundProcessor& processor,
                                                     std::span<const std::string> files, std::int64_t top_k,
                                                     const TaskOptions& options) {
  tasks::require_head(model, EncoderHead::sequence, "classify");
  const InputSpec spec = model.input();
  if (!spec.is_sound())
    throw Error(std::string("classify: expected a model of sounds, got one of ") + spec.name);
  const NoGradients guard;
  Context context{.stop = options.stop};
  const tasks::FileProcessor reader{.sound = processor};
  std::vector<std::vector<LabelScore>> results(files.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    TensorMap heard;
    try {
      const auto on_warning = [&](const std::string& message) { options.warn(i, message); };
      heard = tasks::file_input(spec, reader, files[i], on_warning).tensors;
    } catch (const Error& error) {
      if (!options.on_error) throw;  // it names the file
      options.fail("classify", i, error.what());
      continue;
    }
    const Tensor hidden = model.encode_for_head(values_input(heard, spec, {}), context);
    predict_labels(model, hidden, {}, std::span(&i, 1), top_k, results);
  }
  return results;
}

std::vector<std::vector<LabelScore>> classify_images(const DualEncoderModel& model,
                                                     const Tokenizer& tokenizer,
                                                     const ImageProcessor& processor,
                                                     std::span<const std::string> files,
                                                     std::span<const std::string> labels, std::int64_t top_k,
                                                     const TaskOptions& options) {
  if (labels.empty()) throw Error("classify: expected at least one label, got none");
  const NoGradients guard;
  Context context{.stop = options.stop};
  const Tensor texts = embed(model, tokenizer, labels, {}, {.stop = options.stop});
  const LabelFunction function =
      model.pair_loss() == PairLoss::sigmoid ? LabelFunction::sigmoid : LabelFunction::softmax;
  const EncoderModel& tower = model.image();
  std::vector<std::vector<LabelScore>> results(files.size());
  tasks::for_each_image_batch(
      {tower.input(), tower.trained_positions().value_or(1)}, processor, files, options, "classify",
      [&](std::span<const std::size_t> chosen, const ModelInput& images) {
        const Tensor vectors = tower.vectors(tower.encode(images, context), images);
        rank_labels(transpose(model.logits(texts, vectors), 0, 1), function, chosen, top_k, results);
      });
  return results;
}

}  // namespace heed
