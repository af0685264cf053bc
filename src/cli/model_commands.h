// Which commands run which kind of model.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/models.h"
#include "heed/dtype.h"
#include "heed/io/json.h"
#include "heed/models/model.h"
#include "heed/models/registry.h"

namespace heed::cli {

/// Returns the commands that run a model as it is, the main one first: {"generate", "evaluate --text", …}.
std::vector<std::string> commands_for(const Model& model);

/// Returns the main one for a model with this config.json, without loading it.
std::string command_for(const Config& config);

/// Returns a description such as "a gpt2 decoder".
std::string kind_of(const Model& model);

/// Throws Error "WHERE: a gpt2 decoder cannot translate (use heed generate)"; here, `task` is "translate".
[[noreturn]] void refuse(const Model& model, const std::string& where, const std::string& task);

/// load_model for a command that needs a DecoderModel, an EncoderDecoderModel …; refuses any other kind.
template <class Wanted>
std::unique_ptr<Wanted> load_model_to(const std::string& task, const LocatedModel& located,
                                      DType dtype = DType::f32) {
  std::unique_ptr<Model> model = load_model(located.directory, dtype, located.adapters);
  auto* wanted = dynamic_cast<Wanted*>(model.get());
  if (wanted == nullptr) refuse(*model, located.directory.string(), task);
  (void)model.release();
  return std::unique_ptr<Wanted>(wanted);
}

}  // namespace heed::cli
