// The chat templates among a model's files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "heed/files/model_files.h"

namespace heed {

/// The name of the template for chats without tools.
inline constexpr const char* kDefaultTemplate = "default";

/// A template as its file has it.
struct NamedTemplate {
  std::string name;   // default, tool_use, rag, ...
  std::string text;   // Jinja
  std::string where;  // the file, and where in it
};

/// Reads the templates of a model: those of chat_template.jinja (`default`) and
/// additional_chat_templates/NAME.jinja; else tokenizer_config.json's chat_template, a text (`default`) or a
/// list of {name, template}; else chat_template.json's. Returns none if there is no such file or key. Throws
/// Error naming file and key if a value has the wrong type.
std::vector<NamedTemplate> read_chat_templates(const ModelFiles& model);

/// The names of the files that hold nothing but chat templates; chat_template.jinja is the first.
std::vector<std::string> chat_template_files(const ModelFiles& model);

/// The one of that name, or null.
const NamedTemplate* find_template(const std::vector<NamedTemplate>& templates, std::string_view name);

}  // namespace heed
