// heed heads: measures every attention head over texts, images or sounds.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "cli/cli.h"
#include "cli/input/analysis_input.h"
#include "cli/options/ablation_options.h"
#include "cli/options/metric_options.h"
#include "cli/options/option_values.h"
#include "cli/options/task_arguments.h"
#include "cli/results/measured_ablation.h"
#include "heed/inspect/ablation.h"
#include "heed/inspect/analysis.h"
#include "heed/inspect/record.h"
#include "heed/io/json.h"
#include "heed/random.h"

namespace heed::cli {
namespace {

struct HeadsArguments {
  GivenInputs given{.text_is_target = true};
  std::optional<std::int64_t> repeat;
  std::vector<std::string> separators;
  std::string kind;
  bool ablate = false, feed_forward = false;
  AblationArguments ablation;
  MetricArguments metric;
  ModelChoice model;
  TableOutput output;

  bool ablates() const { return ablate || feed_forward || ablation.ablation.has_value(); }
  bool measures_metric() const { return ablates() || !ablation.remove.empty(); }
};

// What is read: the texts or files, with what is measured of each where heads are ablated.
struct HeadsInput {
  std::vector<TensorMap> inputs;
  std::vector<MeasuredInput> measured;
};

// A sequence of random ids, twice: what an induction head needs.
std::vector<std::int64_t> repeated_ids(const AnalyzedModel& loaded, std::int64_t count, std::uint64_t seed) {
  const RandomStream random{seed, 0};
  std::vector<std::int64_t> ids;
  for (std::uint64_t i = 0; std::ssize(ids) < count; ++i) {
    const std::int64_t id = random.word(i) % loaded.tokenizer->vocab_size();
    if (!loaded.tokenizer->is_special(id) && id < loaded.model->vocab_size()) ids.push_back(id);
  }
  ids.insert(ids.end(), ids.begin(), ids.end());
  return ids;
}

HeadsInput heads_input(const HeadsArguments& a, const AnalyzedModel& loaded, const Globals& globals) {
  HeadsInput input;
  const auto add = [&](const TensorMap& inputs, const Prompt* prompt) {
    input.inputs.push_back(inputs);
    if (a.measures_metric()) input.measured.push_back(measured_input(a.metric, loaded, inputs, prompt));
  };
  if (loaded.reads_files() && a.measures_metric()) labels_of(loaded, "--ablate");
  if (!a.repeat) {
    each_input(a.given, loaded, globals, add);
    return input;
  }
  if (dynamic_cast<const EncoderDecoderModel*>(loaded.model) != nullptr)
    throw UsageError("--repeat: expected a model with one stack, got " + loaded.model->family());
  add(analyzed_ids(repeated_ids(loaded, *a.repeat, globals.seed.value_or(0))).inputs, nullptr);
  return input;
}

// What heads and feed-forward networks do for the metric.
struct Importances {
  std::vector<Component> components = {};
  std::vector<Estimate> importance = {};  // of each component
  MeasuredAblation measured = {};
};

Importances importances(const HeadsArguments& a, const HeadsInput& input, const AttentionKind& kind,
                        const AnalyzedModel& loaded, const Globals& globals) {
  Importances found;
  if (a.ablates())
    found.components =
        components_of(*loaded.model, input.measured.front(), kind.stack, kind.part, a.feed_forward, "heads");
  found.measured =
      measure_ablation(input.measured, found.components, a.ablation, kind, a.given, loaded, globals);
  found.importance = found.measured.changes;
  for (Estimate& one : found.importance) one.mean *= sign_of_harm(found.measured.metric.kind);
  return found;
}

struct Column {
  const char* name;
  double HeadMeasures::*value;
  bool share;
  bool of_cross, of_files;
};
constexpr Column kColumns[] = {{"previous", &HeadMeasures::previous, true, false, false},
                               {"duplicate", &HeadMeasures::duplicate, true, false, false},
                               {"induction", &HeadMeasures::induction, true, false, false},
                               {"first", &HeadMeasures::first, true, true, true},
                               {"separator", &HeadMeasures::separator, true, true, false},
                               {"entropy", &HeadMeasures::entropy, false, true, true},
                               {"distance", &HeadMeasures::distance, false, false, true},
                               {"size", &HeadMeasures::size, false, true, true}};

// What is measured: a kind of attention, over texts or files.
struct Measured {
  AttentionKind kind;
  const AnalyzedModel& model;
};

std::vector<Column> columns_of(const Measured& measured) {
  std::vector<Column> columns;
  for (const Column& column : kColumns) {
    if (measured.model.reads_files() ? column.of_files : measured.kind.is_self() || column.of_cross)
      columns.push_back(column);
  }
  return columns;
}

std::string note_of(const HeadMeasures& head) {
  std::string note = head.dead ? "dead" : "";
  if (head.redundant) note += fmt::format("{}like {}.{}", note.empty() ? "" : ", ", head.layer, head.nearest);
  return note;
}

// A column of numbers, each shaded by its part of the largest, or as it is.
void add_column(HeatTable& table, const std::string& name, const std::vector<double>& values, bool share) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  table.columns.push_back(name);
  for (std::size_t i = 0; i < values.size(); ++i)
    table.cells[i].push_back({fmt::format("{:.3f}", values[i]),
                              share || largest == 0 ? values[i] : values[i] / largest,
                              fmt::format("head {}, {}: {:.5f}", table.rows[i], name, values[i]), values[i]});
}

// The importance of every component; rows of feed-forward networks have nothing else.
void add_importance(HeatTable& table, const Importances& found) {
  double largest = 0;
  for (const Estimate& one : found.importance) largest = std::max(largest, std::abs(one.mean));
  std::map<std::string, std::size_t> rows;
  for (std::size_t i = 0; i < table.rows.size(); ++i) rows[table.rows[i]] = i;
  const std::size_t before = table.columns.size();
  table.columns.emplace_back("importance");
  for (std::size_t i = 0; i < found.components.size(); ++i) {
    const Component& c = found.components[i];
    const Estimate& one = found.importance[i];
    const std::string name =
        c.head < 0 ? fmt::format("{}.ff", c.layer) : fmt::format("{}.{}", c.layer, c.head);
    if (rows.emplace(name, table.rows.size()).second) {
      table.rows.push_back(name);
      table.cells.emplace_back(before, HeatCell{"", 0});
    }
    HeatCell cell{found.measured.text(one), largest > 0 ? one.mean / largest : 0,
                  fmt::format("{}, importance: {:.5f}", name, one.mean), one.mean};
    if (found.measured.has_errors) cell.error = one.error;
    table.cells[rows.at(name)].push_back(cell);
  }
}

// What the importance is of, and what is removed.
std::string metric_legend(const Importances& found, const HeadsArguments& a, const AnalyzedModel& loaded) {
  const MeasuredAblation& measured = found.measured;
  const std::string metric = a.given.prompts.empty() ? text_of(measured.metric, loaded)
                                                     : text_of({.kind = measured.metric.kind}, loaded);
  std::string legend = metric + " " + measured.text(measured.whole);
  if (!a.ablation.remove.empty())
    legend += fmt::format(", without {} {}", a.ablation.remove, measured.text(measured.removed));
  if (!a.ablates()) return legend;
  return legend + fmt::format("; importance: how much this {} with {} in the place of the output",
                              sign_of_harm(measured.metric.kind) > 0 ? "grows" : "falls",
                              a.ablation.replacement());
}

HeatTable heads_table(const std::vector<HeadMeasures>& heads, const Measured& measured) {
  const AttentionKind& kind = measured.kind;
  const char* far = !measured.model.reads_files()                    ? "distance in tokens; "
                    : measured.model.reads() == std::string("image") ? "distance in patches; "
                                                                     : "distance in parts; ";
  HeatTable table{.title = "Attention heads",
                  .rows_title = "head",
                  .legend = std::string("shares of weight from 0 to 1; entropy in nats; ") +
                            (kind.is_self() ? far : "") +
                            "size of what the head adds, relative to the stream",
                  .shade_legend = "shares as they are, other numbers by the largest of their column",
                  .rows = {},
                  .columns = {},
                  .cells = std::vector<std::vector<HeatCell>>(heads.size())};
  if (kind.name == "cross") table.title += " of cross-attention";
  for (const HeadMeasures& head : heads) table.rows.push_back(fmt::format("{}.{}", head.layer, head.head));
  for (const Column& column : columns_of(measured)) {
    std::vector<double> values;
    for (const HeadMeasures& head : heads) values.push_back(head.*column.value);
    add_column(table, column.name, values, column.share);
  }
  return table;
}

// A last column, where there is anything to note.
void add_notes(HeatTable& table, const std::vector<HeadMeasures>& heads) {
  const auto noted = [](const HeadMeasures& head) { return !note_of(head).empty(); };
  if (std::none_of(heads.begin(), heads.end(), noted)) return;
  table.columns.emplace_back("note");
  for (std::size_t i = 0; i < table.rows.size(); ++i)
    table.cells[i].push_back({i < heads.size() ? note_of(heads[i]) : "", 0});
}

// Of a component, if it was ablated; and what all have in common.
void write_metric(JsonWriter& json, const Importances& found, std::optional<std::size_t> component,
                  const AblationArguments& arguments) {
  if (component) found.measured.write(json, "importance", found.importance[*component]);
  found.measured.write_totals(json, arguments);
}

std::string heads_json(const std::vector<HeadMeasures>& heads, const Measured& measured,
                       const std::optional<Importances>& found, const HeadsArguments& a) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> components;
  for (std::size_t i = 0; found && i < found->components.size(); ++i)
    components[{found->components[i].layer, found->components[i].head}] = i;
  JsonWriter json;
  json.begin_array();
  for (const HeadMeasures& head : heads) {
    json.begin_object().field("layer", head.layer).field("head", head.head);
    for (const Column& column : columns_of(measured)) json.field(column.name, head.*column.value);
    json.field("dead", head.dead)
        .field("nearest", head.nearest)
        .field("nearest_distance", head.nearest_distance);
    json.field("redundant", head.redundant);
    const auto own = components.find({head.layer, head.head});
    if (found)
      write_metric(json, *found, own == components.end() ? std::nullopt : std::optional(own->second),
                   a.ablation);
    json.end_object();
  }
  for (const auto& [place, i] : components) {
    if (place.second >= 0) continue;
    json.begin_object().field("layer", place.first).field("part", "feed_forward");
    write_metric(json, *found, i, a.ablation);
    json.end_object();
  }
  return json.end_array().text();
}

HeadsOptions heads_options(const HeadsArguments& a, const AttentionKind& kind, const Tokenizer* known) {
  HeadsOptions options{.stack = kind.stack, .part = kind.part, .separators = {}};
  if (known == nullptr) return options;  // of files
  const Tokenizer& tokenizer = *known;
  for (const auto& id : {tokenizer.bos_id(), tokenizer.eos_id(), tokenizer.sep_id(), tokenizer.cls_id()}) {
    if (id && a.separators.empty()) options.separators.insert(*id);
  }
  for (const std::string& token : a.separators)
    options.separators.insert(single_token(tokenizer, token, "--separator"));
  return options;
}

void check_arguments(const HeadsArguments& a) {
  check_table_output(a.output);
  const int given =
      !a.given.texts.empty() + !a.given.file.empty() + a.repeat.has_value() + !a.given.prompts.empty();
  const char* option = a.repeat ? "--repeat" : !a.given.prompts.empty() ? "--prompts" : "--text";
  if (given > 1)
    throw UsageError(fmt::format("{0}: expected texts or {0}{1}, got both", option, a.repeat ? "" : " FILE"));
  check_ablation(a.ablation);
  const MetricArguments& m = a.metric;
  if (!a.measures_metric() && (m.metric || m.chosen.given() || m.other || m.position))
    throw UsageError("--metric: needs --ablate or --remove");
}

void run(const HeadsArguments& a, const Globals& globals) {
  check_arguments(a);
  const AnalyzedModel loaded = load_analyzed(a.model, globals);
  const AttentionKind kind = analyzed_kind(a.kind, *loaded.model, "heads");
  refuse_text_option(loaded, "--target", a.given.target.has_value());
  refuse_text_option(loaded, "--repeat", a.repeat.has_value());
  refuse_text_option(loaded, "--prompts", !a.given.prompts.empty());
  refuse_text_option(loaded, "--separator", !a.separators.empty());
  const HeadsInput input = heads_input(a, loaded, globals);
  const std::vector<HeadMeasures> heads =
      measure_heads(*loaded.model, input.inputs, heads_options(a, kind, loaded.tokenizer.get()));
  std::optional<Importances> found;
  if (a.measures_metric()) found = importances(a, input, kind, loaded, globals);
  warn_of_non_finite(*loaded.model,
                     std::all_of(heads.begin(), heads.end(),
                                 [](const HeadMeasures& head) {
                                   return std::isfinite(head.first) && std::isfinite(head.size);
                                 }),
                     globals);
  const Measured measured{kind, loaded};
  HeatTable table = heads_table(heads, measured);
  if (a.ablates()) add_importance(table, *found);
  if (found) table.legend = metric_legend(*found, a, loaded) + "; " + table.legend;
  add_notes(table, heads);
  table.subtitle = subtitle_of(a.model, a.repeat ? fmt::format("{} random tokens, twice", *a.repeat)
                                                 : a.given.title(loaded, input.inputs.size()));
  show_table(table, heads_json(heads, measured, found, a), a.output, globals);
}

}  // namespace

void add_heads(CLI::App& app, const Globals& globals) {
  CLI::App* command =
      app.add_subcommand("heads", "Measure every attention head over texts, images or sounds");
  auto a = std::make_shared<HeadsArguments>();
  command->add_option(
      "texts", a->given.texts,
      "Texts, or files for a model of images or sounds, - for one on stdin; without any, the lines of stdin");
  command->add_option("--text", a->given.file, "File with a text, or the name of a file, in each line")
      ->type_name("FILE")
      ->group("Input");
  command
      ->add_option("--prompts", a->given.prompts,
                   "Instead of texts: rows with clean, and A and B for --token and --other; means have a "
                   "standard error")
      ->type_name("FILE.jsonl|.tsv|.csv")
      ->group("Input");
  command
      ->add_option("--target", a->given.target,
                   "Target text, for the decoder of an encoder-decoder (default: the text itself)")
      ->type_name("TEXT")
      ->group("Input");
  command
      ->add_option(
          "--repeat", a->repeat,
          "Instead of texts: N random tokens, then the same again. Induction heads, which attend to what "
          "followed an earlier occurrence of the token, stand out there")
      ->transform(whole_number(2))
      ->type_name("N")
      ->group("Input");
  add_model_option(*command, a->model)->required();
  command
      ->add_option(
          "--kind", a->kind,
          "Which attention is measured: self-attention of the encoder or decoder, or cross-attention "
          "(default: self-attention; of an encoder-decoder, the decoder's)")
      ->type_name("encoder|decoder|cross")
      ->group("Output");
  command
      ->add_option(
          "--separator", a->separators,
          "A token that counts as separator (default: the tokens of the tokenizer that begin, separate "
          "and end texts)")
      ->allow_extra_args(false)
      ->type_name("TOKEN")
      ->group("Output");
  command
      ->add_flag("--ablate", a->ablate,
                 "Also the importance of each head: by how much --metric gets worse without its output")
      ->group("Ablation");
  command
      ->add_flag("--feed-forward", a->feed_forward,
                 "Ablate feed-forward networks too: what they add to the stream (implies --ablate)")
      ->group("Ablation");
  add_ablation_options(*command, a->ablation, " (implies --ablate)");
  add_metric_options(*command, a->metric,
                     "the loss per token; of a classifier, that of the label it predicts");
  add_table_output(*command, a->output, kTableOutput);
  command->footer(
      "Columns: previous, duplicate, induction, first and separator are mean weights on the token\n"
      "before, on earlier equal tokens, on the tokens that followed those, on the first token and on\n"
      "separators; entropy (nats) and distance (tokens) are those of the weights; size is the length of\n"
      "what a head adds to the residual stream, over the length of the stream.\n\n"
      "Examples:\n"
      "  heed heads --model gpt2 \"The cat sat on the mat. The cat slept.\"\n"
      "  heed heads --model gpt2 --repeat 50 --output heads.svg\n"
      "  heed heads --model ./vit photo.jpg --ablate\n"
      "  heed heads --model gpt2 --text lines.txt --ablation mean --reference corpus.txt --json\n"
      "  heed heads --model gpt2 \"The capital of France is\" --remove 5.1,6.0 --metric probability --token "
      "\" Paris\"\n"
      "  heed heads --model gpt2 --prompts prompts.tsv --ablate --feed-forward --output importance.csv");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
