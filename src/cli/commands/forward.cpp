// heed forward: runs named tensors through a model, with hidden states, attentions and gradients on request.
#include <fmt/core.h>

#include <algorithm>

#include "cli/cli.h"
#include "cli/input/input.h"
#include "cli/input/models.h"
#include "cli/options/option_group.h"
#include "cli/options/tap_options.h"
#include "cli/options/task_arguments.h"
#include "cli/terminal/terminal.h"
#include "heed/autograd.h"
#include "heed/io/json.h"
#include "heed/io/safetensors.h"
#include "heed/models/kind.h"
#include "heed/open/subject.h"
#include "heed/tasks/batches.h"
#include "models/non_finite.h"

namespace heed::cli {
namespace {

struct ForwardArguments {
  ModelChoice model;
  std::filesystem::path input, output;
  std::vector<std::string> texts, pairs, targets;
  WeightArguments weights;
  ForwardOptions options;
  bool gradients = false, activation_errors = false;
  std::vector<std::string> taps;
  std::filesystem::path replacements;
};

// The inputs that were given, and the metadata of what is written.
struct ForwardInputs {
  TensorMap tensors;
  std::map<std::string, std::string> metadata{{"format", "pt"}};
};

// Returns the text's partner: one is given per text, or one for all.
const std::string& partner(const std::vector<std::string>& given, std::size_t index) {
  return given.size() == 1 ? given.front() : given[index];
}

void check_number(const char* option, const std::vector<std::string>& given, std::size_t texts) {
  if (given.size() <= 1 || given.size() == texts) return;
  throw UsageError(fmt::format("{}: expected one for all texts or one for each of {}, got {}", option, texts,
                               given.size()));
}

// Returns the texts as the model's input.
ForwardInputs encode_texts(const ForwardArguments& arguments, const LoadedModel& opened,
                           const Globals& globals) {
  const Model& model = opened.model();
  const ModelTraits traits = traits_of(model);
  const bool both = traits.is(ModelKind::encoder_decoder);
  if (!both && !arguments.targets.empty())
    throw UsageError("--target: expected an encoder-decoder, got " + model.family());
  if (both && arguments.targets.empty())
    throw UsageError("--target: missing (the decoder of " + model.family() + " reads a target text)");
  if (traits.reads_images())
    throw UsageError("--input: missing (" + model.family() + " takes tensors, not text)");
  const Tokenizer& tokenizer = opened.tokenizer();
  const std::vector<std::string> texts = read_texts(arguments.texts, globals.quiet);
  if (texts.empty()) throw Error("forward: missing texts (give --text, lines on stdin, or --input FILE)");
  check_number("--pair", arguments.pairs, texts.size());
  check_number("--target", arguments.targets, texts.size());
  TaskOptions options;
  options.on_warning = [&](std::size_t line, const std::string& message) {
    if (!globals.quiet) warn("line " + std::to_string(line + 1) + ": " + message);
  };
  const std::int64_t longest = longest_input(model, tokenizer);
  std::vector<Encoding> encodings, targets;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    TextPair pair{texts[i]};
    if (!arguments.pairs.empty())
      pair.second = valid_text(partner(arguments.pairs, i), "--pair", globals.quiet);
    encodings.push_back(encode_cut(tokenizer, pair, longest, options, i));
    if (both)
      targets.push_back(
          tokenizer.encode_target(valid_text(partner(arguments.targets, i), "--target", globals.quiet)));
  }
  ForwardInputs result{side_by_side(model, encodings, targets)};
  add_tokens(result.metadata, "tokens", encodings);
  add_tokens(result.metadata, "target_tokens", targets);
  return result;
}

// But for the loss, which is NaN where no label counts.
bool outputs_are_finite(const TensorMap& outputs) {
  return std::none_of(outputs.begin(), outputs.end(), [](const auto& output) {
    return output.first != "loss" && first_non_finite(output.second);
  });
}

void add_gradients(const Model& model, const TensorMap& outputs, std::vector<NamedTensor>& results) {
  const auto loss = outputs.find("loss");
  if (loss == outputs.end())
    throw Error("forward: --gradients needs a loss, whose labels come with --input (or --target)");
  loss->second.backward();
  for (const Parameter& parameter : model.parameters()) {
    const Tensor gradient = parameter.tensor.grad();
    results.push_back(
        {"grad." + parameter.name, gradient.defined() ? gradient : Tensor::zeros(parameter.tensor.shape())});
  }
}

// Without a file to write: names and shapes.
void print_results(const std::vector<NamedTensor>& results, const Globals& globals) {
  for (const auto& [name, tensor] : results) {
    if (!globals.json) {
      print_stdout("{:<20} {}\n", tensor.str(), name);
      continue;
    }
    JsonWriter json;
    json.begin_object().field("name", name).field("dtype", name_of(tensor.dtype()));
    json.field("shape", std::vector<std::int64_t>(tensor.shape().begin(), tensor.shape().end()));
    print_stdout("{}\n", json.end_object().text());
  }
  if (!globals.quiet) print_stderr("nothing was written (--output FILE.safetensors writes these)");
}

// How far products of quantized weights with rounded inputs are from exact ones, for each weight.
void print_activation_errors(const LoadedModel& opened, const TensorMap& inputs, const Globals& globals) {
  Model& model = opened.changeable_model();
  const std::vector<QuantizedMap> maps = model.int8_activation_errors([&] { model.forward(inputs); });
  if (maps.empty())
    throw Error(opened.directory() +
                ": --activation-errors: expected a model with weights quantized to integers, got none (heed "
                "convert --bits makes one)");
  std::size_t width = 0;
  for (const QuantizedMap& map : maps) width = std::max(width, map.name.size());
  if (!globals.json) print_stdout("{:<{}}  int8 activations\n", "relative error of the products of", width);
  double sum = 0;
  for (const QuantizedMap& map : maps) {
    sum += *map.output_error;
    if (globals.json) {
      JsonWriter json;
      json.begin_object().field("name", map.name).field("output_error", *map.output_error);
      print_stdout("{}\n", json.end_object().text());
    } else {
      print_stdout("{:<{}}  {:6.3f}%\n", map.name, width, 100 * *map.output_error);
    }
  }
  if (!globals.json)
    print_stdout("{:<{}}  {:6.3f}%\n", fmt::format("mean of {}", maps.size()), width,
                 100 * sum / static_cast<double>(maps.size()));
}

void run(const ForwardArguments& arguments, const Globals& globals) {
  const bool text = !arguments.texts.empty() || !arguments.pairs.empty() || !arguments.targets.empty();
  if (text && !arguments.input.empty())
    throw UsageError("forward: expected --input or texts (--text, --pair, --target), got both");
  const auto ending = arguments.output.extension();
  if (!ending.empty() && ending != ".safetensors")
    throw UsageError("--output: expected a file ending in .safetensors, got " + arguments.output.string());
  const std::vector<TapRequest> requests = parse_taps(arguments.taps, "--taps");
  const LoadedModel opened = open_model(arguments.model, globals, arguments.weights, true);
  if (arguments.gradients && arguments.weights.type() != DType::f32)
    throw UsageError("--gradients: expected weights in f32, got --dtype " + arguments.weights.dtype);
  const Model& model = opened.model();
  warn_of_settings(opened, globals);
  const ForwardInputs texts =
      arguments.input.empty() ? encode_texts(arguments, opened, globals) : ForwardInputs{};
  const TensorMap inputs = arguments.input.empty() ? texts.tensors : read_tensors(arguments.input);
  if (traits_of(model).is(ModelKind::encoder_decoder) && inputs.contains("input_ids") &&
      !inputs.contains("decoder_input_ids") && !inputs.contains("labels"))
    throw Error(arguments.input.string() + ": expected decoder_input_ids or labels for the decoder of " +
                model.family() +
                ", got neither (add one of them to the file, or use --text ... --target ...)");
  if (arguments.activation_errors) return print_activation_errors(opened, inputs, globals);
  Taps taps;
  TensorMap tapped;
  if (!arguments.replacements.empty()) replace_taps(arguments.replacements, taps);
  record_taps(requests, taps, tapped);
  const bool listens = !requests.empty() || !arguments.replacements.empty();
  Context context{.taps = listens ? &taps : nullptr};
  std::optional<NoGradients> guard;
  if (!arguments.gradients) guard.emplace();
  const TensorMap outputs = model.forward(inputs, arguments.options, context);
  taps.require_all_fired();
  warn_of_non_finite(model, outputs_are_finite(outputs), globals);
  std::vector<NamedTensor> results;
  for (const auto& [name, tensor] : tapped) {
    if (!outputs.contains(name)) results.push_back({name, tensor});
  }
  for (const auto& [name, tensor] : outputs) results.push_back({name, tensor.detach().contiguous()});
  for (const auto& [name, tensor] : texts.tensors) results.push_back({name, tensor});
  if (arguments.gradients) add_gradients(model, outputs, results);
  if (arguments.output.empty()) return print_results(results, globals);
  auto metadata = texts.metadata;
  add_tap_names(tapped, metadata);
  save_safetensors(arguments.output, results, metadata);
  if (!globals.quiet) print_stderr("wrote " + arguments.output.string());
}

}  // namespace

void add_forward(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand(
      "forward", "Run a model once on texts, or on tensors from a file, and write its outputs");
  auto a = std::make_shared<ForwardArguments>();
  OptionGroup input(*command, "Input"), output(*command, "Output");
  input.value("--input,-i", a->input, "FILE",
              "Safetensors file with the inputs: input_ids, attention_mask, labels, ...");
  input.value("--text", a->texts, "TEXT", "A text; without it and --input, the lines of stdin");
  input.value("--pair", a->pairs, "TEXT", "Second text of a pair: one for all texts, or one for each");
  input.value("--target", a->targets, "TEXT",
              "Target text, for the decoder of an encoder-decoder: one for all texts, or one for each");
  add_model_argument(*command, a->model)->required();
  add_weight_options(*command, a->weights);
  CLI::Option* outputs =
      output.value("--output,-o", a->output, "FILE",
                   "Safetensors file to write: logits, loss, ... (default: print names and shapes)");
  CLI::Option* hidden_states =
      output.flag("--hidden-states", a->options.hidden_states, "Also write every layer's hidden states");
  CLI::Option* attentions =
      output.flag("--attentions", a->options.attentions, "Also write all attention weights");
  CLI::Option* gradients =
      output.flag("--gradients", a->gradients,
                  "Also write the gradient of the loss with respect to every parameter, as grad.NAME");
  CLI::Option* activation_errors = output.flag(
      "--activation-errors", a->activation_errors,
      "Print instead, for each quantized weight, the error of its products with int8 activations");
  CLI::Option* taps = output.value("--taps", a->taps, "PATTERN",
                                   "Also write these values, separated by commas; * matches any characters: "
                                   "decoder.layers.*.self_attn.weights[heads=3,queries=0:8]");
  CLI::Option* replacements =
      input.value("--replace", a->replacements, "FILE",
                  "Safetensors file, of --taps or with tensors named like taps, whose values they replace");
  for (CLI::Option* other : {outputs, hidden_states, attentions, gradients, taps, replacements})
    activation_errors->excludes(other);  // it prints errors and writes nothing
  command->footer(
      "Examples:\n"
      "  heed forward bert-base-uncased --text \"Tea is hot.\" --output out.safetensors\n"
      "  heed forward bert-base-uncased --text \"Tea is hot.\" --hidden-states\n"
      "  heed forward en-fr --text \"I like tea.\" --target \"J'aime le thé.\" --output "
      "out.safetensors\n"
      "  heed tokenize --model bert-base-uncased \"Tea is hot.\" --output in.safetensors\n"
      "  heed forward bert-base-uncased --input in.safetensors --output out.safetensors\n"
      "  heed forward en-fr --text \"I like tea.\" --target \"J'aime le thé.\" --output "
      "out.safetensors --gradients\n"
      "  heed forward gpt2 --text \"Tea is hot.\" --taps "
      "\"decoder.layers.0.self_attn.weights[heads=3]\" "
      "--output out.safetensors");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
