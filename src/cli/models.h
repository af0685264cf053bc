// Where --model finds a model.
#pragma once

#include <filesystem>
#include <string>

#include "cli/cli.h"
#include "heed/dtype.h"
#include "heed/models/model.h"

namespace heed::cli {

/// The name of the shipped translation model.
inline constexpr const char* kDefaultTranslator = "en-fr";

/// The directory that --model names: itself, or looked up in $HEED_MODELS (folders separated by ':'), among
/// the installed models, and in the Hugging Face cache. Throws Error when it is nowhere.
std::filesystem::path locate_model(const std::string& name);

/// Throws Error, naming the last checkpoint, when `directory` is a run that has no final model yet.
void refuse_unfinished_run(const std::filesystem::path& directory);

/// Warns of settings in the config.json of `directory` that the model loaded from there does not know.
void warn_of_unknown_settings(const Model& model, const std::filesystem::path& directory,
                              const Globals& globals);

/// f32 or bf16, as --dtype spells it.
DType weights_dtype(const std::string& name);

}  // namespace heed::cli
