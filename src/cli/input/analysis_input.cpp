// Models, texts, files and tables of the analyses.
#include "cli/input/analysis_input.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "cli/input/text_tensors.h"
#include "cli/terminal/terminal.h"
#include "core/strings.h"
#include "files/input_file.h"
#include "heed/autograd.h"
#include "heed/files/file.h"
#include "heed/models/registry.h"
#include "inspect/patch_grid.h"

namespace heed::cli {
namespace {

constexpr double kScreenInch = 96, kPrintInch = 300, kMostWidth = 20000;

bool is_figure(const std::filesystem::path& file) {
  return file.extension() == ".svg" || file.extension() == ".pdf" || file.extension() == ".png";
}

HeatTableStyle figure_style(const TableOutput& output) {
  if (output.width.empty()) return {};
  double number = 0;
  const char* end = output.width.data() + output.width.size();
  const auto read = std::from_chars(output.width.data(), end, number);
  const std::string unit(read.ptr, end);
  const bool print = unit == "mm";
  const double width = print ? number * kScreenInch / 25.4 : number;
  if (read.ec != std::errc() || (!print && !unit.empty() && unit != "px") ||
      !(width >= 1 && width <= kMostWidth))
    throw UsageError("--width: expected a width of 1 to 20000 pixels, such as 85mm or 640, got " +
                     output.width);
  return {.width = width, .resolution = print ? kPrintInch / kScreenInch : 1};
}

std::string table_figure(HeatTable table, const TableOutput& output) {
  if (output.title) table.title = *output.title;
  if (output.no_title) table.title = table.subtitle = "";
  const auto draw = output.file.extension() == ".png"   ? heat_table_png
                    : output.file.extension() == ".pdf" ? heat_table_pdf
                                                        : heat_table_svg;
  return draw(table, figure_style(output));
}

}  // namespace

const char* AnalyzedModel::reads() const {
  return !reads_files() ? "text" : model->input().is_image() ? "image" : "sound";
}

AnalyzedModel load_analyzed(const ModelChoice& choice, const Globals& globals) {
  const LocatedModel located = locate_model(choice);
  AnalyzedModel analyzed{load_model(located, DType::f32)};
  warn_of_unknown_settings(*analyzed.loaded, located.directory, globals);
  analyzed.model = analyzed.loaded.get();
  if (const auto* dual = dynamic_cast<const DualEncoderModel*>(analyzed.model))
    analyzed.model = &dual->image();
  if (!analyzed.reads_files()) {
    analyzed.tokenizer = load_tokenizer(located.directory);
    return analyzed;
  }
  if (dynamic_cast<const EncoderModel*>(analyzed.model) == nullptr)
    throw Error(located.directory.string() +
                ": expected a model that reads text, or an encoder of images or "
                "sounds, got " +
                kind_of(*analyzed.model));
  analyzed.processor = tasks::load_file_processor(analyzed.model->input(), located.directory);
  return analyzed;
}

AnalyzedFile analyzed_file(const AnalyzedModel& model, const std::string& file) {
  const InputSpec input = model.model->input();
  AnalyzedFile result{tasks::file_input(input, model.processor, file).tensors, {}};
  const auto grid = inspect::patch_grid(input, result.inputs);
  if (!grid)
    throw Error(shown_name(file) + ": expected at least one part, got " + result.inputs.at(input.name).str());
  result.parts = inspect::part_labels(input, result.inputs, *grid);
  return result;
}

const std::vector<std::string>& labels_of(const AnalyzedModel& model, const char* where) {
  const auto& encoder = dynamic_cast<const EncoderModel&>(*model.model);
  if (encoder.head() != EncoderHead::sequence)
    throw Error(std::string(where) + ": expected a classifier, got " + kind_of(encoder) + " without labels");
  return encoder.labels();
}

std::int64_t predicted_label(const AnalyzedModel& model, const TensorMap& inputs) {
  const NoGradients guard;
  const std::vector<float> logits = model.model->forward(inputs).at("logits").to_vector<float>();
  return std::max_element(logits.begin(), logits.end()) - logits.begin();
}

std::string label_name(const std::vector<std::string>& labels, std::int64_t label) {
  const auto index = static_cast<std::size_t>(label);
  return index < labels.size() ? labels[index] : std::to_string(label);
}

void refuse_text_option(const AnalyzedModel& model, const char* option, bool given) {
  if (given && model.reads_files())
    throw UsageError(std::string(option) + ": expected a model that reads text, got " +
                     kind_of(*model.model));
}

std::string subtitle_of(const ModelChoice& choice, const std::string& text) {
  return title_of(choice) + ": " + text;
}

std::vector<std::string> tokens_of(const std::vector<std::int64_t>& ids, const Tokenizer& tokenizer) {
  std::vector<std::string> names;
  for (const std::int64_t id : ids) names.push_back(tokenizer.token(id));
  return names;
}

AnalyzedText analyzed_text(const AnalyzedModel& loaded, const std::string& text,
                           const std::optional<std::string>& target) {
  const auto* both = dynamic_cast<const EncoderDecoderModel*>(loaded.model);
  if (both == nullptr && target)
    throw UsageError("--target: expected an encoder-decoder, got " + loaded.model->family());
  if (both != nullptr && !target)
    throw UsageError("--target: missing (the decoder of " + loaded.model->family() + " reads a target text)");
  const Encoding encoding = loaded.tokenizer->encode(text);
  if (encoding.ids.empty()) throw Error("missing text (give one with at least one token)");
  AnalyzedText result = analyzed_ids(encoding.ids);
  if (both == nullptr) return result;
  TextTensors tensors = side_by_side(std::vector<Encoding>{encoding}, both->pad_id(), false);
  add_targets(tensors, std::vector<Encoding>{loaded.tokenizer->encode_target(*target)}, *both);
  result.inputs = tensors.tensors;
  result.ids = result.inputs.at("decoder_input_ids").to_vector<std::int64_t>();
  return result;
}

AnalyzedText analyzed_ids(const std::vector<std::int64_t>& ids) {
  AnalyzedText result;
  result.ids = result.source_ids = ids;
  result.inputs["input_ids"] = Tensor::from(ids, {1, static_cast<std::int64_t>(ids.size())});
  return result;
}

std::int64_t single_token(const Tokenizer& tokenizer, const std::string& text, const char* option) {
  const std::vector<std::int64_t> ids = tokenizer.encode(text, false).ids;
  if (ids.size() == 1) return ids.front();
  if (const auto id = tokenizer.token_to_id(text)) return *id;
  if (text.starts_with(" ") && text.size() > 1) {  // of tokenizers that put a space before every text
    const std::vector<std::int64_t> bare = tokenizer.encode(std::string_view(text).substr(1), false).ids;
    if (bare.size() == 1) return bare.front();
  }
  std::string tokens;
  for (const std::int64_t id : ids) tokens += (tokens.empty() ? "" : " ") + tokenizer.token(id);
  throw UsageError(fmt::format("{}: expected one token, got {} ({})", option, ids.size(), tokens));
}

std::size_t index_of_kind(const std::string& kind, const std::vector<std::string>& kinds) {
  const auto found = std::find(kinds.begin(), kinds.end(), kind);
  if (found != kinds.end()) return static_cast<std::size_t>(found - kinds.begin());
  if (kinds.size() == 1)
    throw UsageError("--kind: expected " + kinds.front() + ", the only kind of this model, got " + kind);
  throw UsageError("--kind: expected " + alternatives(kinds) + ", got " + kind);
}

AttentionKind analyzed_kind(const std::string& kind, const Model& model, const char* where) {
  const auto* both = dynamic_cast<const EncoderDecoderModel*>(&model);
  if (both != nullptr && !both->has_self_attention())
    throw Error(std::string(where) + ": expected a model with heads and residual streams, got " +
                model.family() + " (heed attend shows its attention)");
  const std::vector<AttentionKind> kinds = attention_kinds(model);
  std::vector<std::string> names;
  for (const AttentionKind& one : kinds) names.push_back(one.name);
  const bool decodes = both != nullptr || dynamic_cast<const DecoderModel*>(&model) != nullptr;
  return kinds[index_of_kind(!kind.empty() ? kind : decodes ? "decoder" : "encoder", names)];
}

void add_table_output(CLI::App& command, TableOutput& output, const char* description) {
  command.add_option("--output,-o", output.file, description)->type_name("FILE")->group("Output");
  auto* title =
      command.add_option("--title", output.title, "Title of the figure")->type_name("TEXT")->group("Output");
  command.add_flag("--no-title", output.no_title, "Leave out the title of the figure, and what is under it")
      ->excludes(title)
      ->group("Output");
  command
      .add_option(
          "--width", output.width,
          "Width of the figure: 85mm (a column; PNG has 300 pixels to the inch), or 640 pixels, 96 to the "
          "inch (default: as wide as the table)")
      ->type_name("N|Nmm")
      ->group("Output");
}

void check_table_output(const TableOutput& output, const std::vector<std::string>& endings) {
  const std::string ending = output.file.extension().string();
  if (!output.file.empty() && std::find(endings.begin(), endings.end(), ending) == endings.end()) {
    throw UsageError("--output: expected a file ending in " + alternatives(endings) + ", got " +
                     output.file.string());
  }
  const char* option = output.title            ? "--title"
                       : output.no_title       ? "--no-title"
                       : !output.width.empty() ? "--width"
                                               : nullptr;
  if (option != nullptr && !is_figure(output.file))
    throw UsageError(std::string(option) + ": expected with --output FILE.svg, FILE.pdf or FILE.png");
  figure_style(output);
}

void show_tables(const std::vector<HeatTable>& tables, const HeatTable& figure, const std::string& json,
                 const TableOutput& output, const Globals& globals) {
  if (!output.file.empty()) {
    write_file(output.file, output.file.extension() == ".csv"   ? heat_table_csv(figure)
                            : output.file.extension() == ".npz" ? heat_table_npz(figure)
                                                                : table_figure(figure, output));
    if (!globals.quiet) print_stderr("wrote " + output.file.string());
  }
  if (globals.json) {
    fmt::print("{}\n", json);
  } else if (output.file.empty()) {
    for (std::size_t i = 0; i < tables.size(); ++i)
      fmt::print("{}{}", i > 0 ? "\n" : "", heat_table_text(tables[i], color_stdout()));
  }
  flush_results();
}

void show_table(const HeatTable& table, const std::string& json, const TableOutput& output,
                const Globals& globals) {
  show_tables({table}, table, json, output, globals);
}

}  // namespace heed::cli
