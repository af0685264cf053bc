// heed quantize: writes a model whose linear maps have a few bits for each number.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "cli/cli.h"
#include "cli/input/input.h"
#include "cli/input/models.h"
#include "cli/options/task_arguments.h"
#include "cli/results/agreement.h"
#include "cli/results/written_model.h"
#include "cli/terminal/terminal.h"
#include "files/input_file.h"
#include "heed/autograd.h"
#include "heed/files/file.h"
#include "heed/generate/perplexity.h"
#include "heed/io/json.h"
#include "heed/models/registry.h"
#include "heed/text/tokenizer.h"
#include "tensor/quantized_matrix.h"

namespace heed::cli {
namespace {

struct QuantizeArguments {
  ModelChoice model;
  WrittenModel to;
  int bits = 4;
  int output_bits = 0;
  std::int64_t group = 64;
  std::string method = "rtn";
  std::string type = "q4_0";
  std::string calibrate;
  std::int64_t tokens = 32768;
  std::string compare;
};

constexpr std::int64_t kCalibrationWindow = 512;

bool writes_gguf(const QuantizeArguments& a) { return a.to.output.extension() == ".gguf"; }

QuantizeMethod method_named(const QuantizeArguments& a) {
  if (a.method != "rtn" && a.method != "gptq" && a.method != "awq")
    throw UsageError("--method: expected rtn, gptq or awq, got " + a.method);
  if (a.method != "rtn" && a.calibrate.empty())
    throw UsageError("--calibrate: missing, which --method " + a.method + " needs");
  if (a.method == "rtn" && !a.calibrate.empty())
    throw UsageError("--calibrate: expected with --method gptq or awq only (rtn looks at no text)");
  if (a.method == "rtn") return QuantizeMethod::nearest;
  return a.method == "gptq" ? QuantizeMethod::gptq : QuantizeMethod::awq;
}

GgufType gguf_type_named(const std::string& name) {
  if (name == "q8_0") return GgufType::q8_0;
  if (name == "q4_0") return GgufType::q4_0;
  if (name == "q4_1") return GgufType::q4_1;
  throw UsageError("--type: expected q8_0, q4_0 or q4_1, got " + name);
}

// Runs a model on the first tokens of a text, an encoder-decoder on pairs of texts.
class Calibration {
 public:
  Calibration(const QuantizeArguments& a, const Model& model, const std::filesystem::path& directory,
              const Globals& globals)
      : model_(model), globals_(globals) {
    if (model.input().kind != InputKind::tokens || dynamic_cast<const DualEncoderModel*>(&model) != nullptr) {
      throw Error(directory.string() + ": expected a model of texts to calibrate, got " + model.family() +
                  " (use --method rtn)");
    }
    const std::string text = valid_text(read_file(a.calibrate), a.calibrate, globals.quiet);
    const auto tokenizer = load_tokenizer(directory);
    window_ = std::min(kCalibrationWindow, model.max_positions().value_or(kCalibrationWindow));
    if (dynamic_cast<const EncoderDecoderModel*>(&model) != nullptr) {
      add_pairs(*tokenizer, text, a);
    } else if (dynamic_cast<const DecoderModel*>(&model) != nullptr) {
      add_windows(tokenizer->encode(text).ids, a.tokens);
    } else {
      std::istringstream lines(text);
      const Truncation truncation{.max_length = window_};
      std::int64_t count = 0;
      for (std::string line; count < a.tokens && std::getline(lines, line);) {
        const std::vector<std::int64_t> ids = tokenizer->encode_truncated(line, std::nullopt, truncation).ids;
        if (ids.empty()) continue;
        windows_.push_back({ids, {}});
        count += std::ssize(ids);
      }
    }
    if (windows_.empty()) throw Error(a.calibrate + ": expected a text of at least two tokens, got fewer");
  }

  void operator()() const {
    Progress progress(globals_.quiet);
    std::int64_t done = 0;
    for (const Window& window : windows_) {
      stop_if_asked();
      const ModelInput input{.ids = row_of(window.ids)};
      Context context;
      if (const auto* both = dynamic_cast<const EncoderDecoderModel*>(&model_)) {
        both->loss(input, row_of(window.target), {}, context);
      } else if (const auto* decoder = dynamic_cast<const DecoderModel*>(&model_)) {
        decoder->encode(input, context);
      } else {
        dynamic_cast<const EncoderModel&>(model_).encode(input, context);
      }
      progress.show(++done, std::ssize(windows_), "windows");
    }
    progress.finish();
  }

 private:
  struct Window {
    std::vector<std::int64_t> ids, target;
  };

  static Tensor row_of(const std::vector<std::int64_t>& ids) {
    return Tensor::from(ids, {1, std::ssize(ids)});
  }

  // A source and a target a line; both count.
  void add_pairs(const Tokenizer& tokenizer, const std::string& text, const QuantizeArguments& a) {
    std::istringstream lines(text);
    const Truncation truncation{.max_length = window_};
    std::int64_t count = 0, number = 1;
    for (std::string line; count < a.tokens && std::getline(lines, line); ++number) {
      const std::size_t tab = line.find('\t');
      if (tab == std::string::npos)
        throw Error(
            fmt::format("{}: line {}: expected a source, a tab and a target, got no tab (an "
                        "encoder-decoder is calibrated with pairs)",
                        a.calibrate, number));
      Window pair{tokenizer.encode_truncated(line.substr(0, tab), std::nullopt, truncation).ids,
                  tokenizer.encode_target(line.substr(tab + 1)).ids};
      if (std::ssize(pair.target) > window_) pair.target.resize(static_cast<std::size_t>(window_));
      if (pair.ids.empty() || pair.target.empty()) continue;
      count += std::ssize(pair.ids) + std::ssize(pair.target);
      windows_.push_back(std::move(pair));
    }
  }

  void add_windows(const std::vector<std::int64_t>& ids, std::int64_t most) {
    const std::int64_t count = std::min<std::int64_t>(std::ssize(ids), most);
    for (std::int64_t begin = 0; begin < count; begin += window_)
      windows_.push_back({{ids.begin() + begin, ids.begin() + std::min(begin + window_, count)}, {}});
  }

  const Model& model_;
  const Globals& globals_;
  std::int64_t window_ = 0;
  std::vector<Window> windows_;
};

std::string percent(double error) { return fmt::format("  {:6.2f}%", 100 * error); }

// What the model computes of --compare's texts before it is quantized.
class Comparison {
 public:
  Comparison(const QuantizeArguments& a, const Model& model, const std::filesystem::path& directory,
             const Globals& globals) {
    if (a.compare.empty()) return;
    texts_ = read_lines(a.compare, globals.quiet);
    if (texts_.empty()) throw Error(a.compare + ": expected texts, one a line, got none");
    before_.emplace(model, directory, texts_);
  }
  // After that, of a model in `directory`.
  void see(const Model& model, const std::filesystem::path& directory) {
    if (before_) after_.emplace(model, directory, texts_);
  }
  void write(JsonWriter& json) const {
    if (after_) before_->write_agreement(*after_, json.key("agreement"));
  }
  void print() const {
    if (after_) fmt::print("{}\n", before_->agreement_text(*after_));
  }

 private:
  std::vector<std::string> texts_;
  std::optional<TextResults> before_, after_;
};

void print_report(const QuantizeReport& report, const Comparison& comparison, const QuantizeArguments& a,
                  const Globals& globals) {
  if (globals.json) {
    JsonWriter json;
    json.begin_object();
    if (writes_gguf(a)) {
      json.field("type", a.type);
    } else {
      json.field("bits", a.bits).field("group", a.group).field("method", a.method);
    }
    json.key("maps").begin_array();
    for (const QuantizedMap& map : report.maps) {
      json.begin_object().field("name", map.name).field("weight_error", map.weight_error);
      if (map.output_error) json.field("output_error", *map.output_error);
      json.end_object();
    }
    json.end_array().field("kept", report.kept);
    comparison.write(json);
    fmt::print("{}\n", json.end_object().text());
    return;
  }
  const bool outputs = !report.maps.empty() && report.maps.front().output_error.has_value();
  std::size_t width = 0;
  for (const QuantizedMap& map : report.maps) width = std::max(width, map.name.size());
  fmt::print("{:<{}}  weights{}\n", "relative error of", width, outputs ? "  outputs" : "");
  double weights = 0, results = 0;
  for (const QuantizedMap& map : report.maps) {
    weights += map.weight_error;
    results += map.output_error.value_or(0);
    fmt::print("{:<{}}{}", map.name, width, percent(map.weight_error));
    fmt::print("{}\n", outputs ? percent(*map.output_error) : "");
  }
  const auto count = static_cast<double>(report.maps.size());
  if (count > 0)
    fmt::print("{:<{}}{}{}\n", fmt::format("mean of {} maps", report.maps.size()), width,
               percent(weights / count), outputs ? percent(results / count) : "");
  for (const std::string& name : report.kept) fmt::print("kept as it is: {}\n", name);
  comparison.print();
}

// Options of one kind of output, given for the other.
void check_output(const QuantizeArguments& a, const CLI::App& command) {
  if (!writes_gguf(a)) {
    if (command.count("--type") > 0)
      throw UsageError("--type: expected with --output FILE.gguf only (a directory has --bits and --group)");
    return;
  }
  for (const char* name : {"--bits", "--output-bits", "--group", "--method", "--calibrate", "--dtype"}) {
    if (command.count(name) > 0)
      throw UsageError(std::string(name) +
                       ": expected with a directory as --output only (a GGUF file has --type)");
  }
}

void warn_of_second_rounding(const Model& model, const std::filesystem::path& from, const Globals& globals) {
  const std::vector<Parameter>& all = model.parameters();
  const bool quantized = std::any_of(all.begin(), all.end(),
                                     [](const Parameter& p) { return quantized_of(p.tensor) != nullptr; });
  if (quantized && !globals.quiet)
    warn(from.string() +
         ": its weights are quantized already, and are rounded a second time (start from the original where "
         "there is one)");
}

void write_gguf_file(const QuantizeArguments& a, const Globals& globals) {
  const GgufType type = gguf_type_named(a.type);
  const LocatedModel located = locate_model(a.model);
  const auto model = load_model(located.directory, DType::f32, located.adapters);
  warn_of_unknown_settings(*model, located.directory, globals);
  warn_of_second_rounding(*model, located.directory, globals);
  model->merge_adapters();
  Comparison comparison(a, *model, located.directory, globals);
  const QuantizeReport report = model->save_gguf(a.to.output, type, located.directory);
  if (!a.compare.empty()) comparison.see(*load_model(a.to.output), a.to.output);
  if (!globals.quiet) print_stderr("wrote " + a.to.output.string());
  print_report(report, comparison, a, globals);
}

void run(const QuantizeArguments& a, const CLI::App& command, const Globals& globals) {
  check_output(a, command);
  if (writes_gguf(a)) return write_gguf_file(a, globals);
  if (a.bits != 4 && a.bits != 8) throw UsageError("--bits: expected 4 or 8, got " + std::to_string(a.bits));
  if (command.count("--output-bits") > 0 && a.output_bits != 4 && a.output_bits != 8)
    throw UsageError("--output-bits: expected 4 or 8, got " + std::to_string(a.output_bits));
  if (a.group < 32 || a.group % 32 != 0)
    throw UsageError("--group: expected a multiple of 32, got " + std::to_string(a.group));
  QuantizeOptions options{.bits = a.bits, .group = a.group, .method = method_named(a)};
  a.to.check();
  const LocatedModel located = locate_model(a.model);
  options.scale_type = a.to.type(located.directory);
  options.output_bits = a.output_bits;
  WeightOptions held;
  held.separate_output = a.output_bits > 0;
  const auto model = load_model(located.directory, held, located.adapters);
  warn_of_unknown_settings(*model, located.directory, globals);
  warn_of_second_rounding(*model, located.directory, globals);
  model->merge_adapters();
  std::optional<Calibration> calibration;
  if (options.method != QuantizeMethod::nearest) calibration.emplace(a, *model, located.directory, globals);
  Comparison comparison(a, *model, located.directory, globals);
  const QuantizeReport report = model->quantize(options, [&] { (*calibration)(); });
  comparison.see(*model, located.directory);
  a.to.write(*model, located.directory, options.scale_type, globals);
  print_report(report, comparison, a, globals);
}

}  // namespace

void add_quantize(CLI::App& app, const Globals& globals) {
  CLI::App* command =
      app.add_subcommand("quantize", "Write a model with 4 or 8 bits for each number of its linear maps");
  auto a = std::make_shared<QuantizeArguments>();
  add_stored_model_option(*command, a->model)->required();
  a->to.add_options(*command, "Directory to write the model to, or FILE.gguf", "PATH");
  command->add_option("--bits", a->bits, "Bits of a number")
      ->type_name("4|8")
      ->capture_default_str()
      ->group("Codes");
  command
      ->add_option("--output-bits", a->output_bits,
                   "Bits of the output map too, which is written apart from the table of tokens")
      ->type_name("4|8")
      ->group("Codes");
  command->add_option("--group", a->group, "Numbers of a row that share a scale: a multiple of 32")
      ->type_name("N")
      ->capture_default_str()
      ->group("Codes");
  command->add_option("--type", a->type, "Blocks of a GGUF file: 8 bits, 4 bits, or 4 bits with an offset")
      ->type_name("q8_0|q4_0|q4_1")
      ->capture_default_str()
      ->group("Codes");
  command
      ->add_option(
          "--method", a->method,
          "rtn: each number to the nearest code; gptq: such that the results for --calibrate change least; "
          "awq: the same by scaling what the maps read")
      ->type_name("rtn|gptq|awq")
      ->capture_default_str()
      ->group("Codes");
  command
      ->add_option(
          "--calibrate", a->calibrate,
          "A text like those that the model will read (gptq, awq); for an encoder-decoder, a source, "
          "a tab and a target a line")
      ->type_name("FILE")
      ->group("Codes");
  command->add_option("--calibrate-tokens", a->tokens, "How many tokens of it to use")
      ->type_name("N")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->group("Codes");
  command
      ->add_option("--compare", a->compare,
                   "Texts, one a line: print how their vectors (and labels) agree with those of the model "
                   "before")
      ->type_name("FILE")
      ->group("Output");
  command->footer(
      "A directory is compressed-tensors (pack-quantized), which transformers and vLLM read. The tables of "
      "tokens and\n"
      "the heads of encoders keep their type, and so does the output map without --output-bits. A file "
      "ending in\n"
      ".gguf is for llama.cpp: decoders like LLaMA, with their tokenizer. heed evaluate --text tells what it "
      "costs.\n\n"
      "Examples:\n"
      "  heed quantize --model SmolLM2-135M --output smol-4bit\n"
      "  heed quantize --model SmolLM2-135M --bits 8 --group 128 --output smol-8bit\n"
      "  heed quantize --model opus-mt-en-de --bits 8 --output-bits 8 --output en-de-8bit\n"
      "  heed quantize --model SmolLM2-135M --type q8_0 --output smol-q8_0.gguf\n"
      "  heed quantize --model SmolLM2-135M --method gptq --calibrate wiki.txt --output smol-gptq");
  command->callback([a, command, &globals] { run(*a, *command, globals); });
}

}  // namespace heed::cli
