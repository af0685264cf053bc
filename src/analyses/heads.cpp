// Measures of attention heads as a report.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/strings.h"
#include "heed/analyses/analyses.h"
#include "heed/inspect/head_measures.h"
#include "heed/models/kind.h"
#include "heed/random.h"

namespace heed {
namespace {

struct Measure {
  const char* name;
  double HeadMeasures::*value;
  bool share, of_cross, of_files;
};
constexpr Measure kMeasures[] = {{"previous", &HeadMeasures::previous, true, false, false},
                                 {"duplicate", &HeadMeasures::duplicate, true, false, false},
                                 {"induction", &HeadMeasures::induction, true, false, false},
                                 {"first", &HeadMeasures::first, true, true, true},
                                 {"separator", &HeadMeasures::separator, true, true, false},
                                 {"entropy", &HeadMeasures::entropy, false, true, true},
                                 {"distance", &HeadMeasures::distance, false, false, true},
                                 {"size", &HeadMeasures::size, false, true, true}};

std::vector<Measure> measures_of(const AnalyzedModel& model, const AttentionKind& kind) {
  std::vector<Measure> measures;
  for (const Measure& one : kMeasures) {
    if (model.reads_files() ? one.of_files : kind.is_self() || one.of_cross) measures.push_back(one);
  }
  return measures;
}

void sort_by(const std::string& name, const std::vector<Measure>& measures,
             std::vector<HeadMeasures>& heads) {
  for (const Measure& one : measures) {
    if (one.name != name) continue;
    std::stable_sort(heads.begin(), heads.end(), [&](const HeadMeasures& a, const HeadMeasures& b) {
      return a.*one.value > b.*one.value;
    });
    return;
  }
  throw OptionError("sort",
                    fmt::format("expected one of {}, got {}",
                                joined(measures, ", ", [](const Measure& one) { return one.name; }), name));
}

HeadsOptions heads_options(const AnalyzedModel& model, const AttentionKind& kind,
                           const std::vector<std::string>& separators) {
  HeadsOptions options{.stack = kind.stack, .part = kind.part, .separators = {}};
  const Tokenizer* tokenizer = model.tokenizer();
  if (tokenizer == nullptr) return options;  // of files
  for (const auto& id :
       {tokenizer->bos_id(), tokenizer->eos_id(), tokenizer->sep_id(), tokenizer->cls_id()}) {
    if (id && separators.empty()) options.separators.insert(*id);
  }
  for (const std::string& token : separators)
    options.separators.insert(single_token(*tokenizer, token, "separator"));
  return options;
}

std::string note_of(const HeadMeasures& head) {
  std::string note = head.dead ? "dead" : "";
  if (head.redundant) note += fmt::format("{}like {}.{}", note.empty() ? "" : ", ", head.layer, head.nearest);
  return note;
}

// A last column, where there is anything to note.
void add_notes(ReportTable& table, const std::vector<HeadMeasures>& heads) {
  const auto noted = [](const HeadMeasures& head) { return !note_of(head).empty(); };
  if (std::none_of(heads.begin(), heads.end(), noted)) return;
  table.columns.emplace_back("note");
  for (std::size_t i = 0; i < heads.size(); ++i) table.cells[i].push_back({note_of(heads[i])});
}

}  // namespace

AnalyzedInput repeated_input(const AnalyzedModel& model, std::int64_t count, std::uint64_t seed) {
  if (as<EncoderDecoderModel>(*model.model) != nullptr)
    throw OptionError("repeat", "expected a model with one stack, got " + model.model->family());
  const RandomStream random{seed, 0};
  std::vector<std::int64_t> ids;
  for (std::uint64_t i = 0; std::ssize(ids) < count; ++i) {
    const std::int64_t id = random.word(i) % model.tokenizer()->vocab_size();
    if (!model.tokenizer()->is_special(id) && id < model.model->vocab_size()) ids.push_back(id);
  }
  ids.insert(ids.end(), ids.begin(), ids.end());
  return ids_input(ids, fmt::format("{} random tokens, twice", count));
}

Report heads(const AnalyzedModel& model, std::span<const AnalyzedInput> inputs,
             const HeadsReportOptions& options, const std::string& title) {
  const AttentionKind kind = analyzed_kind(options.kind, *model.model, "heads");
  std::vector<TensorMap> tensors;
  for (const AnalyzedInput& input : inputs) tensors.push_back(input.inputs);
  std::vector<HeadMeasures> heads =
      measure_heads(*model.model, tensors, heads_options(model, kind, options.separators));
  const std::vector<Measure> measures = measures_of(model, kind);
  if (!options.sort.empty()) sort_by(options.sort, measures, heads);
  const std::string far = !model.reads_files()                    ? "distance in tokens; "
                          : model.reads() == std::string("image") ? "distance in patches; "
                                                                  : "distance in parts; ";
  ReportTable table{
      .title = std::string("Attention heads") + (kind.name == "cross" ? " of cross-attention" : ""),
      .rows_title = "head",
      .legend = "shares of weight from 0 to 1; entropy in nats; " + (kind.is_self() ? far : "") +
                "size of what the head adds, relative to the stream",
      .shade_legend = "shares as they are, other numbers by the largest of their column",
      .subtitle = model.name + ": " + title};
  Report report{.found = ReportValue(ReportValue::List())};
  for (const HeadMeasures& head : heads) {
    report.finite = report.finite && std::isfinite(head.first) && std::isfinite(head.size);
    table.rows.push_back(fmt::format("{}.{}", head.layer, head.head));
    ReportValue& record = report.found.push({}).add("layer", head.layer).add("head", head.head);
    for (const Measure& one : measures) record.add(one.name, head.*one.value);
    record.add("dead", head.dead).add("nearest", head.nearest);
    record.add("nearest_distance", head.nearest_distance).add("redundant", head.redundant);
  }
  for (const Measure& one : measures)
    add_column(
        table, report.found,
        {.title = one.name, .shade = one.share ? ReportShade::value : ReportShade::share, .tooltip = "head"});
  add_notes(table, heads);
  report.tables = {std::move(table)};
  return report;
}

}  // namespace heed
