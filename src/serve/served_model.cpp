// Opening models, and conversations as prompts.
#include "serve/served_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>

#include "chat/conversation.h"
#include "files/checksum.h"
#include "heed/open/capabilities.h"
#include "heed/text/tokenizer.h"
#include "heed/version.h"
#include "server/messages.h"

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

std::int64_t longest_of(const Tokenizer& tokenizer) {
  std::size_t longest = 1;
  for (std::int64_t id = 0; id < tokenizer.vocab_size(); ++id) {
    try {
      longest = std::max(longest, tokenizer.token(id).size());
    } catch (const Error&) {  // a gap
    }
  }
  return static_cast<std::int64_t>(longest);
}

std::int64_t bytes_of_texts(const Json& value) {
  if (value.is_string()) return std::ssize(value.get_ref<const std::string&>());
  std::int64_t bytes = 0;
  if (value.is_structured()) {
    for (const Json& one : value) bytes += bytes_of_texts(one);
  }
  return bytes;
}

}  // namespace

std::int64_t ServedModel::context() const {
  return std::min(model().max_positions().value_or(std::numeric_limits<std::int64_t>::max()),
                  trained_length(model(), tokenizer()).value_or(std::numeric_limits<std::int64_t>::max()));
}

std::string ServedModel::fingerprint() const {
  const std::string server = std::string("heed-") + version();
  if (files.empty()) return server;
  return fmt::format("{}-{:08x}", server, files::crc32c(std::as_bytes(std::span(files))));
}

std::string ServedModel::told(const Error& error) const {
  std::string text = error.what();
  for (const std::string& path : {opened.directory(), opened.location()}) {
    for (std::size_t at = text.find(path); at != text.npos; at = text.find(path, at + name.size()))
      text.replace(at, path.size(), name);
  }
  return text;
}

std::int64_t ServedModel::most_bytes(std::int64_t tokens) const {
  constexpr std::int64_t kMostTokens = 1 << 24;
  return std::min(tokens, kMostTokens) * longest_token;
}

ServedModel serve_model(const std::string& name, LoadedModel opened) {
  ServedModel served{.name = name, .opened = std::move(opened)};
  if (!can(served.model(), Task::embed) && !can(served.model(), Task::transcribe))
    throw Error(name + ": expected a model of texts or of speech, got " + kind_of(served.model()));
  const Tokenizer& tokenizer = served.tokenizer();
  if (can(served.model(), Task::transcribe)) {
    served.opened.transcriber();
    return served;
  }
  served.longest_token = longest_of(tokenizer);
  served.recipes = all_recipes(served.opened.recipe());
  if (served.decoder() == nullptr && served.encoder_decoder() == nullptr) return served;
  served.opened.generation();
  if (tokenizer.languages() != nullptr) served.translating = served.opened.own_tokenizer();
  if (served.decoder() == nullptr) return served;
  served.has_chat = served.opened.has_chat_template();
  if (served.has_chat) served.opened.chat_templates();
  served.token_bytes = token_bytes(tokenizer);
  served.vocabulary.emplace(served.token_bytes);
  const auto ids = static_cast<std::size_t>(served.model().vocab_size());  // may be more than the tokenizer's
  served.token_bytes.resize(std::max(served.token_bytes.size(), ids));
  return served;
}

std::int64_t token_id(const char* key, const Json& given, std::int64_t count) {
  if (given.is_number_integer() && given >= 0 && given < count) return given.get<std::int64_t>();
  throw ApiError(ErrorCode::invalid,
                 fmt::format("request: {}: expected ids of tokens from 0 to {}, got {}", key, count - 1,
                             json_shown(given)),
                 key);
}

EncodedChat chat_prompt(const ServedModel& model, Json conversation) {
  if (!model.has_chat)
    throw ApiError(
        ErrorCode::not_supported,
        model.name + ": expected a model with a chat template, got one without (use /v1/completions)",
        "model");
  // Before the template and the tokenizer work on them.
  const std::int64_t bytes = bytes_of_texts(conversation["messages"]),
                     most = model.most_bytes(model.context());
  if (bytes > most)
    throw ApiError(ErrorCode::too_long,
                   "request: messages: expected texts of at most " + std::to_string(most) +
                       " bytes, more than which no text of the model's maximum context length has, got " +
                       std::to_string(bytes),
                   "messages");
  try {
    const chat::Conversation value(std::move(conversation), "request");
    return model.opened.chat_templates().prompt(value);
  } catch (const Error& error) {
    throw ApiError(ErrorCode::invalid, model.told(error), "messages");
  }
}

}  // namespace heed::serve
