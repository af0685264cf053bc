// Which commands run which kind of model.
#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/input/models.h"
#include "heed/api/loaded_model.h"
#include "heed/dtype.h"
#include "heed/models/model.h"
#include "heed/models/registry.h"
#include "heed/text/tokenizer.h"

namespace heed::cli {

/// Returns the commands that run a model as it is, the main one first: {"generate", "evaluate --text", …}.
std::vector<std::string> commands_for(const Model& model);

/// Throws Error "WHERE: a gpt2 decoder cannot translate (use heed generate)".
[[noreturn]] void refuse(const Model& model, const std::string& where, Task task);

/// load_model for a command that needs a DecoderModel, an EncoderDecoderModel …, which warns of unknown
/// settings; refuses any other kind, and models with another main task than `task` or one of `others`.
template <class Wanted>
std::unique_ptr<Wanted> load_model_to(Task task, const LocatedModel& located, const WeightOptions& options,
                                      const Globals& globals, const std::vector<Task>& others = {}) {
  std::unique_ptr<Model> model = load_model(located, options);
  const std::vector<Task> tasks = tasks_of(*model);
  auto* wanted = dynamic_cast<Wanted*>(model.get());
  const auto among_others = [&](Task one) {
    return std::find(others.begin(), others.end(), one) != others.end();
  };
  const bool fits = tasks.empty() ? dynamic_cast<EncoderModel*>(model.get()) == nullptr
                                  : tasks.front() == task || among_others(tasks.front());
  if (wanted == nullptr || !fits)
    refuse(*model, located.directory.string(),
           among_others(Task::classify_images) && model->input().is_image() ? Task::classify_images : task);
  warn_of_unknown_settings(*model, located.directory, globals);
  (void)model.release();
  return std::unique_ptr<Wanted>(wanted);
}

/// A model with its tokenizer, as most commands on texts open them.
template <class Wanted>
struct TextModel {
  std::unique_ptr<Wanted> model;
  std::unique_ptr<Tokenizer> tokenizer;
};

template <class Wanted>
TextModel<Wanted> open_model_to(Task task, const ModelChoice& choice, const WeightOptions& options,
                                const Globals& globals) {
  const LocatedModel located = locate_model(choice);
  std::unique_ptr<Wanted> model = load_model_to<Wanted>(task, located, options, globals);
  return {std::move(model), load_tokenizer(located.directory)};
}

}  // namespace heed::cli
