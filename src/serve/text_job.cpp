// Choices, chunks, log-probabilities and usage.
#include "serve/text_job.h"

#include <algorithm>
#include <ctime>

#include "heed/version.h"
#include "server/access.h"

namespace heed::serve {
namespace {

std::string fingerprint() { return std::string("heed-") + version(); }

Json call_json(const ToolCall& call, std::size_t index) {
  return {{"index", index},
          {"id", "call_" + server::random_token()},
          {"type", "function"},
          {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

}  // namespace

TextJob::TextJob(std::shared_ptr<Call> given_call, const ServedModel& given_model, TextRequest request)
    : request_(std::move(request)),
      id_((request_.chat ? "chatcmpl-" : "cmpl-") + server::random_token()),
      created_(std::time(nullptr)) {
  call = std::move(given_call);
  model = &given_model;
  requests = generation_requests(given_model, request_);
  for (const GenerationRequest& one : requests) {
    choices_.emplace_back(*given_model.tokenizer, request_);
    choices_.back().decoder.begin_after(one.prompt);
    choices_.back().last = one.prompt.back();
  }
  for (const auto& prompt : request_.prompts) prompt_tokens_ += std::ssize(prompt);
  tokens = prompt_tokens_;
  call->facts.prompt_tokens = prompt_tokens_;
}

void TextJob::inspect(std::shared_ptr<Inspection> inspection) {
  if (inspection->shows_values() && (request_.stream || choices_.size() > 1))
    throw ApiError(Problem::not_supported,
                   "request: heed: expected one prompt, n of 1, and no stream, for an answer with values",
                   "heed");
  for (GenerationRequest& one : requests) {
    inspection->require_room(std::ssize(one.prompt) + one.options.max_new_tokens.value_or(0));
    one.hooks.taps = &inspection->taps();
  }
  failure = Problem::invalid;  // of heads, for example, that the model does not have
  inspection_ = std::move(inspection);
}

void TextJob::begin() {
  if (!request_.stream) return;
  call->begin_events();
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    if (request_.chat) {
      Json chunk = envelope(true);
      Json first = {{"index", i},
                    {"delta", {{"role", "assistant"}, {"content", nullptr}}},
                    {"logprobs", nullptr},
                    {"finish_reason", nullptr}};
      chunk["choices"] = Json::array({std::move(first)});
      call->event(chunk);
    } else if (!echo_of(i).empty()) {
      send(i, echo_of(i));
    }
  }
}

bool TextJob::have_token(std::size_t index, const GeneratedToken& token) {
  Choice& choice = choices_[index];
  if (choice.stop.is_stopped()) return false;
  call->facts.completion_tokens = ++completion_tokens_;
  if (request_.token_ids) choice.ids.push_back(token.id);
  const auto& ends = request_.options.eos_token_id;
  const bool ends_text = std::find(ends.begin(), ends.end(), token.id) != ends.end();
  if (request_.top_logprobs && !ends_text) choice.logprobs.push_back(logprob_of(choice, token));
  choice.last = token.id;
  if (ends_text) return true;
  const std::string text = choice.calls.push(choice.stop.push(choice.decoder.push(token.id)));
  if (request_.stream) {
    if (!text.empty()) send(index, text);
  } else {
    choice.text += text;
  }
  return !choice.stop.is_stopped();
}

void TextJob::have_finished(std::size_t index, const Hypothesis& result, std::int64_t cached_tokens) {
  Choice& choice = choices_[index];
  cached_tokens_ += cached_tokens;
  std::string text = choice.calls.push(choice.stop.push(choice.decoder.finish()));
  text += choice.calls.push(choice.stop.finish());
  const ParsedToolCalls parsed = choice.calls.finish();
  text += parsed.content;
  for (const ToolCall& one : parsed.calls)
    choice.tool_calls.push_back(call_json(one, choice.tool_calls.size()));
  const bool stopped = choice.stop.is_stopped() || result.finish_reason == FinishReason::stop;
  choice.reason = !stopped ? "length" : parsed.calls.empty() ? "stop" : "tool_calls";
  if (!request_.stream) {
    choice.text += text;
    return;
  }
  if (!text.empty() || !choice.logprobs.empty()) send(index, text);
  if (!choice.tool_calls.empty()) {
    Json chunk = envelope(true);
    chunk["choices"] = Json::array({{{"index", index},
                                     {"delta", {{"tool_calls", choice.tool_calls}}},
                                     {"logprobs", nullptr},
                                     {"finish_reason", nullptr}}});
    call->event(chunk);
  }
  Json chunk = envelope(true);
  chunk["choices"] = Json::array({choice_of(index, "", true)});
  call->event(chunk);
}

void TextJob::have_all() {
  call->facts.cached_tokens = cached_tokens_;
  if (!request_.stream) {
    Json body = envelope(false);
    body["choices"] = Json::array();
    for (std::size_t i = 0; i < choices_.size(); ++i)
      body["choices"].push_back(choice_of(i, echo_of(i) + choices_[i].text, true));
    body["usage"] = usage();
    if (inspection_ != nullptr) return inspection_->answer(*call, json_text(body));
    return call->answer(body);
  }
  if (inspection_ != nullptr) inspection_->require_fired();
  if (request_.stream_usage) {
    Json chunk = envelope(true);
    chunk["choices"] = Json::array();
    chunk["usage"] = usage();
    call->event(chunk);
  }
  call->end_events();
}

void TextJob::send(std::size_t index, const std::string& text) {
  Json chunk = envelope(true);
  chunk["choices"] = Json::array({choice_of(index, text, false)});
  call->event(chunk);
}

Json TextJob::choice_of(std::size_t index, const std::string& text, bool last) {
  Choice& choice = choices_[index];
  Json one = {{"index", index}};
  const bool event = request_.stream;
  if (!request_.chat) {
    one["text"] = text;
  } else if (event) {
    one["delta"] = last ? Json::object() : Json{{"content", text}};
  } else {
    one["message"] = {{"role", "assistant"}, {"content", text}};
    if (!choice.tool_calls.empty()) {
      if (text.empty()) one["message"]["content"] = nullptr;
      one["message"]["tool_calls"] = choice.tool_calls;
      for (Json& tool_call : one["message"]["tool_calls"]) tool_call.erase("index");
    }
  }
  one["logprobs"] = request_.top_logprobs && !(event && last) ? logprobs_of(choice) : Json();
  one["finish_reason"] = last ? Json(choice.reason) : Json();
  if (request_.token_ids && (!event || !choice.ids.empty())) one["token_ids"] = std::exchange(choice.ids, {});
  return one;
}

// A token as the text that it adds to another.
std::string TextJob::shown(std::int64_t before, std::int64_t id) const {
  return model->tokenizer->decode_continuation(std::span(&before, 1), std::span(&id, 1), false);
}

// {token, logprob, bytes, top_logprobs}, as chats have them.
Json TextJob::logprob_of(const Choice& choice, const GeneratedToken& token) const {
  const auto entry = [&](std::int64_t id, double logprob) {
    const std::string text = shown(choice.last, id);
    Json bytes = Json::array();
    for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
    return Json{{"token", text}, {"logprob", logprob}, {"bytes", std::move(bytes)}};
  };
  Json one = entry(token.id, token.log_probability);
  one["top_logprobs"] = Json::array();
  for (const auto& [id, logprob] : token.top) one["top_logprobs"].push_back(entry(id, logprob));
  return one;
}

// Of the tokens that have not been sent; completions have them by column.
Json TextJob::logprobs_of(Choice& choice) const {
  Json list = std::exchange(choice.logprobs, Json::array());
  if (request_.chat) return {{"content", std::move(list)}};
  Json columns = {{"tokens", Json::array()},
                  {"token_logprobs", Json::array()},
                  {"top_logprobs", Json::array()},
                  {"text_offset", Json::array()}};
  std::size_t offset = 0;
  for (const Json& token : list) {
    columns["tokens"].push_back(token["token"]);
    columns["token_logprobs"].push_back(token["logprob"]);
    Json top = Json::object();
    for (const Json& other : token["top_logprobs"]) top[other["token"].get<std::string>()] = other["logprob"];
    columns["top_logprobs"].push_back(std::move(top));
    columns["text_offset"].push_back(offset);
    offset += token["token"].get_ref<const std::string&>().size();
  }
  return columns;
}

Json TextJob::envelope(bool event) const {
  const char* object = !request_.chat ? "text_completion"
                       : event        ? "chat.completion.chunk"
                                      : "chat.completion";
  return {{"id", id_},
          {"object", object},
          {"created", created_},
          {"model", model->name},
          {"system_fingerprint", fingerprint()}};
}

Json TextJob::usage() const {
  return {{"prompt_tokens", prompt_tokens_},
          {"completion_tokens", completion_tokens_},
          {"total_tokens", prompt_tokens_ + completion_tokens_},
          {"prompt_tokens_details", {{"cached_tokens", cached_tokens_}}}};
}

const std::string& TextJob::echo_of(std::size_t index) const {
  static const std::string none;
  if (request_.echoes.empty()) return none;
  return request_.echoes[index / static_cast<std::size_t>(request_.choices)];
}

}  // namespace heed::serve
