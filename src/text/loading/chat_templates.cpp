// Reads the chat templates of a model from whichever of its files have them.
#include "text/loading/loaders.h"

#include <algorithm>
#include <system_error>

#include "core/json_field.h"
#include "files/input_file.h"
#include "heed/error.h"
#include "text/loading/tokenizer_config.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

NamedTemplate template_in(const JsonField& field, std::string name) {
  return {std::move(name), field.string(), field.where() + ": " + field.path()};
}

std::vector<NamedTemplate> templates_in(const ModelFiles& model, const char* file) {
  if (!model.has(file)) return {};
  const Json document = read_json_object(model, file);
  const auto field = JsonField(document, model.where(file)).find("chat_template");
  if (!field) return {};
  if (field->value().is_string()) return {template_in(*field, kDefaultTemplate)};
  if (!field->value().is_array()) field->fail("a template or a list of templates");
  std::vector<NamedTemplate> templates;
  for (std::size_t i = 0; i < field->array_size(); ++i) {
    const JsonField named = field->at(i);
    NamedTemplate one = template_in(named.at("template"), named.at("name").string());
    std::erase_if(templates, [&](const NamedTemplate& other) { return other.name == one.name; });
    templates.push_back(std::move(one));
  }
  return templates;
}

constexpr const char *kFile = "chat_template.jinja", *kLegacyFile = "chat_template.json",
                     *kFolder = "additional_chat_templates";

}  // namespace

std::vector<std::string> chat_template_files(const ModelFiles& model) {
  std::vector<std::string> files;
  const fs::path folder = model.path() / kFolder;
  std::error_code error;
  if (fs::is_directory(folder, error)) {
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
      if (entry->path().extension() == ".jinja") files.push_back(kFolder / entry->path().filename());
    }
    if (error) throw Error(model.where(kFolder) + ": cannot be read: " + error.message());
  }
  std::sort(files.begin(), files.end());
  if (model.has(kFile)) files.insert(files.begin(), kFile);
  if (model.has(kLegacyFile)) files.emplace_back(kLegacyFile);
  return files;
}

std::vector<NamedTemplate> read_chat_templates(const ModelFiles& model) {
  std::vector<NamedTemplate> templates;
  for (const std::string& file : chat_template_files(model)) {
    if (file == kLegacyFile) continue;
    const std::string name = file == kFile ? kDefaultTemplate : fs::path(file).stem().string();
    templates.push_back({name, model.text(file, file_limits::kTokenizerConfig), model.where(file)});
  }
  if (templates.empty()) templates = templates_in(model, "tokenizer_config.json");
  if (templates.empty()) templates = templates_in(model, kLegacyFile);
  return templates;
}

const NamedTemplate* find_template(const std::vector<NamedTemplate>& templates, std::string_view name) {
  const auto found = std::find_if(templates.begin(), templates.end(),
                                  [&](const NamedTemplate& one) { return one.name == name; });
  return found == templates.end() ? nullptr : &*found;
}

}  // namespace heed
