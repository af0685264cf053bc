// What heads can do by their weights as a report.
#include "heed/inspect/circuits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "heed/analyses/analyses.h"

namespace heed {
namespace {

constexpr const char* kCompositionKinds[] = {"Q", "K", "V"};

std::string head_name(HeadIndex head) { return fmt::format("{}.{}", head.layer, head.head); }

double length_of(const std::vector<double>& singular) {
  double sum = 0;
  for (const double value : singular) sum += value * value;
  return std::sqrt(sum);
}

// How many directions carry the circuit: (sum of s^2)^2 / sum of s^4.
double dimensions_of(const std::vector<double>& singular) {
  double squares = 0, fourths = 0;
  for (const double value : singular) {
    squares += value * value;
    fourths += value * value * value * value;
  }
  return fourths > 0 ? squares * squares / fourths : 0;
}

const Composition* strongest(const Circuits& circuits, HeadIndex to, CompositionKind kind) {
  for (const Composition& one : circuits.compositions) {
    if (one.to == to && one.kind == kind) return &one;
  }
  return nullptr;
}

// A head in one line: the lengths of its circuits and its strongest compositions.
ReportValue summary_of(const Circuits& circuits, const HeadCircuit& head) {
  ReportValue summary;
  summary.add("layer", head.head.layer).add("head", head.head.head);
  summary.add("ov", length_of(head.ov)).add("ov_dims", dimensions_of(head.ov));
  summary.add("qk", length_of(head.qk)).add("qk_dims", dimensions_of(head.qk));
  if (head.copying) summary.add("copying", *head.copying);
  if (head.offset) summary.add("offset", -*head.offset).add("at_offset", head.at_offset);
  for (std::size_t kind = 0; kind < std::size(kCompositionKinds); ++kind) {
    const Composition* best = strongest(circuits, head.head, static_cast<CompositionKind>(kind));
    if (best == nullptr) continue;
    summary.add(std::string(kCompositionKinds[kind]) + "_from", head_name(best->from));
    summary.add(std::string(kCompositionKinds[kind]) + "_score", best->score);
  }
  return summary.add("rotated", head.rotated).add("biased", head.biased);
}

ReportValue circuit_record(const HeadCircuit& head) {
  ReportValue record;
  record.add("layer", head.head.layer).add("head", head.head.head).add("ov", head.ov).add("qk", head.qk);
  if (head.copying) record.add("copying", *head.copying);
  if (head.offset) record.add("offset", -*head.offset).add("at_offset", head.at_offset);
  return record.add("biased", head.biased).add("rotated", head.rotated);
}

ReportTable heads_table(const Circuits& circuits, const ReportValue& summaries, bool pairs) {
  ReportTable table{
      .title = "Circuits of attention heads",
      .rows_title = "head",
      .legend =
          "OV, QK: length (Frobenius norm) and number of directions that carry it; copying from -1 "
          "to 1; offset: where position alone lets the head look, with the mean weight",
      .shade_legend = "copying, weights and compositions as they are"};
  for (const HeadCircuit& head : circuits.heads) table.rows.push_back(head_name(head.head));
  const auto add = [&](const char* title, const char* member, const char* format,
                       ReportShade shade = ReportShade::none) {
    add_column(table, summaries, {.title = title, .member = member, .format = format, .shade = shade});
  };
  add("OV", "ov", "{:.3f}");
  add("dims", "ov_dims", "{:.1f}");
  add("QK", "qk", "{:.3f}");
  add("dims", "qk_dims", "{:.1f}");
  add("copying", "copying", "{:.3f}", ReportShade::value);
  add("offset", "offset", "{}");
  add("weight", "at_offset", "{:.3f}", ReportShade::value);
  if (pairs)
    table.legend += fmt::format("; from: the strongest composition, at random {:.4f}", circuits.baseline);
  for (const std::string kind : kCompositionKinds) {
    if (!pairs) break;
    table.columns.push_back(kind + " from");
    table.fill_up();
    for (std::size_t i = 0; i < table.rows.size(); ++i) {
      const ReportValue* from = summaries.list()[i].find(kind + "_from");
      if (from == nullptr) continue;
      const double score = *summaries.list()[i].at(kind + "_score").number();
      table.cells[i].back() = {fmt::format("{} {:.3f}", from->text(), score), score};
    }
  }
  table.columns.emplace_back("note");
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const HeadCircuit& head = circuits.heads[i];
    table.cells[i].push_back({std::string(head.rotated ? "rotary" : "") +
                              (head.rotated && head.biased ? ", " : "") + (head.biased ? "biased" : "")});
  }
  return table;
}

void add_compositions(Report& report, const Circuits& circuits, const CircuitsReportOptions& options) {
  ReportTable table{
      .title = "Strongest compositions" +
               (options.head ? fmt::format(" with {}.{}", options.head->layer, options.head->head)
                             : std::string()),
      .rows_title = "read",
      .legend = fmt::format("how much of what one head writes a later one reads; at random {:.4f}",
                            circuits.baseline),
      .columns = {"from", "to", "score", "above random"}};
  ReportValue records{ReportValue::List()};
  for (const Composition& one : circuits.compositions) {
    if (std::ssize(table.rows) == options.top) break;
    const char* kind = kCompositionKinds[static_cast<std::size_t>(one.kind)];
    const auto index = [](HeadIndex head) { return std::vector<std::int64_t>{head.layer, head.head}; };
    records.push({})
        .add("kind", kind)
        .add("from", index(one.from))
        .add("to", index(one.to))
        .add("score", one.score);
    table.rows.emplace_back(kind);
    table.cells.push_back({{head_name(one.from)},
                           {head_name(one.to)},
                           {fmt::format("{:.4f}", one.score), one.score},
                           {fmt::format("{:.4f}", one.score - circuits.baseline)}});
  }
  report.found.add("compositions", std::move(records));
  if (!table.rows.empty()) report.tables.push_back(std::move(table));
}

void add_directions(Report& report, const AnalyzedModel& model,
                    const std::vector<CircuitDirection>& directions, const std::string& head) {
  ReportTable table{
      .title = "What head " + head + " reads and writes",
      .rows_title = "value",
      .legend =
          "singular directions of the OV circuit: tokens that it reads, and whose logits it then "
          "raises",
      .columns = {"reads", "writes"}};
  ReportValue records;
  for (const CircuitDirection& one : directions) {
    ReportValue& record = records.push({}).add("value", one.value);
    table.rows.push_back(fmt::format("{:.3f}", one.value));
    std::vector<ReportCell>& cells = table.cells.emplace_back();
    for (const auto& [name, tokens] : {std::pair("reads", &one.reads), std::pair("writes", &one.writes)}) {
      ReportValue list{ReportValue::List()};
      std::string shown;
      for (const TokenScore& token : *tokens) {
        list.push({})
            .add("id", token.id)
            .add("token", model.tokens({token.id}).front())
            .add("score", token.score);
        shown += (shown.empty() ? "" : " ") + model.shown(token.id);
      }
      record.add(name, std::move(list));
      cells.push_back({shown});
    }
  }
  report.found.add("directions", std::move(records));
  report.tables.insert(report.tables.begin(), std::move(table));
}

}  // namespace

Report circuits(const AnalyzedModel& model, const CircuitsReportOptions& options) {
  const AttentionKind kind = analyzed_kind(options.kind, *model.model, "circuits");
  if (!kind.is_self())
    throw OptionError(
        "kind", "expected the self-attention of a stack, got " + kind.name + " (a circuit is of one stream)");
  CircuitOptions own{
      .stack = kind.stack, .compositions = options.compositions, .fold_final_norm = options.fold_final_norm};
  if (options.head) own.of_head = HeadIndex{options.head->layer, options.head->head};
  own.progress = options.progress;
  const Circuits found = weight_circuits(*model.model, own);
  Report report;
  ReportValue records{ReportValue::List()}, summaries{ReportValue::List()};
  for (const HeadCircuit& head : found.heads) {
    records.push(circuit_record(head));
    summaries.push(summary_of(found, head));
  }
  report.found.add("baseline", found.baseline)
      .add("fold_final_norm", options.fold_final_norm)
      .add("heads", std::move(records));
  add_compositions(report, found, options);
  if (own.of_head && found.heads.front().copying) {
    const std::vector<CircuitDirection> directions =
        circuit_directions(*model.model, own.stack, *own.of_head, options.directions, options.tokens);
    if (!directions.empty()) add_directions(report, model, directions, head_name(*own.of_head));
  }
  report.figure = heads_table(found, summaries, options.compositions && !options.head);
  report.figure->subtitle = model.name + ": " + kind.name;
  if (!options.head) report.tables.insert(report.tables.begin(), *report.figure);
  report.numbers = records_csv(
      summaries, {"layer", "head", "ov", "ov_dims", "qk", "qk_dims", "copying", "offset", "at_offset",
                  "Q_from", "Q_score", "K_from", "K_score", "V_from", "V_score", "rotated", "biased"});
  return report;
}

}  // namespace heed
