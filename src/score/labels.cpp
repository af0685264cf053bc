#include "heed/score/labels.h"

#include <string>

#include "heed/error.h"

namespace heed {

LabelReport label_report(std::span<const std::size_t> predicted, std::span<const std::size_t> gold,
                         std::size_t count) {
  if (predicted.size() != gold.size() || gold.empty()) {
    throw Error("label_report: expected one predicted label per gold label, and at least one, got " +
                std::to_string(predicted.size()) + " and " + std::to_string(gold.size()));
  }
  LabelReport report;
  report.labels.resize(count);
  std::int64_t hits = 0;
  for (std::size_t i = 0; i < gold.size(); ++i) {
    if (predicted[i] >= count || gold[i] >= count)
      throw Error("label_report: expected labels below " + std::to_string(count) + ", got a larger one");
    ++report.labels[predicted[i]].predicted;
    ++report.labels[gold[i]].support;
    if (predicted[i] != gold[i]) continue;
    ++report.labels[gold[i]].correct;
    ++hits;
  }
  const auto ratio = [](std::int64_t a, std::int64_t b) {
    return b == 0 ? 0.0 : static_cast<double>(a) / static_cast<double>(b);
  };
  const auto total = static_cast<std::int64_t>(gold.size());
  std::int64_t seen = 0;
  for (LabelStatistics& label : report.labels) {
    label.precision = ratio(label.correct, label.predicted);
    label.recall = ratio(label.correct, label.support);
    label.f1 = ratio(2 * label.correct, label.predicted + label.support);
    report.macro_f1 += label.f1;
    report.weighted_f1 += label.f1 * ratio(label.support, total);
    seen += label.predicted + label.support > 0;
  }
  report.accuracy = ratio(hits, total);
  report.macro_f1 /= static_cast<double>(seen);
  return report;
}

}  // namespace heed
