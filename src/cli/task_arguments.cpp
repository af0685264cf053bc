// Shared options of the commands over encoders.
#include "cli/task_arguments.h"

#include <fmt/core.h>

#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/models.h"
#include "cli/option_values.h"
#include "cli/terminal.h"
#include "heed/io/json.h"
#include "heed/models/registry.h"

namespace heed::cli {
namespace {

const char* fitting_command(const Model& model) {
  if (dynamic_cast<const EncoderDecoderModel*>(&model) != nullptr) return "translate";
  const auto* encoder = dynamic_cast<const EncoderModel*>(&model);
  if (dynamic_cast<const DecoderModel*>(&model) != nullptr) return "generate";
  if (encoder == nullptr) return "forward";
  switch (encoder->head()) {
    case EncoderHead::none: return "embed";
    case EncoderHead::masked_lm: return "fill";
    case EncoderHead::sequence: return "classify";
    case EncoderHead::token: return "tag";
    case EncoderHead::span: return "answer";
  }
  HEED_ASSERT(false, "unknown head");
}

const char* fitting_architecture(EncoderHead head) {
  switch (head) {
    case EncoderHead::masked_lm: return "a model for masked tokens, such as BertForMaskedLM";
    case EncoderHead::sequence: return "a model for labels of texts, such as BertForSequenceClassification";
    case EncoderHead::token: return "a model for labels of tokens, such as BertForTokenClassification";
    case EncoderHead::span: return "a model for answers, such as BertForQuestionAnswering";
    case EncoderHead::none: return "an encoder";
  }
  HEED_ASSERT(false, "unknown head");
}

}  // namespace

void add_model_options(CLI::App& command, TaskArguments& a) {
  command.add_option("--model,-m", a.model, "Model directory or name")->required();
  command.add_option("--dtype", a.dtype, "Weights in memory: f32 or bf16")->capture_default_str();
  command.add_option("--batch-tokens", a.batch_tokens, "Tokens in one batch, which bounds memory")
      ->transform(whole_number(1))
      ->capture_default_str();
}

void add_task_options(CLI::App& command, TaskArguments& a, const char* texts) {
  command.add_option("text", a.texts, texts);
  add_model_options(command, a);
}

std::unique_ptr<EncoderModel> load_encoder_with(const std::filesystem::path& directory, DType dtype,
                                                EncoderHead head, const std::string& command,
                                                const Globals& globals) {
  std::unique_ptr<Model> model = load_model(directory, dtype);
  warn_of_unknown_settings(*model, directory, globals);
  auto* encoder = dynamic_cast<EncoderModel*>(model.get());
  if (encoder == nullptr || encoder->head() != head) {
    const std::vector<std::string> names = Config::load(directory / "config.json").strings("architectures");
    throw Error(fmt::format("{}: expected {}, got {} (heed {} runs it)", command, fitting_architecture(head),
                            names.empty() ? model->family() : names.front(), fitting_command(*model)));
  }
  (void)model.release();
  return std::unique_ptr<EncoderModel>(encoder);
}

void for_each_window(const TaskArguments& arguments, const Globals& globals, const WindowHandler& handle) {
  TaskOptions options;
  options.batch_tokens = arguments.batch_tokens;
  options.warn = [&](std::size_t line, const std::string& message) {
    if (!globals.quiet) warn("line " + std::to_string(line + 1) + ": " + message);
  };
  FailedLines failed(globals.json);
  options.refuse = [&](std::size_t line, const std::string& message) { failed.add(line, message); };
  options.stop = &interrupt_flag();
  TextWindows windows(arguments.texts);
  for (std::vector<std::string> texts; windows.next(texts); options.first_line += texts.size()) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::string line = "line " + std::to_string(options.first_line + i + 1);
      texts[i] = valid_text(texts[i], line, globals.quiet);
    }
    handle(texts, options, failed);
    flush_results();
  }
  failed.finish();
}

std::string short_score(double score) { return fmt::format("{:.4f}", score); }

}  // namespace heed::cli
