// Counts of a task's data, and how they are shown.
#include "train/tasks/data_counts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace heed {
namespace {

constexpr std::size_t kLabelsShown = 30;

// A number of members of a set, with its share.
std::string count_text(std::int64_t count, std::int64_t all) {
  if (count == 0 || all == 0) return fmt::format("{}", count);
  return fmt::format("{} ({:.1f} %)", count, 100.0 * static_cast<double>(count) / static_cast<double>(all));
}

struct Measure {
  const char* name;
  std::int64_t SetSummary::*count;
};
constexpr Measure kMeasures[] = {{"truncated", &SetSummary::truncated},
                                 {"left_out", &SetSummary::left_out},
                                 {"repeated", &SetSummary::repeated},
                                 {"in_training", &SetSummary::in_training},
                                 {"replaced", &SetSummary::replaced}};
const char* title_of(const Measure& measure) {
  const std::string_view name = measure.name;
  if (name == "left_out") return "left out";
  if (name == "repeated") return "repeated";
  if (name == "in_training") return "in training, too";
  return name == "replaced" ? "with U+FFFD" : "truncated";
}

struct Length {
  const char *name, *title;
  double SetSummary::*value;
};
constexpr Length kLengths[] = {{"median", "median", &SetSummary::median},
                               {"most_90", "90 %", &SetSummary::most_90},
                               {"most_99", "99 %", &SetSummary::most_99},
                               {"longest", "longest", &SetSummary::longest}};

ReportTable sets_table(const DataSummary& summary) {
  ReportTable table{.title = "data"};
  const auto put = [&](const std::string& row, const SetSummary& set, std::string text, double value) {
    ReportCell& cell = table.cell(row, set.name);
    cell.text = std::move(text);
    cell.value = value;
  };
  for (const SetSummary& set : summary.sets)
    put(summary.examples, set, fmt::format("{}", set.examples), static_cast<double>(set.examples));
  for (const Length& length : kLengths) {
    if (summary.unit.empty()) break;
    for (const SetSummary& set : summary.sets)
      put(fmt::format("{}: {}", summary.unit, length.title), set, fmt::format("{:g}", set.*length.value),
          set.*length.value);
  }
  for (const Measure& measure : kMeasures) {
    const bool any = std::any_of(summary.sets.begin(), summary.sets.end(),
                                 [&](const SetSummary& set) { return set.*measure.count > 0; });
    for (const SetSummary& set : summary.sets)
      if (any)
        put(title_of(measure), set, count_text(set.*measure.count, set.examples),
            static_cast<double>(set.*measure.count));
  }
  table.fill_up();
  if (summary.most && !summary.unit.empty())
    table.legend = fmt::format("the model reads at most {:g} {} at once", *summary.most, summary.unit);
  return table;
}

// The labels of all sets, the most frequent first.
std::vector<std::string> labels_of(const DataSummary& summary) {
  std::map<std::string, std::int64_t> counts;
  for (const SetSummary& set : summary.sets)
    for (const auto& [label, count] : set.labels) counts[label] += count;
  std::vector<std::string> labels;
  for (const auto& [label, count] : counts) labels.push_back(label);
  std::stable_sort(labels.begin(), labels.end(),
                   [&](const std::string& a, const std::string& b) { return counts.at(a) > counts.at(b); });
  return labels;
}

ReportTable labels_table(const DataSummary& summary, std::vector<std::string> labels) {
  ReportTable table{.title = "labels"};
  if (labels.size() > kLabelsShown) {
    table.legend = fmt::format("and {} rarer labels (--json lists them)", labels.size() - kLabelsShown);
    labels.resize(kLabelsShown);
  }
  for (const std::string& label : labels) {
    for (const SetSummary& set : summary.sets) {
      std::int64_t all = 0;
      for (const auto& [name, count] : set.labels) all += count;
      const auto found = set.labels.find(label);
      const std::int64_t count = found == set.labels.end() ? 0 : found->second;
      ReportCell& cell = table.cell(label, set.name);
      cell.text = count_text(count, all);
      cell.value = static_cast<double>(count);
    }
  }
  table.fill_up();
  return table;
}

ReportValue json_of(const DataSummary& summary) {
  ReportValue found, sets;
  found.add("examples", summary.examples).add("unit", summary.unit).add("most", summary.most);
  for (const SetSummary& set : summary.sets) {
    ReportValue one, labels;
    one.add("set", set.name).add("examples", set.examples);
    if (!summary.unit.empty())
      for (const Length& length : kLengths) one.add(length.name, set.*length.value);
    for (const Measure& measure : kMeasures) one.add(measure.name, set.*measure.count);
    for (const auto& [label, count] : set.labels) labels.add(label, count);
    if (!set.labels.empty()) one.add("labels", labels);
    sets.push(one);
  }
  return found.add("sets", sets);
}

}  // namespace

DataSummary DataCounts::finish() {
  DataSummary summary{std::move(examples_), std::move(unit_), most_};
  std::erase_if(sets_, [](const Set& set) { return set.keys.empty(); });
  std::stable_partition(sets_.begin(), sets_.end(),
                        [](const Set& set) { return set.summary.name == "training"; });
  for (Set& one : sets_) {
    SetSummary& set = one.summary;
    std::vector<std::uint64_t>& keys = one.keys;
    set.examples = std::ssize(keys);
    std::sort(keys.begin(), keys.end());
    set.repeated = set.examples - std::distance(keys.begin(), std::unique(keys.begin(), keys.end()));
    if (&one != &sets_.front())
      set.in_training =
          std::count_if(keys.begin(), keys.begin() + (set.examples - set.repeated), [&](auto key) {
            const Set& training = sets_.front();
            return std::binary_search(
                training.keys.begin(),
                training.keys.begin() + (training.summary.examples - training.summary.repeated), key);
          });
    std::vector<float>& lengths = one.lengths;
    std::sort(lengths.begin(), lengths.end());
    const auto most = [&](double share) {
      if (lengths.empty()) return 0.0;
      const double place = std::ceil(share * static_cast<double>(lengths.size())) - 1;
      return static_cast<double>(lengths[static_cast<std::size_t>(std::max(0.0, place))]);
    };
    set.median = most(0.5), set.most_90 = most(0.9), set.most_99 = most(0.99), set.longest = most(1);
  }
  for (Set& one : sets_) summary.sets.push_back(std::move(one.summary));
  return summary;
}

Report data_report(const DataSummary& summary) {
  Report report{.found = json_of(summary)};
  if (summary.sets.empty()) return report;
  report.tables.push_back(sets_table(summary));
  if (std::vector<std::string> labels = labels_of(summary); !labels.empty())
    report.tables.push_back(labels_table(summary, std::move(labels)));
  return report;
}

std::vector<std::string> data_lines(const DataSummary& summary) {
  std::vector<std::string> lines;
  if (summary.sets.empty()) return lines;
  if (const SetSummary& set = summary.sets.front(); !summary.unit.empty())
    lines.push_back(fmt::format("{} {}: half have up to {:g} {}, 99 % up to {:g}, the longest {:g}{}",
                                set.name, summary.examples, set.median, summary.unit, set.most_99,
                                set.longest,
                                summary.most ? fmt::format("; the model reads {:g}", *summary.most) : ""));
  for (const SetSummary& set : summary.sets) {
    std::vector<std::string> found;
    for (const Measure& measure : kMeasures)
      if (set.*measure.count > 0 && measure.count != &SetSummary::repeated)
        found.push_back(fmt::format("{} {}", set.*measure.count, title_of(measure)));
    if (!found.empty())
      lines.push_back(fmt::format("warning: of {} {} {}: {}", set.examples, set.name, summary.examples,
                                  fmt::join(found, ", ")));
  }
  return lines;
}

}  // namespace heed
