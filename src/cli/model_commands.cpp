// The only mapping from what a model can do to the commands that run it.
#include "cli/model_commands.h"

#include "heed/error.h"

namespace heed::cli {
namespace {

std::vector<std::string> commands_for(Task task) {
  switch (task) {
    case Task::generate: return {"generate", "evaluate --text"};
    case Task::translate: return {"translate", "evaluate --source", "train --init"};
    case Task::fill: return {"fill"};
    case Task::classify: return {"classify", "evaluate --tsv"};
    case Task::tag: return {"tag"};
    case Task::answer: return {"answer"};
    case Task::embed: return {"embed"};
    case Task::attention: return {"attend"};
  }
  HEED_ASSERT(false, "unknown task");
}

}  // namespace

std::vector<std::string> commands_for(const Model& model) {
  std::vector<std::string> commands;
  for (const Task task : tasks_of(model)) {
    const std::vector<std::string> more = commands_for(task);
    commands.insert(commands.end(), more.begin(), more.end());
  }
  if (dynamic_cast<const EncoderDecoderModel*>(&model) != nullptr && commands.empty())
    commands.emplace_back("translate --input");
  commands.emplace_back("forward");
  return commands;
}

void refuse(const Model& model, const std::string& where, Task task) {
  throw Error(where + ": " + kind_of(model) + " cannot " + verb(task) + " (use heed " +
              commands_for(model).front() + ")");
}

}  // namespace heed::cli
