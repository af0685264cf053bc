// All routes.
#include "serve/routes.h"
#include "core/strings.h"

#include "heed/version.h"
#include "serve/attend.h"
#include "serve/openai.h"
#include "serve/speech.h"
#include "serve/tei.h"
#include "serve/translate.h"

namespace heed::serve {
namespace {

using Notes = std::vector<FieldNote>;

Notes joined(Notes first, const Notes& more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

const Notes kModel = {{"model", "string", "The name of a served model; else the first that can"}};
const FieldNote kHeed = {
    "heed", "object",
    "Values of the model in the answer, and changed ones: taps, attention, steering, replace"};
const Notes kText =
    joined(kModel, {kHeed,
                    {"normalize", "boolean", "Vectors of length 1; default true"},
                    {"truncate", "boolean", "Cut texts that are too long, else refuse them; default true"},
                    {"prompt_name", "string", "The prompt of the model's files that is put before each text"},
                    {"dimensions", "integer", "The first numbers of each vector alone"}});
const Notes kGenerate = {
    {"max_tokens", "integer",
     "New tokens at most; completions: default 16; chats: what the model has room for"},
    {"temperature", "number", "0: the most probable token; default: as the model's files, else 1"},
    {"top_p", "number", "Sample from the most probable tokens of this probability"},
    {"top_k", "integer", "Sample from this many tokens; 0: from all"},
    {"min_p", "number", "Sample from tokens of this share of the largest probability"},
    {"n", "integer", "Choices of each prompt; default 1"},
    {"seed", "integer", "Of the random numbers; the same seed gives the same answer"},
    {"stop", "any", "A text, or an array of texts, that ends the answer"},
    {"stop_token_ids", "array", "Further tokens that end the answer"},
    {"ignore_eos", "boolean", "The model's end token does not end the answer"},
    {"min_tokens", "integer", "Before so many, nothing ends the answer; default 0"},
    {"skip_special_tokens", "boolean", "The answer has no texts of special tokens; default true"},
    {"truncate_prompt_tokens", "integer", "Tokens of a prompt at most; -1: what the model takes"},
    {"truncation_side", "string", "left (default) or right: where a prompt is cut"},
    {"stream", "boolean", "Answer by server-sent events"},
    {"stream_options", "object",
     "include_usage: the last event tells the usage; continuous_usage_stats: all events do"},
    {"presence_penalty", "number", "From -2 to 2: less of the tokens that were generated"},
    {"frequency_penalty", "number", "From -2 to 2: the same, each time"},
    {"repetition_penalty", "number", "Divides the scores of tokens that were there, prompt included"},
    {"logit_bias", "object", "From ids of tokens to what is added to their scores, from -100 to 100"},
    {"response_format", "object", "Of type text, json_object, or json_schema with {json_schema: {schema}}"},
    {"guided_json", "any", "A JSON Schema of the answer, as an object or as a text"},
    {"guided_regex", "string", "A regular expression of the answer"},
    {"guided_choice", "any", "Texts, one of which is the answer"},
    {"structured_outputs", "object", "The same in one object: json, regex or choice"},
    {"json_schema", "any", "As guided_json"},
    {"return_tokens_as_token_ids", "boolean", "Log-probabilities are of token_id:5 in place of texts"},
    {"return_token_ids", "boolean", "Tell the ids of the answer's tokens, and of the prompt's"},
    kHeed};

const Notes kSpeech =
    joined(kModel, {{"file", "string", "The recording: WAV, FLAC, Ogg or MP3", true},
                    {"language", "string", "That is spoken, as code or English name; else detected"},
                    {"prompt", "string", "Text that seems to precede the recording: names, spelling, style"},
                    {"response_format", "string", "json, text, srt, verbose_json or vtt"},
                    {"temperature", "number", "0: the likeliest text, at higher ones where it seems wrong"},
                    {"timestamp_granularities[]", "array", "segment, word: what verbose_json shows"},
                    {"stream", "boolean", "Send the text in pieces, as server-sent events"}});

std::vector<Route> made_routes() {
  return {
      {"GET",
       {"/health", "/v1/health", "/ping"},
       Api::openai,
       "Whether the server answers",
       nullptr,
       {},
       true},
      {"GET", {"/metrics"}, Api::openai, "Counts and times, for Prometheus"},
      {"GET", {"/openapi.json"}, Api::openai, "This document"},
      {"GET", {"/"}, Api::openai, "The models and routes, in short", openai::overview},
      {"GET", {"/v1/models", "/models"}, Api::openai, "The served models", openai::models},
      {"GET", {"/v1/models/{model}", "/models/{model}"}, Api::openai, "A served model", openai::model},
      {"POST",
       {"/v1/chat/completions", "/chat/completions"},
       Api::openai,
       "Answer a conversation",
       openai::chat_completions,
       joined(joined(kModel,
                     {{"messages", "array", "Objects with role and content", true},
                      {"max_completion_tokens", "integer", "As max_tokens"},
                      {"logprobs", "boolean", "Tell the log-probabilities of the answer's tokens"},
                      {"top_logprobs", "integer", "And those of this many others, at most 20"},
                      {"tools", "array", "Functions that the model may call, if its template knows tools"},
                      {"tool_choice", "any", "auto, none, required, or {function: {name}}"},
                      {"documents", "array", "For the chat template"},
                      {"chat_template_kwargs", "object", "Further variables of the chat template"},
                      {"add_generation_prompt", "boolean", "End the prompt with the beginning of an answer"},
                      {"continue_final_message", "boolean", "Go on with the last message"}}),
              kGenerate)},
      {"POST",
       {"/v1/completions", "/completions"},
       Api::openai,
       "Continue texts",
       openai::completions,
       joined(joined(kModel,
                     {{"prompt", "any", "A text, ids of tokens, or an array of these", true},
                      {"echo", "boolean", "Put the prompt before its continuation, with its logprobs"},
                      {"best_of", "integer", "Candidates, of which the likeliest n are the choices"},
                      {"add_special_tokens", "boolean",
                       "Those that the model expects around a text; default true"},
                      {"logprobs", "integer", "Tell the log-probabilities of tokens and this many others"},
                      {"suffix", "string", "Not supported"}}),
              kGenerate)},
      {"POST",
       {"/v1/embeddings", "/embeddings"},
       Api::openai,
       "Vectors of texts",
       openai::embeddings,
       joined(kModel,
              {{"input", "any", "A text, ids of tokens, or an array of these", true},
               kHeed,
               {"encoding_format", "string", "float or base64 (little-endian float32)"},
               {"dimensions", "integer", "The first numbers of each vector alone"},
               {"truncate", "boolean", "Cut texts that are too long, else refuse them; default true"},
               {"prompt_name", "string", "The prompt of the model's files that is put before each text"}})},
      {"POST",
       {"/v1/audio/transcriptions", "/audio/transcriptions"},
       Api::openai,
       "The text of a recording",
       openai::transcriptions,
       kSpeech,
       false,
       true},
      {"POST",
       {"/v1/audio/translations", "/audio/translations"},
       Api::openai,
       "The English text of a recording in another language",
       openai::translations,
       kSpeech,
       false,
       true},
      {"POST",
       {"/embed"},
       Api::tei,
       "Vectors of texts",
       tei::embed,
       joined({{"inputs", "any", "A text, ids of tokens, or an array of these", true}}, kText)},
      {"POST",
       {"/embed_all"},
       Api::tei,
       "Vectors of the tokens of texts",
       tei::embed_all,
       joined(kModel,
              {{"inputs", "any", "A text, ids of tokens, or an array of these", true},
               {"truncate", "boolean", "Cut texts that are too long, else refuse them; default true"},
               {"prompt_name", "string", "The prompt of the model's files that is put before each text"}})},
      {"POST",
       {"/embed_sparse"},
       Api::tei,
       "Weights of words (SPLADE), of a masked language model",
       tei::embed_sparse,
       joined(kModel,
              {{"inputs", "any", "A text, ids of tokens, or an array of these", true},
               {"truncate", "boolean", "Cut texts that are too long, else refuse them; default true"},
               {"prompt_name", "string", "The prompt of the model's files that is put before each text"}})},
      {"POST",
       {"/predict"},
       Api::tei,
       "Labels of texts and pairs of texts",
       tei::predict,
       joined(kModel,
              {{"inputs", "any", "A text, a pair, or an array of arrays of these", true},
               {"raw_scores", "boolean", "Logits in place of probabilities"},
               {"truncate", "boolean", "Cut texts that are too long, else refuse them; default true"}})},
      {"POST",
       {"/rerank", "/reranking", "/v1/rerank"},
       Api::tei,
       "How well texts answer a query, best first",
       tei::rerank,
       joined(kModel,
              {{"query", "string", "What is searched", true},
               {"texts", "array", "Texts, of TEI's form"},
               {"documents", "array", "Texts or objects with a text, of the form of Jina and Cohere"},
               {"top_n", "integer", "The best alone"},
               {"raw_scores", "boolean", "Logits in place of probabilities"},
               {"return_text", "boolean", "Tell each text, too"},
               {"return_documents", "boolean", "The same for documents"},
               {"truncate", "boolean", "Cut texts that are too long, else refuse them; default true"}})},
      {"POST",
       {"/similarity"},
       Api::tei,
       "Cosines of a text and others",
       tei::similarity,
       joined(kModel, {{"inputs", "object", "source_sentence, and sentences", true},
                       {"parameters", "object", "truncate and prompt_name"}})},
      {"POST",
       {"/tokenize"},
       Api::tei,
       "The tokens of texts",
       tei::tokenize,
       joined(kModel,
              {{"inputs", "any", "A text, or an array of texts"},
               {"content", "string", "A text, in the form of llama.cpp"},
               {"prompt", "string", "A text, in the form of vLLM"},
               {"add_special_tokens", "boolean", "Those that the model expects around a text; default true"},
               {"add_special", "boolean", "The same with content; default false"},
               {"prompt_name", "string", "The prompt of the model's files that is put before each text"}})},
      {"POST",
       {"/decode", "/detokenize"},
       Api::tei,
       "The texts of ids",
       tei::decode,
       joined(kModel, {{"ids", "array", "Ids of tokens, or an array of these"},
                       {"tokens", "array", "Ids of tokens, in the form of llama.cpp"},
                       {"skip_special_tokens", "boolean", "Default true"}})},
      {"POST",
       {"/attend"},
       Api::openai,
       "What the tokens of a text attend to, as JSON, or as a page with Accept: text/html",
       attend,
       joined(kModel, {{"text", "string", "What the model reads", true},
                       {"target", "string", "What the decoder of an encoder-decoder reads"},
                       {"kind", "string", "cross, encoder or decoder; else all that the model has"},
                       {"layers", "array", "From 0; else all"},
                       {"heads", "array", "From 0; else all"}})},
      {"POST",
       {"/translate"},
       Api::openai,
       "Texts through an encoder-decoder: translations, summaries",
       translate_texts,
       joined(kModel,
              {{"text", "any", "A text, or an array of texts", true},
               {"source_lang", "string", "Of a model of several languages: a name or token"},
               {"target_lang", "string", "The same"},
               {"prefix", "string", "Put before each text: translate English to German: (T5)"},
               {"num_beams", "integer", "Of beam search; default: as the model's files"},
               {"max_new_tokens", "integer", "Of each translation; default: as the model's files"},
               {"truncate", "boolean", "Cut texts that are too long, else refuse them; default false"}})},
      {"GET", {"/info"}, Api::tei, "A model (?model=NAME, else the first), and the limits", tei::info},
  };
}

// Whether a path is that of a route; `{…}` matches one character or more.
bool matches(std::string_view pattern, std::string_view path) {
  const std::size_t open = pattern.find('{');
  if (open == pattern.npos) return path == pattern;
  return path.size() > open && path.substr(0, open) == pattern.substr(0, open);
}

Json schema_of(const Route& route) {
  Json properties = Json::object(), required = Json::array();
  for (const FieldNote& field : route.fields) {
    Json one = {{"description", field.note}};
    if (std::string_view(field.type) != "any") one["type"] = field.type;
    properties[field.name] = std::move(one);
    if (field.required) required.push_back(field.name);
  }
  Json schema = {{"type", "object"}, {"properties", std::move(properties)}};
  if (!required.empty()) schema["required"] = std::move(required);
  return schema;
}

Json operation_of(const Route& route, const std::string& path) {
  Json operation = {{"summary", route.summary}};
  operation["responses"]["200"] = {{"description", "The answer"}};
  operation["responses"]["default"] = {{"description", "What is wrong"}};
  if (!route.fields.empty()) {
    operation["requestBody"]["required"] = true;
    const char* type = route.is_form ? "multipart/form-data" : "application/json";
    operation["requestBody"]["content"][type]["schema"] = schema_of(route);
  }
  if (path.find('{') != path.npos) {
    Json parameter = {
        {"name", "model"}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}};
    operation["parameters"] = Json::array({std::move(parameter)});
  }
  if (!route.is_public) {
    Json key = {{"key", Json::array()}};
    operation["security"] = Json::array({Json::object(), std::move(key)});
  }
  return operation;
}

}  // namespace

const std::vector<Route>& routes() {
  static const std::vector<Route> all = made_routes();
  return all;
}

const Route* find_route(std::string_view method, std::string_view path, std::string* methods) {
  const Route* found = nullptr;
  for (const Route& route : routes()) {
    for (const char* pattern : route.paths) {
      if (!matches(pattern, path)) continue;
      if (methods != nullptr) *methods += (methods->empty() ? "" : ", ") + std::string(route.method);
      if (route.method == (method == "HEAD" ? "GET" : method)) found = &route;
    }
  }
  return found;
}

Json openapi() {
  Json document = {{"openapi", "3.1.0"},
                   {"info", {{"title", "heed serve"}, {"version", version()}}},
                   {"paths", Json::object()}};
  document["components"]["securitySchemes"]["key"] = {{"type", "http"}, {"scheme", "bearer"}};
  for (const Route& route : routes()) {
    for (const std::string path : route.paths) {
      document["paths"][path][ascii_lower(route.method)] = operation_of(route, path);
    }
  }
  return document;
}

}  // namespace heed::serve
