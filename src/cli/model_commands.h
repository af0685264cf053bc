// Which commands run which kind of model.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/models.h"
#include "heed/api/loaded_model.h"
#include "heed/dtype.h"
#include "heed/models/model.h"
#include "heed/models/registry.h"

namespace heed::cli {

/// Returns the commands that run a model as it is, the main one first: {"generate", "evaluate --text", …}.
std::vector<std::string> commands_for(const Model& model);

/// Throws Error "WHERE: a gpt2 decoder cannot translate (use heed generate)".
[[noreturn]] void refuse(const Model& model, const std::string& where, Task task);

/// load_model for a command that needs a DecoderModel, an EncoderDecoderModel …; refuses any other kind.
template <class Wanted>
std::unique_ptr<Wanted> load_model_to(Task task, const LocatedModel& located, DType dtype = DType::f32) {
  std::unique_ptr<Model> model = load_model(located.directory, dtype, located.adapters);
  auto* wanted = dynamic_cast<Wanted*>(model.get());
  if (wanted == nullptr) refuse(*model, located.directory.string(), task);
  (void)model.release();
  return std::unique_ptr<Wanted>(wanted);
}

}  // namespace heed::cli
