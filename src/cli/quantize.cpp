// heed quantize: writes a model whose linear maps have a few bits for each number.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "cli/cli.h"
#include "cli/input.h"
#include "cli/models.h"
#include "cli/task_arguments.h"
#include "cli/terminal.h"
#include "cli/written_model.h"
#include "files/input_file.h"
#include "heed/autograd.h"
#include "heed/files/file.h"
#include "heed/generate/perplexity.h"
#include "heed/io/json.h"
#include "heed/models/registry.h"
#include "heed/text/tokenizer.h"

namespace heed::cli {
namespace {

struct QuantizeArguments {
  ModelChoice model;
  WrittenModel to;
  int bits = 4;
  std::int64_t group = 64;
  std::string method = "rtn";
  std::string calibrate;
  std::int64_t tokens = 32768;
};

constexpr std::int64_t kCalibrationWindow = 512;

QuantizeMethod method_named(const QuantizeArguments& a) {
  if (a.method != "rtn" && a.method != "gptq")
    throw UsageError("--method: expected rtn or gptq, got " + a.method);
  if (a.method == "gptq" && a.calibrate.empty())
    throw UsageError("--calibrate: missing, which --method gptq needs");
  if (a.method == "rtn" && !a.calibrate.empty())
    throw UsageError("--calibrate: expected with --method gptq only (rtn looks at no text)");
  return a.method == "gptq" ? QuantizeMethod::gptq : QuantizeMethod::nearest;
}

// Runs a model on the first tokens of a text.
class Calibration {
 public:
  Calibration(const QuantizeArguments& a, const Model& model, const std::filesystem::path& directory,
              const Globals& globals)
      : model_(model), globals_(globals) {
    if (model.input().kind != InputKind::tokens ||
        dynamic_cast<const EncoderDecoderModel*>(&model) != nullptr ||
        dynamic_cast<const DualEncoderModel*>(&model) != nullptr) {
      throw Error(directory.string() + ": expected a decoder or an encoder of texts to calibrate, got " +
                  model.family() + " (use --method rtn)");
    }
    const std::string text = valid_text(read_file(a.calibrate), a.calibrate, globals.quiet);
    const auto tokenizer = load_tokenizer(directory);
    window_ = std::min(kCalibrationWindow, model.max_positions().value_or(kCalibrationWindow));
    if (dynamic_cast<const DecoderModel*>(&model) != nullptr) {
      add_windows(tokenizer->encode(text).ids, a.tokens);
    } else {
      std::istringstream lines(text);
      const Truncation truncation{.max_length = window_};
      std::int64_t count = 0;
      for (std::string line; count < a.tokens && std::getline(lines, line);) {
        const std::vector<std::int64_t> ids = tokenizer->encode_truncated(line, std::nullopt, truncation).ids;
        if (ids.empty()) continue;
        windows_.push_back(ids);
        count += std::ssize(ids);
      }
    }
    if (windows_.empty()) throw Error(a.calibrate + ": expected a text of at least two tokens, got fewer");
  }

  void operator()() const {
    Progress progress(globals_.quiet);
    std::int64_t done = 0;
    for (const std::vector<std::int64_t>& ids : windows_) {
      stop_if_asked();
      const ModelInput input{.ids = Tensor::from(ids, {1, std::ssize(ids)})};
      Context context;
      if (const auto* decoder = dynamic_cast<const DecoderModel*>(&model_)) {
        decoder->encode(input, context);
      } else {
        dynamic_cast<const EncoderModel&>(model_).encode(input, context);
      }
      progress.show(++done, std::ssize(windows_), "windows");
    }
    progress.finish();
  }

 private:
  void add_windows(const std::vector<std::int64_t>& ids, std::int64_t most) {
    const std::int64_t count = std::min<std::int64_t>(std::ssize(ids), most);
    for (std::int64_t begin = 0; begin < count; begin += window_)
      windows_.emplace_back(ids.begin() + begin, ids.begin() + std::min(begin + window_, count));
  }

  const Model& model_;
  const Globals& globals_;
  std::int64_t window_ = 0;
  std::vector<std::vector<std::int64_t>> windows_;
};

std::string percent(double error) { return fmt::format("  {:6.2f}%", 100 * error); }

void print_report(const QuantizeReport& report, const QuantizeArguments& a, const Globals& globals) {
  if (globals.json) {
    JsonWriter json;
    json.begin_object().field("bits", a.bits).field("group", a.group).field("method", a.method);
    json.key("maps").begin_array();
    for (const QuantizedMap& map : report.maps) {
      json.begin_object().field("name", map.name).field("weight_error", map.weight_error);
      if (map.output_error) json.field("output_error", *map.output_error);
      json.end_object();
    }
    fmt::print("{}\n", json.end_array().field("kept", report.kept).end_object().text());
    return;
  }
  const bool outputs = report.maps.front().output_error.has_value();
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
  fmt::print("{:<{}}{}{}\n", fmt::format("mean of {} maps", report.maps.size()), width,
             percent(weights / count), outputs ? percent(results / count) : "");
  for (const std::string& name : report.kept) fmt::print("kept as it is: {}\n", name);
}

void run(const QuantizeArguments& a, const Globals& globals) {
  if (a.bits != 4 && a.bits != 8) throw UsageError("--bits: expected 4 or 8, got " + std::to_string(a.bits));
  if (a.group < 32 || a.group % 32 != 0)
    throw UsageError("--group: expected a multiple of 32, got " + std::to_string(a.group));
  QuantizeOptions options{.bits = a.bits, .group = a.group, .method = method_named(a)};
  a.to.check();
  const LocatedModel located = locate_model(a.model);
  options.scale_type = a.to.type(located.directory);
  const auto model = load_model(located.directory, DType::f32, located.adapters);
  warn_of_unknown_settings(*model, located.directory, globals);
  model->merge_adapters();
  std::optional<Calibration> calibration;
  if (options.method == QuantizeMethod::gptq) calibration.emplace(a, *model, located.directory, globals);
  const QuantizeReport report = model->quantize(options, [&] { (*calibration)(); });
  a.to.write(*model, located.directory, options.scale_type, globals);
  print_report(report, a, globals);
}

}  // namespace

void add_quantize(CLI::App& app, const Globals& globals) {
  CLI::App* command =
      app.add_subcommand("quantize", "Write a model with 4 or 8 bits for each number of its linear maps");
  auto a = std::make_shared<QuantizeArguments>();
  add_model_option(*command, a->model)->required();
  a->to.add_options(*command);
  command->add_option("--bits", a->bits, "Bits of a number")
      ->type_name("4|8")
      ->capture_default_str()
      ->group("Codes");
  command->add_option("--group", a->group, "Numbers of a row that share a scale: a multiple of 32")
      ->type_name("N")
      ->capture_default_str()
      ->group("Codes");
  command
      ->add_option(
          "--method", a->method,
          "rtn: each number to the nearest code; gptq: such that the results for --calibrate change least")
      ->type_name("rtn|gptq")
      ->capture_default_str()
      ->group("Codes");
  command->add_option("--calibrate", a->calibrate, "A text like those that the model will read (gptq)")
      ->type_name("FILE")
      ->group("Codes");
  command->add_option("--calibrate-tokens", a->tokens, "How many tokens of it to use")
      ->type_name("N")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->group("Codes");
  command->footer(
      "Written as compressed-tensors (pack-quantized), which transformers and vLLM read. The tables of "
      "tokens, the\n"
      "output map and the heads of encoders keep their type. heed evaluate --text tells what it costs.\n\n"
      "Examples:\n"
      "  heed quantize --model SmolLM2-135M --output smol-4bit\n"
      "  heed quantize --model SmolLM2-135M --bits 8 --group 128 --output smol-8bit\n"
      "  heed quantize --model SmolLM2-135M --method gptq --calibrate wiki.txt --output smol-gptq");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
