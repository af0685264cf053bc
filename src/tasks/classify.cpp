// Labels of whole texts and images.
#include "heed/tasks/classify.h"

#include <algorithm>
#include <cmath>

#include "heed/autograd.h"
#include "heed/image/image.h"
#include "heed/image/processor.h"
#include "heed/ops/shape.h"
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

// Sets the results of the chosen inputs to the `top_k` best labels of the head's logits, for hidden
// [B, T, D].
void predict_labels(const EncoderModel& model, const Tensor& hidden, const Tensor& mask,
                    std::span<const std::size_t> chosen, std::int64_t top_k,
                    std::vector<std::vector<LabelScore>>& results) {
  Context context;
  const std::size_t labels = model.labels().size();
  const std::size_t count = top_k == 0 ? labels : static_cast<std::size_t>(top_k);
  const std::vector<float> logits = model.predict(hidden, mask, context).to_vector<float>();  // [B, L]
  for (std::size_t b = 0; b < chosen.size(); ++b) {
    const std::vector<double> scores =
        label_scores(std::span(logits).subspan(b * labels, labels), label_function(model));
    for (const std::size_t best : tasks::largest(scores, count))
      results[chosen[b]].push_back({best, scores[best]});
  }
}

// The pixels of one file, f32 [1, C, H, W] as the model takes them.
Tensor pixels_of(const std::string& file, const ImageProcessor& processor, const Shape& row) {
  const Tensor pixels = processor(load_image(file)).pixel_values;
  const Shape& shape = pixels.shape();
  if (shape.rank() == row.rank() + 1 && std::equal(row.begin(), row.end(), shape.begin() + 1)) return pixels;
  throw Error(file + ": expected pixels " + row.str() + " after preprocessing, got " + pixels.str() +
              " (the sizes of preprocessor_config.json are not those of config.json)");
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
  const InputSpec input = model.input();
  if (input.kind != InputKind::pixels)
    throw Error("classify: expected a model of images, got one of " + std::string(input.name));
  const NoGradients guard;
  Context context{.stop = options.stop};
  const auto most = static_cast<std::size_t>(
      std::max<std::int64_t>(1, options.batch_tokens / model.max_positions().value_or(1)));
  std::vector<std::vector<LabelScore>> results(files.size());
  std::vector<Tensor> batch;
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < files.size(); ++i) {
    try {
      batch.push_back(pixels_of(files[i], processor, input.row));
      chosen.push_back(i);
    } catch (const Error& error) {
      if (!options.on_error) throw;  // it names the file
      options.fail("classify", i, error.what());
    }
    if (batch.empty() || (batch.size() < most && i + 1 < files.size())) continue;
    const Tensor hidden = model.encode({.values = concat(batch, 0)}, context);
    predict_labels(model, hidden, {}, chosen, top_k, results);
    batch.clear();
    chosen.clear();
  }
  return results;
}

}  // namespace heed
