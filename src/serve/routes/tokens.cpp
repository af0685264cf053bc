// The tokens of texts and the texts of ids, each in the forms of Text Embeddings Inference, llama.cpp and
// vLLM.
#include <fmt/format.h>

#include <tuple>

#include "core/pause_point.h"
#include "heed/io/json.h"
#include "serve/routes/routes.h"
#include "serve/routes/text_inputs.h"

namespace heed::serve {
namespace {

constexpr Need kReadsTexts{"embedding", "reads texts"};
constexpr const char* kTokenTopic = "Tokens";

constexpr std::size_t kMostBytes = 1 << 20, kMostIds = 1 << 20;  // of all texts, and lists, of a request
const FieldRule kText{.bytes = kMostBytes};

void write_token(JsonWriter& json, const ServedModel& model, const Encoding& encoding, std::size_t i) {
  const bool added = encoding.special_tokens_mask[i] != 0;
  std::optional<std::int64_t> start, stop;
  if (!added) std::tie(start, stop) = encoding.offsets[i];
  json.begin_object().field("id", encoding.ids[i]).field("text", encoding.tokens[i]);
  json.field("special", added || model.tokenizer().is_special(encoding.ids[i]));
  json.field("start", start).field("stop", stop).end_object();
}

[[noreturn]] void refuse_size(const char* key, const char* what, std::size_t most, std::size_t got) {
  throw ApiError(ErrorCode::too_large,
                 fmt::format("request: {}: expected at most {} {}, got {}", key, most, what, got), key);
}

struct TokenizeFields {
  void walk(Fields& fields) {
    fields("inputs", inputs, "A text, or an array of texts, of at most 1048576 bytes together");
    fields("content", content, "A text, in the form of llama.cpp", kText);
    fields("prompt", prompt, "A text, in the form of vLLM", kText);
    fields("add_special_tokens", add_special_tokens, "Those that the model expects around a text");
    fields("add_special", add_special, "The same with `content`");
    fields("prompt_name", prompt_name, "The prompt of the model's files that is put before each text");
  }
  std::vector<std::string> inputs;
  std::optional<std::string> content, prompt, prompt_name;
  bool add_special_tokens = true, add_special = false;
};

void tokenize(const RequestContext& context, TokenizeFields given) {
  const ServedModel& model = context.model;
  if (context.fields.reads()->find("inputs") == nullptr) {
    if (!given.content && !given.prompt) context.fields.fail("prompt", "a text");
    const bool llama = given.content.has_value();
    const std::vector<std::int64_t> ids = model.tokenizer()
                                              .encode(llama ? *given.content : *given.prompt,
                                                      llama ? given.add_special : given.add_special_tokens)
                                              .ids;
    if (llama) return context.call->answer(Json{{"tokens", ids}});
    return context.call->answer(
        Json{{"count", ids.size()}, {"max_model_len", model.context()}, {"tokens", ids}});
  }
  const std::string prompt = asked_recipe(model, given.prompt_name, *context.fields.reads(), false).prompt;
  std::size_t bytes = 0;
  for (const std::string& text : given.inputs) bytes += prompt.size() + text.size();
  if (bytes > kMostBytes) refuse_size("inputs", "bytes of texts", kMostBytes, bytes);
  JsonWriter json;
  json.begin_array();
  for (const std::string& text : given.inputs) {
    const Encoding encoding = model.tokenizer().encode(prompt + text, given.add_special_tokens);
    json.begin_array();
    for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
      pause_point();
      write_token(json, model, encoding, i);
    }
    json.end_array();
  }
  context.call->answer(HttpResponse{200, json.end_array().text()});
}

struct DecodeFields {
  void walk(Fields& fields) {
    fields.array("ids", ids, "Ids of tokens, or an array of these: at most 1048576 ids");
    fields.array("tokens", tokens, "Ids of tokens, in the form of llama.cpp");
    fields("skip_special_tokens", skip, "The texts have none of special tokens");
  }
  const Json *ids = nullptr, *tokens = nullptr;
  bool skip = true;
};

void decode(const RequestContext& context, DecodeFields given) {
  const ServedModel& model = context.model;
  const bool llama = given.tokens != nullptr;
  const char* key = llama ? "tokens" : "ids";
  const Json* list_given = llama ? given.tokens : given.ids;
  if (list_given == nullptr) context.fields.fail(key, "an array");
  const bool is_list = !list_given->empty() && list_given->front().is_array();
  const Json lists = is_list ? checked_array(*list_given, key) : Json::array({*list_given});
  if (lists.front().empty())
    throw ApiError(ErrorCode::empty, fmt::format("request: {}: expected at least one, got none", key), key);
  std::size_t count = 0;
  for (const Json& list : lists) count += list.size();
  if (count > kMostIds) refuse_size(key, "ids", kMostIds, count);
  const bool skip = given.skip;
  Json texts = Json::array();
  for (const Json& list : lists) {
    std::vector<std::int64_t> ids;
    for (const Json& one : list) ids.push_back(token_id(key, one, model.tokenizer().vocab_size()));
    texts.push_back(model.tokenizer().decode_clean(ids, skip));
  }
  context.call->answer(llama ? Json{{"content", texts.front()}} : texts);
}

}  // namespace

Routes token_routes(Serving* serving) {
  return {
      to_model(serving,
               {"POST",
                {"/tokenize"},
                ErrorForm::tei,
                kTokenTopic,
                "The tokens of texts",
                {{R"([[{"id": "integer", "text": "string", "special": "boolean", "start": "integer|null",
                        "stop": "integer|null"}]])"},
                 {R"({"tokens": ["integer"]})"},
                 {R"({"count": "integer", "max_model_len": "integer", "tokens": ["integer"]})"}}},
               kReadsTexts, tokenize),
      to_model(serving,
               {"POST",
                {"/decode", "/detokenize"},
                ErrorForm::tei,
                kTokenTopic,
                "The texts of ids",
                {{R"(["string"])"}, {R"({"content": "string"})"}}},
               kReadsTexts, decode),
  };
}

}  // namespace heed::serve
