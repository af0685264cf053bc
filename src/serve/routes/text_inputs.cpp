// Texts to tokens, with the checks of both.
#include "serve/routes/text_inputs.h"

#include <fmt/format.h>

#include <algorithm>

namespace heed::serve {
namespace {

void require_length(std::int64_t size, std::int64_t longest) {
  if (size > longest)
    throw ApiError(ErrorCode::too_long,
                   fmt::format("request: expected texts of at most {} tokens, the model's maximum context "
                               "length, got {} (shorten it, or let truncate be true)",
                               longest, size));
}

[[noreturn]] void refuse(const char* key, const std::string& expected, const Json& given) {
  throw ApiError(ErrorCode::invalid,
                 fmt::format("request: {}: expected {}, got {}", key, expected, json_shown(given)), key);
}

// The first `most` of them, or the last.
Encoding encoding_of_ids(const ServedModel& model, const char* key, const Json& list, std::int64_t most,
                         bool left) {
  Encoding encoding;
  std::int64_t cut = left ? std::ssize(list) - most : 0;  // of the beginning
  for (const Json& one : list) {
    const std::int64_t id = token_id(key, one, model.model().vocab_size());
    if (cut-- <= 0 && encoding.size() < most) encoding.push(id, {}, {0, 0});
  }
  encoding.type_ids.assign(encoding.ids.size(), 0);
  encoding.special_tokens_mask.assign(encoding.ids.size(), 0);
  encoding.sequence_ids.assign(encoding.ids.size(), 0);
  if (encoding.ids.empty())
    throw ApiError(ErrorCode::empty, "request: expected at least one token, got none", key);
  return encoding;
}

void tell_cut(const RequestContext& context, std::size_t count) {
  if (count > 0) context.call->headers.emplace_back("X-Truncated-Inputs", std::to_string(count));
}

}  // namespace

std::int64_t longest_text(const ServedModel& model, const EmbeddingRecipe* recipe) {
  const std::int64_t longest = longest_input(model.model(), model.tokenizer());
  return recipe != nullptr ? std::min(longest, recipe->max_length.value_or(longest)) : longest;
}

void TruncationFields::walk(Fields& fields) {
  std::string direction = "right";
  fields("truncate", truncate, kTruncateNote);
  fields("truncation_direction", direction, "Where they are cut: at the end (`right`), or at the beginning",
         {.words = {"right", "left", "Right", "Left"}});
  left = direction == "left" || direction == "Left";
}

void require_bytes(const ServedModel& model, const char* key, std::string_view text, std::int64_t tokens,
                   bool is_cut, ErrorCode code) {
  const std::int64_t of_tokens = model.most_bytes(tokens),
                     most = is_cut ? std::max(of_tokens, kMostCutBytes) : of_tokens;
  if (std::ssize(text) > most)
    throw ApiError(
        is_cut ? ErrorCode::too_large : code,
        fmt::format("request: {}: expected a text of at most {} bytes{}, got {} (shorten it)", key, most,
                    is_cut ? "" : fmt::format(", the most of {} tokens", tokens), text.size()),
        key);
}

void TextInputFields::walk(Fields& fields) {
  fields.any(key, inputs, "A text, ids of tokens, or an array of these",
             {.required = kInputsForm, .schema = kInputsSchema});
  truncation.walk(fields);
  fields("prompt_name", prompt_name, "The prompt of the model's files that is put before each text");
}

const EmbeddingRecipe& asked_recipe(const ServedModel& model, const std::optional<std::string>& prompt_name,
                                    const server::RequestObject& object, bool normalize) {
  const auto found = model.recipes.find(prompt_name.value_or(""));
  if (found == model.recipes.end()) {
    std::string names;
    for (const auto& [name, recipes] : model.recipes)
      names += (names.empty() || name.empty() ? "" : ", ") + name;
    object.fail("prompt_name", names.empty() ? "none, as the model has no prompts" : "one of " + names);
  }
  return normalize ? found->second.unit : found->second.raw;
}

const Json& checked_array(const Json& list, const char* key) {
  if (!list.is_array()) refuse(key, "an array", list);
  if (list.empty())
    throw ApiError(ErrorCode::empty, fmt::format("request: {}: expected at least one, got none", key), key);
  if (!list.front().is_number() && list.size() > kMostInputs)
    throw ApiError(ErrorCode::too_large,
                   fmt::format("request: {}: expected at most {}, got {}", key, kMostInputs, list.size()),
                   key);
  return list;
}

std::shared_ptr<EncoderJob> encoder_job(const RequestContext& context, EncoderWork work,
                                        std::vector<Encoding> texts) {
  auto job = std::make_shared<EncoderJob>();
  job->call = context.call;
  job->model = &context.model;
  job->work = work;
  for (const Encoding& text : texts) job->tokens += text.size();
  job->call->record.prompt_tokens = job->tokens;
  job->texts = std::move(texts);
  return job;
}

std::vector<Encoding> read_inputs(const RequestContext& context, const Json& given, const char* key,
                                  const TruncationFields& truncation, const EmbeddingRecipe& recipe) {
  const ServedModel& model = context.model;
  std::vector<Encoding> texts;
  std::size_t cut = 0;
  if (!given.is_string() && !given.is_array()) refuse(key, kInputsForm, given);
  const std::int64_t longest = longest_text(model, &recipe);
  const auto add = [&](const Json& one) {
    Encoding encoding;
    if (one.is_string()) {
      const std::string& text = one.get_ref<const std::string&>();
      if (text.empty())
        throw ApiError(ErrorCode::empty, fmt::format("request: {}: expected texts, got an empty one", key),
                       key);
      require_bytes(model, key, text, longest, truncation.truncate);
      if (!truncation.truncate)
        require_length(model.tokenizer().encode(recipe.prompt + text).size(), longest);
      bool warned = false;  // also of one that is longer than those of the training, and not cut
      TaskOptions options;
      options.on_warning = [&](const auto&...) { warned = true; };
      encoding = encode_texts(model.model(), model.tokenizer(), std::span(&text, 1), recipe, options,
                              truncation.left)
                     .front();
      cut += warned && encoding.size() == longest;
    } else if (one.is_array()) {
      if (!truncation.truncate) require_length(std::ssize(one), longest);
      encoding = encoding_of_ids(model, key, one, longest, truncation.left);
      cut += std::ssize(one) > longest;
    } else {
      refuse(key, "texts or ids of tokens alone", given);
    }
    texts.push_back(std::move(encoding));
  };
  if (given.is_array() && !given.front().is_number()) {
    for (const Json& one : given) add(one);
  } else {
    add(given);
  }
  tell_cut(context, cut);
  return texts;
}

std::vector<Encoding> encode_pairs(const RequestContext& context, const std::vector<TextPair>& pairs,
                                   const TruncationFields& truncation) {
  const ServedModel& model = context.model;
  std::size_t cut = 0;
  TaskOptions options;
  options.on_warning = [&](const auto&...) { ++cut; };
  const std::int64_t longest = longest_text(model, nullptr);
  std::vector<Encoding> encodings;
  for (const TextPair& pair : pairs) {
    require_bytes(model, "texts", pair.first, longest, truncation.truncate);
    if (pair.second) require_bytes(model, "texts", *pair.second, longest, truncation.truncate);
    if (!truncation.truncate)
      require_length((pair.second ? model.tokenizer().encode_pair(pair.first, *pair.second)
                                  : model.tokenizer().encode(pair.first))
                         .size(),
                     longest);
    encodings.push_back(encode_cut(model.tokenizer(), pair, longest, options, 0, truncation.left));
  }
  tell_cut(context, cut);
  return encodings;
}

}  // namespace heed::serve
