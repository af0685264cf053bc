// heed forward: named tensors through a model, with hidden states, attentions and gradients on demand.
#include <fmt/core.h>

#include "cli/cli.h"
#include "cli/models.h"
#include "cli/terminal.h"
#include "heed/autograd.h"
#include "heed/io/safetensors.h"
#include "heed/models/registry.h"

namespace heed::cli {
namespace {

struct ForwardArguments {
  std::string model;
  std::filesystem::path input, output;
  std::string dtype = "f32";
  ForwardOptions options;
  bool gradients = false;
};

TensorMap read_inputs(const std::filesystem::path& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  TensorMap inputs;
  for (const TensorInfo& info : file.tensors()) inputs[info.name] = file.get(info.name);
  return inputs;
}

void add_gradients(const Model& model, const TensorMap& outputs, std::vector<NamedTensor>& results) {
  const auto loss = outputs.find("loss");
  if (loss == outputs.end())
    throw Error("forward: expected labels among the inputs for --gradients, got none");
  loss->second.backward();
  for (const Parameter& parameter : model.parameters()) {
    const Tensor gradient = parameter.tensor.grad();
    results.push_back(
        {"grad." + parameter.name, gradient.defined() ? gradient : Tensor::zeros(parameter.tensor.shape())});
  }
}

void run(const ForwardArguments& arguments, const Globals& globals) {
  const std::filesystem::path directory = locate_model(arguments.model);
  if (arguments.gradients && weights_dtype(arguments.dtype) != DType::f32)
    throw UsageError("--gradients: expected weights in f32, got --dtype " + arguments.dtype);
  const auto model = load_model(directory, weights_dtype(arguments.dtype));
  warn_of_unknown_settings(*model, directory, globals);
  const TensorMap inputs = read_inputs(arguments.input);
  Context context;
  std::optional<NoGradients> guard;
  if (!arguments.gradients) guard.emplace();
  const TensorMap outputs = model->forward(inputs, arguments.options, context);
  std::vector<NamedTensor> results;
  for (const auto& [name, tensor] : outputs) results.push_back({name, tensor.detach().contiguous()});
  if (arguments.gradients) add_gradients(*model, outputs, results);
  save_safetensors(arguments.output, results);
  if (!globals.quiet) say("wrote " + arguments.output.string());
}

}  // namespace

void add_forward(CLI::App& app, const Globals& globals) {
  CLI::App* command =
      app.add_subcommand("forward", "Run a model on tensors from a file and write what it computes");
  auto a = std::make_shared<ForwardArguments>();
  command->add_option("--model,-m", a->model, "Model directory or name")->required();
  command->add_option("--input,-i", a->input, "Safetensors file: input_ids, attention_mask, labels, ...")
      ->required();
  command->add_option("--output,-o", a->output, "Safetensors file to write: logits, loss, ...")->required();
  command->add_option("--dtype", a->dtype, "Weights in memory: f32 or bf16")->capture_default_str();
  command->add_flag("--hidden-states", a->options.hidden_states, "Also what every layer puts out");
  command->add_flag("--attentions", a->options.attentions, "Also all attention weights");
  command->add_flag("--gradients", a->gradients,
                    "Also the gradient of the loss for every parameter, as grad.NAME");
  command->footer(
      "Examples:\n"
      "  heed forward --model models/en-fr --input in.safetensors --output out.safetensors\n"
      "  heed forward --model models/en-fr --input in.safetensors --output out.safetensors --attentions "
      "--gradients");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
