// Opening models, and conversations as prompts.
#include "serve/served_model.h"

#include <algorithm>
#include <limits>

#include "files/input_file.h"
#include "heed/api/loaded_model.h"
#include "heed/text/token_bytes.h"
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
  if (ModelChat::has_template(served.directory))
    served.chat = ModelChat::load(served.directory, *served.tokenizer);
  served.token_bytes = token_bytes(*served.tokenizer);
  served.vocabulary.emplace(served.token_bytes);
  const auto ids = static_cast<std::size_t>(served.model->vocab_size());  // may be more than the tokenizer's
  served.token_bytes.resize(std::max(served.token_bytes.size(), ids));
  return served;
}

std::vector<std::int64_t> chat_prompt(const ServedModel& model, const Json& conversation) {
  if (!model.chat)
    throw ApiError(
        Problem::not_supported,
        model.name + ": expected a model with a chat template, got one without (use /v1/completions)",
        "model");
  try {
    return model.chat->prompt(json_text(conversation), "request").encoding.ids;
  } catch (const Error& error) {
    throw ApiError(Problem::invalid, error.what(), "messages");
  }
}

}  // namespace heed::serve
