// The only mapping from what a model can do to the commands that run it.
#include "cli/input/model_commands.h"

#include <algorithm>

#include "heed/error.h"

namespace heed::cli {
namespace {

bool has_self_attention(const Model& model) {
  const auto* encoder_decoder = dynamic_cast<const EncoderDecoderModel*>(&model);
  return encoder_decoder == nullptr || encoder_decoder->has_self_attention();
}

// The commands that look into a model of texts.
std::vector<std::string> analyses_of(const Model& model, bool has_attention) {
  const bool encoder = dynamic_cast<const EncoderModel*>(&model) != nullptr;
  std::vector<std::string> commands;
  if (has_attention) commands = {"attend", "explore"};
  if (has_self_attention(model)) commands.emplace_back("heads");
  if (has_self_attention(model) && !encoder) commands.emplace_back("lens");
  if (!encoder) commands.emplace_back("patch");
  if (has_self_attention(model)) commands.emplace_back("why");
  commands.emplace_back("tokenize");
  return commands;
}

std::vector<std::string> commands_for(Task task) {
  switch (task) {
    case Task::generate: return {"generate", "evaluate --text"};
    case Task::translate: return {"translate", "evaluate --source", "train --init"};
    case Task::fill: return {"fill"};
    case Task::classify: return {"classify", "evaluate --data"};
    case Task::classify_images:
    case Task::classify_sounds: return {"classify"};
    case Task::tag: return {"tag", "evaluate --data"};
    case Task::answer: return {"answer", "evaluate --data"};
    case Task::embed: return {"embed"};
    case Task::embed_images: return {"embed --image"};
    case Task::attention: return {};  // with the other analyses
    case Task::caption: return {"caption"};
    case Task::transcribe: return {"transcribe", "translate --input", "evaluate --data"};
  }
  HEED_ASSERT(false, "unknown task");
}

}  // namespace

std::vector<std::string> commands_for(const Model& model) {
  std::vector<std::string> commands;
  const std::vector<Task> tasks = tasks_of(model);
  const bool dual = dynamic_cast<const DualEncoderModel*>(&model) != nullptr;
  for (const Task task : tasks) {
    std::vector<std::string> more = commands_for(task);
    if (dual && task == Task::classify_images) more = {"classify --labels"};
    if (task == Task::transcribe && dynamic_cast<const EncoderModel*>(&model) != nullptr)
      more = {"transcribe", "evaluate --data"};
    commands.insert(commands.end(), more.begin(), more.end());
  }
  if (const auto* encoder = dynamic_cast<const EncoderModel*>(&model);
      encoder != nullptr && model.input().kind != InputKind::tokens) {
    if (model.input().is_image()) commands.emplace_back("attend");
    commands.insert(commands.end(), {"explore", "heads"});
    if (encoder->head() == EncoderHead::sequence) commands.insert(commands.end(), {"lens", "patch"});
    commands.emplace_back("why");
  }
  if (!tasks.empty() && model.input().kind == InputKind::tokens) {
    const bool has_attention = std::find(tasks.begin(), tasks.end(), Task::attention) != tasks.end();
    const std::vector<std::string> analyses = analyses_of(model, has_attention);
    commands.insert(commands.end(), analyses.begin(), analyses.end());
  }
  const auto has = [&](Task task) { return std::find(tasks.begin(), tasks.end(), task) != tasks.end(); };
  if (has(Task::embed) || has(Task::transcribe)) commands.emplace_back("serve");
  commands.insert(commands.end(), {"forward", "doctor"});
  return commands;
}

void refuse(const Model& model, const std::string& where, Task task) {
  throw Error(where + ": " + kind_of(model) + " cannot " + verb(task) + " (use heed " +
              commands_for(model).front() + ")");
}

}  // namespace heed::cli
