#include "train/label_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/stop_scope.h"
#include "heed/error.h"
#include "heed/io/json.h"
#include "heed/models/registry.h"
#include "heed/score/labels.h"
#include "models/labels.h"

namespace heed {

std::map<std::string, LabelCount> count_labels(const LabeledTexts& texts) {
  std::map<std::string, LabelCount> counts;
  for (std::int64_t i = 0; i < texts.size(); ++i) {
    throw_if_stopped();
    for (std::string& label : texts[i].labels)
      ++counts.try_emplace(std::move(label), LabelCount{0, i}).first->second.count;
  }
  return counts;
}

std::vector<std::string> sorted_labels(const std::map<std::string, LabelCount>& counts) {
  const auto number = [](const std::string& label) {
    double value = 0;
    const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), value);
    return error == std::errc() && end == label.data() + label.size() ? value : HUGE_VAL;
  };
  std::vector<std::string> sorted;
  for (const auto& [name, count] : counts) sorted.push_back(name);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const std::string& a, const std::string& b) { return number(a) < number(b); });
  return sorted;
}

const char* header_hint(const LabeledText& text, const DataOptions& data) {
  const bool table = data.format == "tsv" || data.format == "csv";
  return table && text.line == 1 && !data.header ? " (is it a header line? data.header = true skips it)" : "";
}

std::string rare_labels(const LabeledTexts& texts, const std::map<std::string, LabelCount>& counts,
                        const DataOptions& data) {
  std::vector<std::string> rare;
  for (const auto& [name, count] : counts) {
    if (count.count > 1) continue;
    const LabeledText text = texts[count.first];
    rare.push_back(fmt::format("\"{}\" at {}{}", name, texts.where(text), header_hint(text, data)));
  }
  constexpr std::size_t kNamed = 5;
  const std::size_t more = rare.size() > kNamed ? rare.size() - kNamed : 0;
  rare.resize(rare.size() - more);
  if (rare.empty()) return "";
  return fmt::format("warning: labels with one example: {}{}", fmt::join(rare, ", "),
                     more > 0 ? fmt::format(", and {} more", more) : "");
}

std::vector<std::string> known_labels(const std::filesystem::path& from, std::vector<std::string> names) {
  if (from.empty()) return names;
  const std::vector<std::string> known = label_names(load_model_config(from));
  const bool all = std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    return std::find(known.begin(), known.end(), name) != known.end();
  });
  return all ? known : names;
}

void check_labels(const std::vector<std::string>& names, const char* what,
                  const std::filesystem::path& file) {
  if (names.size() > 1) return;
  throw Error(
      fmt::format("{}: expected at least two different {}, got only \"{}\" (is it a file of another kind?)",
                  file.string(), what, names.empty() ? "" : names.front()));
}

std::int64_t label_number(const std::vector<std::string>& names, const std::string& label,
                          const std::string& where, const char* hint) {
  const auto found = std::find(names.begin(), names.end(), label);
  if (found != names.end()) return found - names.begin();
  throw Error(fmt::format("{}: expected one of the labels of training ({}), got \"{}\"{}", where,
                          fmt::join(names, ", "), label, hint));
}

std::string label_members(const std::vector<std::string>& names, std::string_view problem) {
  JsonWriter json;
  json.begin_object();
  json.key("id2label").begin_object();
  for (std::size_t i = 0; i < names.size(); ++i) json.field(std::to_string(i), names[i]);
  json.end_object();
  json.key("label2id").begin_object();
  for (std::size_t i = 0; i < names.size(); ++i) json.field(names[i], i);
  json.end_object();
  json.field("num_labels", nullptr);  // another model's
  if (!problem.empty()) json.field("problem_type", problem);
  return json.end_object().text();
}

std::vector<Metric> label_metrics(const std::vector<std::size_t>& predicted,
                                  const std::vector<std::size_t>& right, std::size_t labels) {
  const LabelReport report = label_report(predicted, right, labels);
  return {{"accuracy", 100 * report.accuracy}, {"f1", 100 * report.macro_f1}};
}

}  // namespace heed
