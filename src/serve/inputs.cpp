// Texts to tokens, with the checks of both.
#include "serve/inputs.h"

#include <fmt/format.h>

#include <algorithm>

namespace heed::serve {
namespace {

void require_length(std::int64_t size, std::int64_t longest) {
  if (size > longest)
    throw ApiError(Problem::too_long,
                   fmt::format("request: expected texts of at most {} tokens, the model's maximum context "
                               "length, got {} (shorten it, or let truncate be true)",
                               longest, size));
}

Encoding encoding_of_ids(const ServedModel& model, const Fields& fields, const char* key, const Json& list) {
  Encoding encoding;
  for (const Json& one : list) {
    if (!one.is_number_integer() || one < 0 || one >= model.model->vocab_size())
      fields.fail(key, fmt::format("ids of tokens below {}", model.model->vocab_size()));
    encoding.push(one.get<std::int64_t>(), {}, {0, 0});
  }
  encoding.type_ids.assign(encoding.ids.size(), 0);
  encoding.special_tokens_mask.assign(encoding.ids.size(), 0);
  encoding.sequence_ids.assign(encoding.ids.size(), 0);
  if (encoding.ids.empty())
    throw ApiError(Problem::empty, "request: expected at least one token, got none", key);
  return encoding;
}

}  // namespace

std::int64_t longest_text(const ServedModel& model, const EmbeddingRecipe* recipe) {
  const std::int64_t longest = longest_input(*model.model, *model.tokenizer);
  return recipe != nullptr ? std::min(longest, recipe->max_length.value_or(longest)) : longest;
}

std::int64_t Inputs::tokens() const {
  std::int64_t sum = 0;
  for (const Encoding& text : texts) sum += text.size();
  return sum;
}

const EmbeddingRecipe& asked_recipe(const ServedModel& model, const Fields& fields, bool normalize) {
  const auto found = model.recipes.find(fields.string("prompt_name").value_or(""));
  if (found == model.recipes.end()) {
    std::string names;
    for (const auto& [name, recipes] : model.recipes)
      names += (names.empty() || name.empty() ? "" : ", ") + name;
    fields.fail("prompt_name", names.empty() ? "none, as the model has no prompts" : "one of " + names);
  }
  return normalize ? found->second.unit : found->second.raw;
}

const Json& required_array(const Fields& fields, const char* key) {
  const Json* list = fields.array(key);
  if (list == nullptr) fields.fail(key, "an array");
  if (list->empty())
    throw ApiError(Problem::empty, fmt::format("request: {}: expected at least one, got none", key), key);
  if (list->size() > kMostInputs)
    throw ApiError(Problem::too_large,
                   fmt::format("request: {}: expected at most {}, got {}", key, kMostInputs, list->size()),
                   key);
  return *list;
}

Inputs read_inputs(const ServedModel& model, const Fields& fields, const char* key,
                   const EmbeddingRecipe& recipe) {
  Inputs inputs;
  const Json* given = fields.find(key);
  if (given == nullptr || (!given->is_string() && !given->is_array()))
    fields.fail(key, "a text, ids of tokens, or an array of these");
  const std::int64_t longest = longest_text(model, &recipe);
  const bool truncate = fields.boolean("truncate").value_or(true);
  const auto add = [&](const Json& one) {
    Encoding encoding;
    if (one.is_string()) {
      const std::string& text = one.get_ref<const std::string&>();
      if (text.empty())
        throw ApiError(Problem::empty, fmt::format("request: {}: expected texts, got an empty one", key),
                       key);
      if (!truncate) require_length(model.tokenizer->encode(recipe.prompt + text).size(), longest);
      encoding = encode_texts(*model.model, *model.tokenizer, std::span(&text, 1), recipe).front();
    } else if (one.is_array()) {
      encoding = encoding_of_ids(model, fields, key, one);
      if (!truncate) require_length(encoding.size(), longest);
      if (encoding.size() > longest) encoding = encoding.slice(0, longest);
    } else {
      fields.fail(key, "texts or ids of tokens alone");
    }
    inputs.texts.push_back(std::move(encoding));
  };
  if (given->is_array()) required_array(fields, key);
  inputs.is_list = given->is_array() && !given->front().is_number();
  if (inputs.is_list) {
    for (const Json& one : *given) add(one);
  } else {
    add(*given);
  }
  return inputs;
}

std::vector<Encoding> encode_pairs(const ServedModel& model, const Fields& fields,
                                   const std::vector<TextPair>& pairs) {
  const std::int64_t longest = longest_text(model, nullptr);
  const bool truncate = fields.boolean("truncate").value_or(true);
  std::vector<Encoding> encodings;
  for (const TextPair& pair : pairs) {
    if (!truncate)
      require_length((pair.second ? model.tokenizer->encode_pair(pair.first, *pair.second)
                                  : model.tokenizer->encode(pair.first))
                         .size(),
                     longest);
    encodings.push_back(encode_cut(*model.tokenizer, pair, longest, {}, 0));
  }
  return encodings;
}

}  // namespace heed::serve
