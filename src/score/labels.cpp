#include "heed/score/labels.h"

#include <string>

#include "heed/error.h"

namespace heed {

LabelReport label_report(std::span<const std::size_t> predicted, std::span<const std::size_t> right,
                         std::size_t count) {
  if (predicted.size() != right.size() || right.empty()) {
    throw Error("label_report: expected as many predicted labels as right ones and at least one, got " +
                std::to_string(predicted.size()) + " and " + std::to_string(right.size()));
  }
  LabelReport report;
  report.labels.resize(count);
  std::int64_t hits = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    if (predicted[i] >= count || right[i] >= count)
      throw Error("label_report: expected labels below " + std::to_string(count) + ", got a larger one");
    ++report.labels[predicted[i]].predicted;
    ++report.labels[right[i]].support;
    if (predicted[i] != right[i]) continue;
    ++report.labels[right[i]].right;
    ++hits;
  }
  const auto ratio = [](std::int64_t a, std::int64_t b) {
    return b == 0 ? 0.0 : static_cast<double>(a) / static_cast<double>(b);
  };
  const auto total = static_cast<std::int64_t>(right.size());
  std::int64_t seen = 0;
  for (LabelStatistics& label : report.labels) {
    label.precision = ratio(label.right, label.predicted);
    label.recall = ratio(label.right, label.support);
    label.f1 = ratio(2 * label.right, label.predicted + label.support);
    report.macro_f1 += label.f1;
    report.weighted_f1 += label.f1 * ratio(label.support, total);
    seen += label.predicted + label.support > 0;
  }
  report.accuracy = ratio(hits, total);
  report.macro_f1 /= static_cast<double>(seen);
  return report;
}

}  // namespace heed
