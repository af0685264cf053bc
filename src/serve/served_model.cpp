// Opening models, and conversations as prompts.
#include "serve/served_model.h"

#include <algorithm>
#include <limits>

#include "core/json_field.h"
#include "files/input_file.h"
#include "heed/api/loaded_model.h"
#include "heed/files/file.h"
#include "serve/api_error.h"

namespace heed::serve {
namespace {

Recipes recipes_of(EmbeddingRecipe recipe) {
  Recipes both{recipe, recipe};
  if (recipe.steps.empty() || !recipe.steps.back().normalize) {
    EmbeddingStep step;
    step.normalize = true;
    both.unit.steps.push_back(step);
  } else {
    both.raw.steps.pop_back();
  }
  return both;
}

std::map<std::string, Recipes> all_recipes(const EmbeddingRecipe& recipe) {
  std::map<std::string, Recipes> recipes{{"", recipes_of(recipe)}};
  for (const auto& [name, prompt] : recipe.prompts) {
    EmbeddingRecipe prompted = recipe;
    prompted.prompt = prompt;
    recipes.emplace(name, recipes_of(prompted));
  }
  return recipes;
}

// The text of a token in tokenizer_config.json: a string, or an object with its content.
std::string token_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  const auto content = value.is_object() ? value.find("content") : value.end();
  return content != value.end() && content->is_string() ? content->get<std::string>() : std::string();
}

void load_chat(ServedModel& served) {
  const std::filesystem::path folder = served.directory;
  const std::filesystem::path settings = folder / "tokenizer_config.json",
                              file = folder / "chat_template.jinja";
  Json config = Json::object();
  if (has_entry(settings)) config = parse_json(read_file(settings), settings.string());
  Json constants = Json::object();
  for (const char* name : {"bos_token", "eos_token", "pad_token", "unk_token"}) {
    const auto found = config.find(name);
    const std::string text = found == config.end() ? std::string() : token_text(*found);
    if (!text.empty()) constants[name] = text;
  }
  served.chat_constants = json_text(constants);
  const auto found = config.find("chat_template");
  if (has_entry(file)) {
    served.chat = ChatTemplate::parse(read_file(file), file.string());
  } else if (found != config.end() && found->is_string()) {
    served.chat = ChatTemplate::parse(found->get<std::string>(), settings.string() + ": chat_template");
  }
}

void end_in_last_message(RenderedChat& chat, const Json& variables) {
  const auto& last = variables.at("messages").back().at("content").get_ref<const std::string&>();
  const std::size_t at = last.empty() ? chat.text.npos : chat.text.rfind(last);
  if (at == chat.text.npos)
    throw Error("continue_final_message: the template does not show the last message as it is");
  chat.text.resize(at + last.size());
  while (!chat.data.empty() && chat.data.back().begin >= chat.text.size()) chat.data.pop_back();
  if (!chat.data.empty()) chat.data.back().end = std::min(chat.data.back().end, chat.text.size());
}

}  // namespace

const EncoderModel* ServedModel::encoder() const {
  const auto* encoder = dynamic_cast<const EncoderModel*>(model.get());
  return encoder != nullptr && encoder->input().kind == InputKind::tokens ? encoder : nullptr;
}

std::int64_t ServedModel::context() const {
  return std::min(model->max_positions().value_or(std::numeric_limits<std::int64_t>::max()),
                  trained_length(*model, *tokenizer).value_or(std::numeric_limits<std::int64_t>::max()));
}

ServedModel load_served(const std::string& name, const LocatedModel& located, const WeightOptions& weights) {
  ServedModel served;
  served.name = name;
  const bool body = has_entry(located.directory / "modules.json");
  LocatedModel transformer = located;
  transformer.directory = transformer_directory(located.directory);
  served.directory = transformer.directory.string();
  served.model = body ? load_model_body(transformer.directory, weights, located.adapters)
                      : load_model(transformer, weights);
  const std::vector<Task> tasks = tasks_of(*served.model);
  const auto has = [&](Task task) { return std::find(tasks.begin(), tasks.end(), task) != tasks.end(); };
  if (!has(Task::embed) && !has(Task::transcribe))
    throw Error(name + ": expected a model of texts or of speech, got " + kind_of(*served.model));
  served.tokenizer = load_tokenizer(transformer.directory);
  if (has(Task::transcribe)) {
    served.transcriber.emplace(*served.model, *served.tokenizer, served.directory);
    return served;
  }
  served.recipes = all_recipes(load_embedding_recipe(located.directory, *served.model));
  if (served.decoder() == nullptr && served.encoder_decoder() == nullptr) return served;
  served.generation = load_generation_options(served.directory);
  if (served.tokenizer->languages() != nullptr) served.translating = load_tokenizer(transformer.directory);
  if (served.decoder() == nullptr) return served;
  load_chat(served);
  return served;
}

std::vector<std::int64_t> chat_prompt(const ServedModel& model, const Json& conversation) {
  if (!model.chat)
    throw ApiError(
        Problem::not_supported,
        model.name + ": expected a model with a chat template, got one without (use /v1/completions)",
        "model");
  RenderOptions options;
  options.constants = model.chat_constants;
  Json variables = conversation;
  const auto more = variables.find("chat_template_kwargs");
  if (more != variables.end() && more->is_object()) {
    const Json members = *more;
    variables.erase("chat_template_kwargs");
    variables.update(members);
  }
  try {
    RenderedChat chat = model.chat->render(json_text(variables), options);
    if (variables.value("continue_final_message", false)) end_in_last_message(chat, variables);
    return model.tokenizer->encode_chat(chat.text, chat.data).ids;
  } catch (const ApiError&) {
    throw;
  } catch (const Error& error) {
    throw ApiError(Problem::invalid, error.what(), "messages");
  }
}

}  // namespace heed::serve
