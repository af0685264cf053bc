// The capabilities of models: one table for the library, the command and the server.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/export.h"

namespace HEED_API heed {

class Model;
struct ModelTraits;

/// The tasks of models.
enum class Task : std::uint8_t {
  generate,
  translate,
  fill,
  classify,
  classify_images,
  classify_sounds,
  tag,
  answer,
  embed,
  embed_images,
  attention,
  transcribe,
  caption
};

/// Returns what the task does, after "can": `translate`, `continue text`, `fill masks`, ...
const char* verb(Task task);

/// One capability: the task, and the command and route for it.
struct Capability {
  std::optional<Task> task;  ///< of LoadedModel; none for an analysis
  std::string_view command;  ///< of heed, with the option it is for: `evaluate --text`; empty: none
  std::string_view name;     ///< its name in the server: `completion`, `embedding`, ...; empty: no route
  std::string_view route;    ///< of heed serve: `/v1/completions`
  bool (*suits)(const ModelTraits& model);  ///< whether kind, input and head of the model fit
  bool needs_chat = false;                  ///< also a chat template
};

/// All of them, main tasks first.
std::span<const Capability> capabilities();

/// Returns what a model can do with text, image or sound files, its main task first.
std::vector<Task> tasks_of(const Model& model);
bool can(const Model& model, Task task);

/// Returns the commands that run a model as it is, the main one first: `generate`, `evaluate --text`, ...
std::vector<std::string> commands_for(const Model& model);

/// Returns the capabilities that the server offers for a model, with or without a chat template.
std::vector<Capability> served_for(const Model& model, bool has_chat);

}  // namespace heed
