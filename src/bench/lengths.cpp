// What attention costs by length: time and memory of every kind, slopes, and where one becomes faster.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/layers.h"
#include "heed/buffer.h"
#include "heed/plot/chart.h"

namespace heed::bench {
namespace {

AttentionShape sizes_of(const LengthRange& range, AttentionForm kind, std::int64_t length) {
  AttentionShape one;
  one.heads = range.heads;
  one.head_dim = range.head_dim;
  one.length = length;
  one.window = kind == AttentionForm::window ? range.window : 0;
  one.kind = kind;
  one.causal = one.backward = true;
  return one;
}

Cost cost_of(const LengthRange& range, const Repeats& repeats, AttentionForm kind, std::int64_t length) {
  Cost cost{.length = length};
  {
    const Work work = attention_work(sizes_of(range, kind, length));
    const auto before = memory_statistics().bytes_in_use;
    reset_peak_memory();
    work.run(0);
    work.backward();
    cost.bytes = static_cast<double>(memory_statistics().peak_bytes - before);
    cost.seconds = median_seconds(work, repeats);
  }
  AttentionShape token = sizes_of(range, kind, 1);
  token.keys = length;
  token.backward = false;
  cost.token_seconds = median_seconds(attention_work(token), {.seconds = 0.1});
  return cost;
}

}  // namespace

std::vector<KindCosts> measure_lengths(
    const LengthRange& range, const Repeats& repeats,
    const std::function<void(const std::string& kind, std::int64_t length)>& progress) {
  std::vector<KindCosts> kinds;
  for (const AttentionForm kind : kAttentionForms) {
    KindCosts& costs = kinds.emplace_back(KindCosts{name_of(kind), {}});
    const std::int64_t to = kind == AttentionForm::formula ? std::min(range.to, range.formula_to) : range.to;
    for (std::int64_t n = range.from; n <= to; n *= 2) {
      progress(costs.kind, n);
      costs.costs.push_back(cost_of(range, repeats, kind, n));
    }
  }
  return kinds;
}

double slope(const KindCosts& kind, CostValue value) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (std::size_t i = kind.costs.size() / 2; i < kind.costs.size(); ++i) {
    const double u = std::log(static_cast<double>(kind.costs[i].length)), v = std::log(kind.costs[i].*value);
    ++n, x += u, y += v, xx += u * u, xy += u * v;
  }
  const double spread = n * xx - x * x;
  return spread > 0 ? (n * xy - x * y) / spread : std::nan("");
}

double crossover(const KindCosts& full, const KindCosts& kind) {
  const auto gain = [&](std::size_t i) { return std::log(full.costs[i].seconds / kind.costs[i].seconds); };
  std::size_t i = std::min(full.costs.size(), kind.costs.size());
  if (i == 0 || gain(i - 1) <= 0) return std::nan("");
  while (i > 0 && gain(i - 1) > 0) --i;
  const auto length = [&](std::size_t j) { return static_cast<double>(full.costs[j].length); };
  if (i == 0) return length(0);
  const double share = -gain(i - 1) / (gain(i) - gain(i - 1));
  return length(i - 1) * std::pow(length(i) / length(i - 1), share);
}

std::string lengths_chart(const std::string& title, const std::string& y_label,
                          const std::vector<KindCosts>& kinds, CostValue value, double unit) {
  LineChart chart{.title = title, .x_label = "tokens", .y_label = y_label};
  chart.width = 860;  // for the names of all kinds in a row
  chart.log_x = chart.log_y = true;
  for (const KindCosts& kind : kinds) {
    const double b = slope(kind, value);
    ChartSeries series;
    series.name = kind.kind + " (" + (std::isfinite(b) ? fmt::format("{:.2f}", b) : "-") + ")";
    series.marks = true;
    for (const Cost& cost : kind.costs) {
      series.x.push_back(static_cast<double>(cost.length));
      series.y.push_back(cost.*value * unit);
    }
    chart.series.push_back(std::move(series));
  }
  return line_chart_svg(chart);
}

}  // namespace heed::bench
