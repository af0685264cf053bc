// heed heads: measures every attention head over texts, images or sounds.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/analysis_input.h"
#include "cli/cli.h"
#include "cli/input.h"
#include "cli/option_values.h"
#include "cli/task_arguments.h"
#include "cli/terminal.h"
#include "heed/inspect/analysis.h"
#include "heed/inspect/record.h"
#include "heed/io/json.h"
#include "heed/random.h"

namespace heed::cli {
namespace {

struct HeadsArguments {
  std::vector<std::string> texts;
  std::string file;
  std::optional<std::string> target;
  std::optional<std::int64_t> repeat;
  std::vector<std::string> separators;
  std::string kind;
  bool ablate = false;
  ModelChoice model;
  std::filesystem::path output;
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

// The labels are those that the model predicts.
std::vector<TensorMap> head_files(const HeadsArguments& a, const AnalyzedModel& loaded,
                                  const Globals& globals) {
  std::vector<std::string> files =
      a.file.empty() ? read_texts(file_arguments(a.texts), globals.quiet) : read_lines(a.file, globals.quiet);
  std::erase_if(files, [](const std::string& file) { return file.empty(); });
  std::vector<TensorMap> inputs;
  for (const std::string& file : files) {
    TensorMap& input = inputs.emplace_back(analyzed_file(loaded, file).inputs);
    if (!a.ablate) continue;
    labels_of(loaded, "--ablate");
    input["labels"] = Tensor::from(std::vector<std::int64_t>{predicted_label(loaded, input)}, {1});
  }
  return inputs;
}

std::vector<TensorMap> head_texts(const HeadsArguments& a, const AnalyzedModel& loaded,
                                  const Globals& globals) {
  const auto* both = dynamic_cast<const EncoderDecoderModel*>(loaded.model);
  std::vector<TensorMap> inputs;
  if (a.repeat) {
    if (both != nullptr)
      throw UsageError("--repeat: expected a model with one stack, got " + loaded.model->family());
    inputs.push_back(analyzed_ids(repeated_ids(loaded, *a.repeat, globals.seed.value_or(0))).inputs);
  } else {
    std::vector<std::string> texts =
        a.file.empty() ? read_texts(a.texts, globals.quiet) : read_lines(a.file, globals.quiet);
    std::erase_if(texts, [](const std::string& text) { return text.empty(); });
    for (const std::string& text : texts)
      inputs.push_back(
          analyzed_text(loaded, text, both != nullptr ? a.target.value_or(text) : a.target).inputs);
  }
  if (a.ablate && both == nullptr) {
    for (TensorMap& text : inputs) text["labels"] = text.at("input_ids");
  }
  return inputs;
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
                              fmt::format("head {}, {}: {:.5f}", table.rows[i], name, values[i])});
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
  if (heads.front().importance) {
    std::vector<double> values;
    for (const HeadMeasures& head : heads) values.push_back(*head.importance);
    add_column(table, "importance", values, false);
  }
  const auto noted = [](const HeadMeasures& head) { return !note_of(head).empty(); };
  if (std::none_of(heads.begin(), heads.end(), noted)) return table;
  table.columns.emplace_back("note");
  for (std::size_t i = 0; i < heads.size(); ++i) table.cells[i].push_back({note_of(heads[i]), 0});
  return table;
}

std::string heads_json(const std::vector<HeadMeasures>& heads, const Measured& measured) {
  JsonWriter json;
  json.begin_array();
  for (const HeadMeasures& head : heads) {
    json.begin_object().field("layer", head.layer).field("head", head.head);
    for (const Column& column : columns_of(measured)) json.field(column.name, head.*column.value);
    json.field("dead", head.dead)
        .field("nearest", head.nearest)
        .field("nearest_distance", head.nearest_distance);
    json.field("redundant", head.redundant);
    if (head.importance) json.field("importance", *head.importance);
    json.end_object();
  }
  return json.end_array().text();
}

HeadsOptions heads_options(const HeadsArguments& a, const AttentionKind& kind, const Tokenizer* known) {
  HeadsOptions options{.stack = kind.stack, .part = kind.part, .separators = {}, .ablate = a.ablate};
  if (known == nullptr) return options;  // of files
  const Tokenizer& tokenizer = *known;
  for (const auto& id : {tokenizer.bos_id(), tokenizer.eos_id(), tokenizer.sep_id(), tokenizer.cls_id()}) {
    if (id && a.separators.empty()) options.separators.insert(*id);
  }
  for (const std::string& token : a.separators)
    options.separators.insert(single_token(tokenizer, token, "--separator"));
  return options;
}

void run(const HeadsArguments& a, const Globals& globals) {
  check_svg_file(a.output);
  if (!a.file.empty() && !a.texts.empty())
    throw UsageError("--text: expected texts or --text FILE, got both");
  if (a.repeat && (!a.file.empty() || !a.texts.empty()))
    throw UsageError("--repeat: expected texts or --repeat, got both");
  const AnalyzedModel loaded = load_analyzed(a.model, globals);
  const AttentionKind kind = analyzed_kind(a.kind, *loaded.model, "heads");
  refuse_text_option(loaded, "--target", a.target.has_value());
  refuse_text_option(loaded, "--repeat", a.repeat.has_value());
  refuse_text_option(loaded, "--separator", !a.separators.empty());
  const std::vector<TensorMap> texts =
      loaded.reads_files() ? head_files(a, loaded, globals) : head_texts(a, loaded, globals);
  HeadsOptions options = heads_options(a, kind, loaded.tokenizer.get());
  Progress progress(globals.quiet);
  options.progress = [&](std::int64_t done, std::int64_t total) { progress.show(done, total, "heads"); };
  const std::vector<HeadMeasures> heads = measure_heads(*loaded.model, texts, options);
  progress.finish();
  warn_of_non_finite(*loaded.model,
                     std::all_of(heads.begin(), heads.end(),
                                 [](const HeadMeasures& head) {
                                   return std::isfinite(head.first) && std::isfinite(head.size);
                                 }),
                     globals);
  const Measured measured{kind, loaded};
  HeatTable table = heads_table(heads, measured);
  table.subtitle =
      subtitle_of(a.model, a.repeat              ? fmt::format("{} random tokens, twice", *a.repeat)
                           : !a.file.empty()     ? a.file
                           : a.texts.size() == 1 ? a.texts.front()
                                                 : fmt::format("{} {}s", texts.size(), loaded.reads()));
  show_table(table, heads_json(heads, measured), a.output, globals);
}

}  // namespace

void add_heads(CLI::App& app, const Globals& globals) {
  CLI::App* command =
      app.add_subcommand("heads", "Measure every attention head over texts, images or sounds");
  auto a = std::make_shared<HeadsArguments>();
  command->add_option(
      "texts", a->texts,
      "Texts, or files for a model of images or sounds, - for one on stdin; without any, the lines of stdin");
  command->add_option("--text", a->file, "File with a text, or the name of a file, in each line")
      ->type_name("FILE")
      ->group("Input");
  command
      ->add_option("--target", a->target,
                   "Target text, for the decoder of an encoder-decoder (default: the text itself)")
      ->type_name("TEXT")
      ->group("Input");
  command
      ->add_option("--repeat", a->repeat,
                   "Instead of texts: N random tokens, twice, on which induction heads show")
      ->transform(whole_number(2))
      ->type_name("N")
      ->group("Input");
  add_model_option(*command, a->model)->required();
  command
      ->add_option("--kind", a->kind,
                   "Whose self-attention, or cross-attention (default: that of the stack that predicts)")
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
      ->add_flag(
          "--ablate", a->ablate,
          "Also the importance of each head: by how much the loss, of a classifier that of the label it "
          "predicts, increases when its output is 0")
      ->group("Output");
  command->add_option("--output,-o", a->output, "Write a figure")->type_name("FILE.svg")->group("Output");
  command->footer(
      "Examples:\n"
      "  heed heads --model gpt2 \"The cat sat on the mat. The cat slept.\"\n"
      "  heed heads --model gpt2 --repeat 50 --output heads.svg\n"
      "  heed heads --model ./vit photo.jpg --ablate\n"
      "  heed heads --model gpt2 --text lines.txt --ablate --json");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
