// The only mapping from what a model can do to the commands that run it.
#include "cli/model_commands.h"

#include "heed/error.h"

namespace heed::cli {
namespace {

bool takes_features(const Model& model) {
  const auto* encoder_decoder = dynamic_cast<const EncoderDecoderModel*>(&model);
  return encoder_decoder != nullptr && encoder_decoder->takes_features();
}

bool has_self_attention(const Model& model) {
  const auto* encoder_decoder = dynamic_cast<const EncoderDecoderModel*>(&model);
  return encoder_decoder == nullptr || encoder_decoder->has_self_attention();
}

bool has_attention(const Model& model) {
  const auto* encoder_decoder = dynamic_cast<const EncoderDecoderModel*>(&model);
  return has_self_attention(model) || encoder_decoder->has_cross_attention();
}

// The commands that look into a model of texts.
std::vector<std::string> analyses_of(const Model& model) {
  const bool encoder = dynamic_cast<const EncoderModel*>(&model) != nullptr;
  std::vector<std::string> commands;
  if (has_attention(model)) commands = {"attend", "explore"};
  if (has_self_attention(model)) commands.emplace_back("heads");
  if (has_self_attention(model) && !encoder) commands.emplace_back("lens");
  if (!encoder) commands.emplace_back("patch");
  commands.emplace_back("tokenize");
  return commands;
}

std::vector<std::string> commands_for(Task task) {
  switch (task) {
    case Task::generate: return {"generate", "evaluate --text"};
    case Task::translate: return {"translate", "evaluate --source", "train --init"};
    case Task::fill: return {"fill"};
    case Task::classify: return {"classify", "evaluate --tsv"};
    case Task::tag: return {"tag"};
    case Task::answer: return {"answer"};
    case Task::embed: return {"embed"};
    case Task::attention: return {};  // with the other analyses
  }
  HEED_ASSERT(false, "unknown task");
}

}  // namespace

std::string command_for(const Config& config) {
  const std::vector<std::string> architectures = config.strings("architectures");
  const std::string name = architectures.empty() ? "" : architectures.front();
  constexpr std::pair<const char*, const char*> kCommands[] = {{"ForMaskedLM", "fill"},
                                                               {"ForSequenceClassification", "classify"},
                                                               {"ForTokenClassification", "tag"},
                                                               {"ForQuestionAnswering", "answer"},
                                                               {"ForImageClassification", "forward"}};
  for (const auto& [ending, command] : kCommands) {
    if (name.ends_with(ending)) return command;
  }
  if (config.boolean("is_encoder_decoder", false) || name.ends_with("ForConditionalGeneration") ||
      name.ends_with("MTModel"))
    return "translate";
  return name.ends_with("ForCausalLM") || name.ends_with("LMHeadModel") ? "generate" : "embed";
}

std::vector<std::string> commands_for(const Model& model) {
  std::vector<std::string> commands;
  for (const Task task : tasks_of(model)) {
    const std::vector<std::string> more = commands_for(task);
    commands.insert(commands.end(), more.begin(), more.end());
  }
  if (takes_features(model)) {
    commands = {"translate --input"};
  } else if (model.vocab_size() > 0) {
    const std::vector<std::string> analyses = analyses_of(model);
    commands.insert(commands.end(), analyses.begin(), analyses.end());
  }
  commands.insert(commands.end(), {"forward", "doctor"});
  return commands;
}

void refuse(const Model& model, const std::string& where, Task task) {
  throw Error(where + ": " + kind_of(model) + " cannot " + verb(task) + " (use heed " +
              commands_for(model).front() + ")");
}

}  // namespace heed::cli
