#include "cli/results/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "heed/autograd.h"
#include "heed/tasks/classify.h"

namespace heed::cli {

TextResults::TextResults(const LoadedModel& model, const std::vector<std::string>& texts) {
  const NoGradients guard;
  vectors_ = model.embed(texts);
  if (!model.can(Task::classify)) return;
  std::vector<TextPair> pairs;
  for (const std::string& text : texts) pairs.push_back({text, std::nullopt});
  for (const auto& scores : classify(model.encoder(), model.tokenizer(), pairs, 1))
    labels_.push_back(scores.front().index);
}

TextResults::Agreement TextResults::agreement(const TextResults& others) const {
  Agreement found;
  const std::vector<float> own = vectors_.to_vector<float>(), theirs = others.vectors_.to_vector<float>();
  const auto rows = static_cast<std::size_t>(vectors_.size(0)),
             columns = own.size() / std::max<std::size_t>(rows, 1);
  for (std::size_t row = 0; row < rows; ++row) {
    double product = 0, left = 0, right = 0;
    for (std::size_t i = row * columns; i < (row + 1) * columns; ++i) {
      const auto a = static_cast<double>(own[i]), b = static_cast<double>(theirs[i]);
      product += a * b;
      left += a * a;
      right += b * b;
    }
    // A text without tokens has a vector of zeros, before and after.
    const double cosine = left == 0 && right == 0 ? 1 : product / std::sqrt(left * right);
    found.mean += cosine / static_cast<double>(rows);
    found.least = std::min(found.least, cosine);
  }
  for (std::size_t i = 0; i < labels_.size(); ++i)
    found.labels += (labels_[i] == others.labels_[i] ? 1.0 : 0.0) / static_cast<double>(labels_.size());
  return found;
}

void TextResults::write_agreement(const TextResults& others, JsonWriter& json) const {
  const Agreement found = agreement(others);
  json.begin_object().field("texts", vectors_.size(0));
  json.field("mean_cosine", found.mean).field("least_cosine", found.least);
  if (!labels_.empty()) json.field("equal_labels", found.labels);
  json.end_object();
}

std::string TextResults::agreement_text(const TextResults& others) const {
  const Agreement found = agreement(others);
  std::string text =
      fmt::format("vectors of {} texts: cosine with those before {:.5f} on average, at least {:.5f}",
                  vectors_.size(0), found.mean, found.least);
  if (!labels_.empty()) text += fmt::format("; {:.2f}% have the same label", 100 * found.labels);
  return text;
}

}  // namespace heed::cli
