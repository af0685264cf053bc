// heed circuits: what the heads of a model can do, read off their weights.
#include "heed/inspect/circuits.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/cli.h"
#include "cli/input/analysis_input.h"
#include "cli/options/option_values.h"
#include "cli/options/task_arguments.h"
#include "cli/terminal/terminal.h"
#include "heed/files/file.h"
#include "heed/io/json.h"
#include "inspect/token_input.h"

namespace heed::cli {
namespace {

struct CircuitsArguments {
  std::string kind, head;
  bool no_compositions = false;
  std::int64_t top = 20, directions = 6, tokens = 8;
  ModelChoice model;
  TableOutput output;
};

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

std::string note_of(const HeadCircuit& head) {
  std::string note = head.rotated ? "rotary" : "";
  if (head.biased) note += note.empty() ? "biased" : ", biased";
  return note;
}

HeatTable circuits_table(const Circuits& circuits, const CircuitsArguments& a) {
  const bool pairs = !a.no_compositions && a.head.empty();
  HeatTable table{
      .title = "Circuits of attention heads",
      .rows_title = "head",
      .legend =
          "OV, QK: length (Frobenius norm) and number of directions that carry it; copying from -1 "
          "to 1; offset: where position alone lets the head look, with the mean weight",
      .shade_legend = "copying, weights and compositions as they are",
      .rows = {},
      .columns = {"OV", "dims", "QK", "dims", "copying", "offset", "weight"},
      .cells = {}};
  if (pairs) {
    table.columns.insert(table.columns.end(), {"Q from", "K from", "V from"});
    table.legend += fmt::format("; from: the strongest composition, at random {:.4f}", circuits.baseline);
  }
  table.columns.emplace_back("note");
  for (const HeadCircuit& head : circuits.heads) {
    table.rows.push_back(head_name(head.head));
    std::vector<HeatCell> cells{{fmt::format("{:.3f}", length_of(head.ov))},
                                {fmt::format("{:.1f}", dimensions_of(head.ov))},
                                {fmt::format("{:.3f}", length_of(head.qk))},
                                {fmt::format("{:.1f}", dimensions_of(head.qk))}};
    cells.push_back(head.copying ? HeatCell{fmt::format("{:.3f}", *head.copying), *head.copying}
                                 : HeatCell{});
    cells.push_back(head.offset ? HeatCell{fmt::format("{}", -*head.offset)} : HeatCell{});
    cells.push_back(head.offset ? HeatCell{fmt::format("{:.3f}", head.at_offset), head.at_offset}
                                : HeatCell{});
    for (std::size_t kind = 0; pairs && kind < std::size(kCompositionKinds); ++kind) {
      const Composition* best = strongest(circuits, head.head, static_cast<CompositionKind>(kind));
      cells.push_back(best != nullptr ? HeatCell{fmt::format("{} {:.3f}", head_name(best->from), best->score),
                                                 best->score}
                                      : HeatCell{});
    }
    cells.push_back({note_of(head)});
    table.cells.push_back(std::move(cells));
  }
  return table;
}

HeatTable compositions_table(const Circuits& circuits, const CircuitsArguments& a) {
  HeatTable table{
      .title = a.head.empty() ? "Strongest compositions" : "Strongest compositions with " + a.head,
      .rows_title = "read",
      .legend = fmt::format("how much of what one head writes a later one reads; at random {:.4f}",
                            circuits.baseline),
      .rows = {},
      .columns = {"from", "to", "score", "above random"},
      .cells = {}};
  for (const Composition& one : circuits.compositions) {
    if (std::ssize(table.rows) == a.top) break;
    table.rows.emplace_back(kCompositionKinds[static_cast<std::size_t>(one.kind)]);
    table.cells.push_back({{head_name(one.from)},
                           {head_name(one.to)},
                           {fmt::format("{:.4f}", one.score), one.score},
                           {fmt::format("{:.4f}", one.score - circuits.baseline)}});
  }
  return table;
}

HeatTable directions_table(const std::vector<CircuitDirection>& directions, const std::string& head,
                           const Tokenizer& tokenizer) {
  HeatTable table{.title = "What head " + head + " reads and writes",
                  .rows_title = "value",
                  .legend =
                      "singular directions of the OV circuit: tokens that it reads, and whose logits it then "
                      "raises",
                  .rows = {},
                  .columns = {"reads", "writes"},
                  .cells = {}};
  const auto list = [&](const std::vector<TokenScore>& tokens) {
    std::vector<std::string> names;
    for (const TokenScore& token : tokens) names.push_back(tokenizer.token(token.id));
    std::string text;
    for (const std::string& name : inspect::shown_tokens(names, &tokenizer))
      text += (text.empty() ? "" : " ") + name;
    return text;
  };
  for (const CircuitDirection& one : directions) {
    table.rows.push_back(fmt::format("{:.3f}", one.value));
    table.cells.push_back({{list(one.reads)}, {list(one.writes)}});
  }
  return table;
}

void add_index(JsonWriter& json, const char* key, HeadIndex head) {
  json.field(key, std::vector<std::int64_t>{head.layer, head.head});
}

std::string circuits_json(const Circuits& circuits, const std::vector<CircuitDirection>& directions,
                          const CircuitsArguments& a, const Tokenizer* tokenizer) {
  JsonWriter json;
  json.begin_object().field("baseline", circuits.baseline).key("heads").begin_array();
  for (const HeadCircuit& head : circuits.heads) {
    json.begin_object().field("layer", head.head.layer).field("head", head.head.head);
    json.field("ov", head.ov).field("qk", head.qk);
    if (head.copying) json.field("copying", *head.copying);
    if (head.offset) json.field("offset", -*head.offset).field("at_offset", head.at_offset);
    json.field("biased", head.biased).field("rotated", head.rotated).end_object();
  }
  json.end_array().key("compositions").begin_array();
  std::int64_t shown = 0;
  for (const Composition& one : circuits.compositions) {
    if (shown++ == a.top) break;
    json.begin_object().field("kind", kCompositionKinds[static_cast<std::size_t>(one.kind)]);
    add_index(json, "from", one.from);
    add_index(json, "to", one.to);
    json.field("score", one.score).end_object();
  }
  json.end_array();
  if (directions.empty()) return json.end_object().text();
  json.key("directions").begin_array();
  const auto tokens = [&](const char* key, const std::vector<TokenScore>& list) {
    json.key(key).begin_array();
    for (const TokenScore& token : list) {
      json.begin_object().field("id", token.id).field("token", tokenizer->token(token.id));
      json.field("score", token.score).end_object();
    }
    json.end_array();
  };
  for (const CircuitDirection& one : directions) {
    json.begin_object().field("value", one.value);
    tokens("reads", one.reads);
    tokens("writes", one.writes);
    json.end_object();
  }
  return json.end_array().end_object().text();
}

std::string circuits_csv(const Circuits& circuits) {
  std::string text = "layer,head,ov,ov_dims,qk,qk_dims,copying,offset,at_offset";
  for (const char* kind : kCompositionKinds) text += fmt::format(",{0}_from,{0}_score", kind);
  text += ",rotated,biased\n";
  for (const HeadCircuit& head : circuits.heads) {
    text +=
        fmt::format("{},{},{:.9g},{:.9g},{:.9g},{:.9g},", head.head.layer, head.head.head, length_of(head.ov),
                    dimensions_of(head.ov), length_of(head.qk), dimensions_of(head.qk));
    text += head.copying ? fmt::format("{:.9g},", *head.copying) : ",";
    text += head.offset ? fmt::format("{},{:.9g}", -*head.offset, head.at_offset) : ",";
    for (std::size_t kind = 0; kind < std::size(kCompositionKinds); ++kind) {
      const Composition* best = strongest(circuits, head.head, static_cast<CompositionKind>(kind));
      text += best != nullptr ? fmt::format(",{},{:.9g}", head_name(best->from), best->score) : ",,";
    }
    text += fmt::format(",{:d},{:d}\n", head.rotated, head.biased);
  }
  return text;
}

void run(const CircuitsArguments& a, const Globals& globals) {
  check_table_output(a.output, {".svg", ".pdf", ".png", ".csv"});
  CircuitOptions options{.compositions = !a.no_compositions};
  if (!a.head.empty()) {
    const LayerPart head = parse_head(a.head, "--head");
    options.of_head = HeadIndex{head.layer, head.head};
  }
  const AnalyzedModel loaded = load_analyzed(a.model, globals);
  const AttentionKind kind = analyzed_kind(a.kind, *loaded.model, "circuits");
  if (!kind.is_self())
    throw UsageError("--kind: expected the self-attention of a stack, got " + kind.name +
                     " (a circuit is of one stream)");
  options.stack = kind.stack;
  Progress progress(globals.quiet);
  options.progress = [&](std::int64_t done, std::int64_t total) { progress.show(done, total, "layers"); };
  const Circuits circuits = weight_circuits(*loaded.model, options);
  progress.finish();
  std::vector<CircuitDirection> directions;
  if (options.of_head && circuits.heads.front().copying)
    directions = circuit_directions(*loaded.model, options.stack, *options.of_head, a.directions, a.tokens);
  HeatTable heads = circuits_table(circuits, a);
  heads.subtitle = subtitle_of(a.model, kind.name);
  std::vector<HeatTable> tables;
  if (a.head.empty()) tables.push_back(heads);
  if (!directions.empty()) tables.push_back(directions_table(directions, a.head, *loaded.tokenizer));
  if (!circuits.compositions.empty()) tables.push_back(compositions_table(circuits, a));
  const std::string json = circuits_json(circuits, directions, a, loaded.tokenizer.get());
  if (a.output.file.extension() != ".csv") return show_tables(tables, heads, json, a.output, globals);
  write_file(a.output.file, circuits_csv(circuits));
  if (!globals.quiet) print_stderr("wrote " + a.output.file.string());
  if (globals.json) fmt::print("{}\n", json);
  flush_results();
}

}  // namespace

void add_circuits(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand(
      "circuits", "Show what heads can do by their weights: copy, look at a position, read earlier heads");
  auto a = std::make_shared<CircuitsArguments>();
  add_stored_model_option(*command, a->model)->required();
  command->add_option("--kind", a->kind, "Whose self-attention (default: that of the stack that predicts)")
      ->type_name("encoder|decoder")
      ->group("Output");
  command
      ->add_option("--head", a->head,
                   "One head: the tokens that its OV circuit reads and writes, and its compositions alone")
      ->type_name("LAYER.HEAD")
      ->group("Output");
  command->add_flag("--no-compositions", a->no_compositions, "Leave out which heads read which")
      ->group("Output");
  command->add_option("--top", a->top, "Number of compositions to show, the strongest first")
      ->transform(whole_number(1))
      ->capture_default_str()
      ->type_name("N")
      ->group("Output");
  command->add_option("--directions", a->directions, "With --head: number of singular directions to show")
      ->transform(whole_number(1))
      ->capture_default_str()
      ->type_name("N")
      ->group("Output");
  command->add_option("--tokens", a->tokens, "With --head: number of tokens to show for each")
      ->transform(whole_number(1))
      ->capture_default_str()
      ->type_name("N")
      ->group("Output");
  add_table_output(*command, a->output,
                   "Write a figure (.svg, .pdf, .png), or the table of the heads (.csv)");
  command->footer(
      "Examples:\n"
      "  heed circuits --model gpt2\n"
      "  heed circuits --model gpt2 --head 5.1\n"
      "  heed circuits --model gpt2 --top 100 --json\n"
      "  heed circuits --model gpt2 --output circuits.csv");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
