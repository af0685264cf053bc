// BLEU by source length as text, JSON and picture.
#include "cli/results/evaluate_lengths.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "heed/files/file.h"
#include "heed/plot/chart.h"

namespace heed::cli {
namespace {

// A few lines say nothing about their length.
bool is_rare(const LengthGroup& group, const std::vector<LengthGroup>& groups) {
  std::int64_t lines = 0;
  for (const LengthGroup& other : groups) lines += other.lines;
  return 100 * group.lines < lines;
}

}  // namespace

std::string lengths_text(const std::vector<LengthGroup>& groups) {
  std::string text;
  for (const LengthGroup& group : groups) {
    text += fmt::format("BLEU = {:6.2f}  {:3} to {:3} words  {} line{}\n", group.bleu.score, group.from,
                        group.to, group.lines, group.lines == 1 ? "" : "s");
  }
  return text;
}

void lengths_json(JsonWriter& json, const std::vector<LengthGroup>& groups) {
  json.key("by_length").begin_array();
  for (const LengthGroup& group : groups) {
    json.begin_object()
        .field("from", group.from)
        .field("to", group.to)
        .field("lines", group.lines)
        .field("mean_words", group.mean_words)
        .field("bleu", std::min(group.bleu.score, 100.0))
        .end_object();
  }
  json.end_array();
}

void draw_lengths(const std::string& file, const std::vector<ScoredLengths>& scored) {
  LineChart chart{.title = "BLEU by source length", .x_label = "words of the source", .y_label = "BLEU"};
  for (const ScoredLengths& translations : scored) {
    ChartSeries series;
    series.name = translations.name;
    series.marks = true;
    for (const LengthGroup& group : translations.groups) {
      if (is_rare(group, translations.groups)) {
        chart.x_label = "words of the source (lengths of fewer than 1 % of the lines are left out)";
        continue;
      }
      series.x.push_back(group.mean_words);
      series.y.push_back(group.bleu.score);
    }
    chart.series.push_back(std::move(series));
  }
  AtomicFile out(file);
  out.write(line_chart_svg(chart));
  out.commit();
}

}  // namespace heed::cli
