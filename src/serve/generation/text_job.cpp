// Choices, chunks, log-probabilities and usage.
#include "serve/generation/text_job.h"

#include <algorithm>
#include <ctime>
#include <numeric>

#include "core/pause_point.h"
#include "core/strings.h"
#include "core/utf8.h"
#include "heed/core/utf8.h"
#include "heed/text/unicode.h"
#include "heed/version.h"
#include "server/access.h"

namespace heed::serve {
namespace {

// In the bytes of a token, which may be parts of characters.
std::int64_t characters_begun(std::string_view bytes) {
  return std::count_if(bytes.begin(), bytes.end(), is_utf8_start);
}

// Mistral's templates refuse ids of another form than nine letters and digits.
Json call_json(const ToolCall& call, ToolCallFormat format, std::size_t index) {
  constexpr std::size_t kMistralId = 9;
  const std::string token = server::random_token();
  return {{"index", index},
          {"id", format == ToolCallFormat::mistral ? token.substr(0, kMistralId) : "call_" + token},
          {"type", "function"},
          {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

std::string choice_shape(bool chat, bool event) {
  const std::string score = R"("token": "string", "logprob": "number", "bytes": ["integer"])";
  const std::string function =
      R"("type": "=function", "function": {"name": "string", "arguments": "string"}})";
  const std::string reason = chat ? R"("=stop|length|tool_calls")" : R"("=stop|length")";
  const std::string finish = event ? R"({"|": ["null", )" + reason + "]}" : reason;
  const std::string scores = chat ? R"({"content": [{)" + score + R"(, "top_logprobs": [{)" + score + "}]}]}"
                                  : R"({"tokens": ["string"], "token_logprobs": ["number|null"],
                 "top_logprobs": [{"|": ["null", {"*": "number"}]}], "text_offset": ["integer"]})";
  std::string said = R"("text": "string", "prompt_token_ids?": ["integer"])";
  if (chat && event) {
    said = R"("delta": {"role?": "=assistant", "content?": "string", "reasoning_content?": "string",
                        "tool_calls?": [{"index": "integer", "id": "string", )" +
           function + "]}";
  } else if (chat) {
    said = R"("message": {"role": "=assistant", "content": "string|null", "reasoning_content?": "string",
                          "tool_calls?": [{"id": "string", )" +
           function + "]}";
  }
  return R"({"index": "integer", )" + said + R"(, "logprobs": {"|": ["null", )" + scores +
         R"(]}, "token_ids?": ["integer"], "finish_reason": )" + finish + "}";
}

}  // namespace

std::string text_shape(bool chat, bool event) {
  const std::string object = !chat ? "text_completion" : event ? "chat.completion.chunk" : "chat.completion";
  const std::string usage =
      R"({"prompt_tokens": "integer", "completion_tokens": "integer", "total_tokens": "integer",
          "prompt_tokens_details": {"cached_tokens": "integer"},
          "completion_tokens_details?": {"reasoning_tokens": "integer"}})";
  return R"({"id": "string", "object": "=)" + object +
         R"(", "created": "integer", "model": "string", "system_fingerprint": "string",
             "warnings?": ["string"], "choices": [)" +
         choice_shape(chat, event) + "], " +
         (event ? R"("usage?": {"|": ["null", )" + usage + "]}}"
                : R"("prompt_token_ids?": ["integer"], "usage": )" + usage + R"(, "heed?": )" +
                      std::string(kValuesShape) + "}");
}

std::string StopText::push(std::string_view text) {
  if (stopped_) return {};
  held_ += text;
  std::size_t first = held_.npos, end = held_.npos;
  for (const std::string& stop : stops_) {
    const std::size_t at = held_.find(stop);
    if (at > first || at == held_.npos) continue;
    end = at == first ? std::min(end, at + stop.size()) : at + stop.size();
    first = at;
  }
  if (first != held_.npos) {
    stopped_ = true;
    held_.resize(includes_stop_ ? end : first);
    return std::exchange(held_, {});
  }
  std::size_t kept = 0;  // the longest end that begins a stop string
  for (const std::string& stop : stops_) {
    std::size_t size = std::min(stop.size() - 1, held_.size());
    while (size > kept && !held_.ends_with(std::string_view(stop).substr(0, size))) --size;
    kept = std::max(kept, size);
  }
  std::string sent = held_.substr(0, held_.size() - kept);
  held_.erase(0, held_.size() - kept);
  return sent;
}

TextJob::TextJob(std::shared_ptr<Call> given_call, const ServedModel& given_model, TextRequest request)
    : request_(std::move(request)),
      created_(std::time(nullptr)),
      id_((request_.chat ? "chatcmpl-" : "cmpl-") + server::random_token()) {
  call = std::move(given_call);
  model = &given_model;
  requests = generation_requests(given_model, request_);
  for (const GenerationRequest& one : requests) {
    choices_.emplace_back(given_model.tokenizer(), request_);
    choices_.back().decoder.begin_after(one.prompt);
    choices_.back().last = one.prompt.back();
  }
  if (request_.prompt_logprobs) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      auto scores =
          std::make_unique<PromptScores>(*given_model.decoder(), requests[i].prompt, *request_.top_logprobs);
      requests[i].hooks.taps = &scores->taps();
      requests[i].hooks.stop = &call->stop();
      requests[i].taps_in_pieces = true;
      choices_[i].prompt = std::move(scores);
    }
  }
  for (const auto& prompt : request_.prompts) prompt_tokens_ += std::ssize(prompt);
  tokens = prompt_tokens_ * request_.candidates;
  call->record.prompt_tokens = prompt_tokens_;
}

void TextJob::inspect(std::shared_ptr<Inspection> inspection) {
  if (inspection->shows_values() && (request_.stream || choices_.size() > 1))
    throw ApiError(ErrorCode::not_supported,
                   "request: heed: expected one prompt, n of 1, and no stream, for an answer with values",
                   "heed");
  if (request_.prompt_logprobs)
    throw ApiError(ErrorCode::not_supported, "request: heed: expected no logprobs of the prompt with it",
                   "heed");
  for (GenerationRequest& one : requests) {
    inspection->require_room(std::ssize(one.prompt) + one.options.max_new_tokens.value_or(0));
    one.hooks.taps = &inspection->taps();
    one.hooks.stop = &call->stop();
  }
  failure = ErrorCode::invalid;  // of heads, for example, that the model does not have
  inspection_ = std::move(inspection);
}

void TextJob::begin() {
  if (!request_.stream) return;
  call->begin_events();
  write_begin();
}

void TextJob::write_begin() {
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    if (request_.chat) {
      send({{"index", i},
            {"delta", {{"role", "assistant"}, {"content", ""}}},
            {"logprobs", nullptr},
            {"finish_reason", nullptr}});
    } else if (choices_[i].prompt == nullptr) {
      echo(i);
    }
  }
}

// The prompt before its answer, once its log-probabilities are known, if they are asked for.
void TextJob::echo(std::size_t index) {
  Choice& choice = choices_[index];
  if (std::exchange(choice.is_echoed, true) || request_.echoes.empty()) return;
  const std::string& text = request_.echoes[prompt_of(index)];
  if (choice.prompt != nullptr) score_prompt(index);
  choice.offset = count_characters(text);
  if (!request_.stream) {
    choice.text = text;
  } else if (!text.empty()) {
    write_part(index, {text, ""});
  }
}

// A token that the tokenizer has put before the text has no characters of it.
void TextJob::score_prompt(std::size_t index) {
  Choice& choice = choices_[index];
  std::string_view rest = request_.echoes[prompt_of(index)];
  const std::vector<std::int64_t>& ids = request_.prompts[prompt_of(index)];
  const auto pass = [&](std::int64_t id) {
    std::string_view text = model->token_bytes[static_cast<std::size_t>(id)];
    const std::string special = text.empty() ? model->tokenizer().decode(std::span(&id, 1), false) : "";
    if (text.empty()) text = special;
    if (text.starts_with(' ') && !rest.starts_with(text)) text.remove_prefix(1);  // of the first word
    if (!rest.starts_with(text)) return;
    rest.remove_prefix(text.size());
    choice.offset += characters_begun(text);
  };
  choice.scores.push_back({.token = {.text = shown(ids.front(), nullptr), .bytes = {}}, .is_first = true});
  choice.last = ids.front();
  pass(ids.front());
  for (const GeneratedToken& token : choice.prompt->tokens()) {
    pause_point();
    choice.scores.push_back(scored(choice, token));
    choice.last = token.id;
    pass(token.id);
  }
}

bool TextJob::on_token(std::size_t index, const GeneratedToken& token) {
  Choice& choice = choices_[index];
  echo(index);
  if (request_.is_empty || choice.stop.is_stopped()) return false;
  call->record.completion_tokens = ++completion_tokens_;
  if (request_.token_ids) choice.ids.push_back(token.id);
  const auto& ends = request_.options.eos_token_id;
  const bool ends_text = std::find(ends.begin(), ends.end(), token.id) != ends.end();
  if (request_.top_logprobs && !ends_text) choice.scores.push_back(scored(choice, token));
  choice.last = token.id;
  ++choice.tokens;
  if (ends_text) return true;
  std::string text = choice.decoder.push(token.id);
  choice.offset += characters_begun(model->token_bytes[static_cast<std::size_t>(token.id)]);
  if (choice.tokens > request_.min_tokens) text = choice.stop.push(text);
  const bool may_think = request_.thinks && choice.reasoning.may_think();
  const Part part = split(choice, text);
  if (may_think) ++choice.thought;
  if (!choice.reasoning.may_think() && !choice.reasoning.has_thought()) choice.thought = 0;
  if (request_.stream) {
    if (!part.empty()) write_part(index, part);
  } else {
    choice.text += part.text;
    choice.thoughts += part.thoughts;
  }
  return !choice.stop.is_stopped();
}

void TextJob::on_finished(std::size_t index, const Hypothesis& result, std::int64_t cached_tokens) {
  Choice& choice = choices_[index];
  echo(index);
  choice.cached = cached_tokens;
  choice.likelihood =
      result.log_probability / static_cast<double>(std::max<std::size_t>(1, result.ids.size()));
  Part part = split(choice, choice.stop.push(choice.decoder.finish()) + choice.stop.finish());
  if (request_.thinks) part.add(part_of(choice, choice.reasoning.finish()));
  ParsedToolCalls parsed = choice.calls.finish();
  part.text += parsed.content;
  if (request_.one_call && parsed.calls.size() > 1) parsed.calls.resize(1);
  for (const ToolCall& one : parsed.calls)
    choice.tool_calls.push_back(call_json(one, request_.calls, choice.tool_calls.size()));
  const bool stopped =
      !request_.is_empty && (choice.stop.is_stopped() || result.finish_reason == FinishReason::stop);
  choice.reason = !stopped ? "length" : parsed.calls.empty() ? "stop" : "tool_calls";
  if (!request_.stream) {
    choice.text += part.text;
    choice.thoughts += part.thoughts;
    return;
  }
  write_end(index, part);
}

void TextJob::write_end(std::size_t index, const Part& part) {
  const Choice& choice = choices_[index];
  if (!part.empty() || !choice.scores.empty()) write_part(index, part);
  if (!choice.tool_calls.empty()) {
    send({{"index", index},
          {"delta", {{"tool_calls", choice.tool_calls}}},
          {"logprobs", nullptr},
          {"finish_reason", nullptr}});
  }
  send(choice_of(index, {}, true));
}

void TextJob::on_all() {
  call->record.cached_tokens = cached_tokens();
  write_all();
}

void TextJob::write_all() {
  if (!request_.stream) {
    Json body = envelope(false);
    if (request_.chat && request_.token_ids) body["prompt_token_ids"] = request_.prompts.front();
    body["choices"] = Json::array();
    for (const std::size_t index : likeliest()) {
      Json one = choice_of(index, {choices_[index].text, choices_[index].thoughts}, true);
      one["index"] = body["choices"].size();
      body["choices"].push_back(std::move(one));
    }
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

// Of the candidates of each prompt, those of the highest log-probability per token.
std::vector<std::size_t> TextJob::likeliest() const {
  std::vector<std::size_t> all(choices_.size()), kept;
  std::iota(all.begin(), all.end(), std::size_t{0});
  for (auto begin = all.begin(); begin != all.end(); begin += request_.candidates) {
    if (request_.candidates > request_.choices)
      std::stable_sort(begin, begin + request_.candidates, [this](std::size_t a, std::size_t b) {
        return choices_[a].likelihood > choices_[b].likelihood;
      });
    kept.insert(kept.end(), begin, begin + request_.choices);
  }
  return kept;
}

TextJob::Part TextJob::split(Choice& choice, const std::string& text) const {
  if (!request_.thinks) return {choice.calls.push(text), ""};
  return part_of(choice, choice.reasoning.push(text));
}

TextJob::Part TextJob::part_of(Choice& choice, const ReasoningStream::Piece& piece) const {
  Part part{choice.calls.push(piece.content), piece.reasoning};
  if (request_.reasoning_in_content) part = {part.thoughts + part.text, ""};
  return part;
}

void TextJob::write_part(std::size_t index, const Part& part) { send(choice_of(index, part, false)); }

void TextJob::send(Json choice) {
  Json chunk = envelope(true);
  chunk["choices"] = Json::array({std::move(choice)});
  call->event(chunk);
}

Json TextJob::choice_of(std::size_t index, const Part& part, bool last) {
  pause_point();
  const std::string& text = part.text;
  Choice& choice = choices_[index];
  Json one = {{"index", index}};
  const bool event = request_.stream;
  if (!request_.chat) {
    one["text"] = text;
  } else if (event) {
    one["delta"] = Json::object();
    if (!part.thoughts.empty()) one["delta"]["reasoning_content"] = part.thoughts;
    if (!last && (part.thoughts.empty() || !text.empty())) one["delta"]["content"] = text;
  } else {
    one["message"] = {{"role", "assistant"}, {"content", text}};
    if (!part.thoughts.empty()) one["message"]["reasoning_content"] = part.thoughts;
    if (!choice.tool_calls.empty()) {
      if (text.empty()) one["message"]["content"] = nullptr;
      one["message"]["tool_calls"] = choice.tool_calls;
      for (Json& tool_call : one["message"]["tool_calls"]) tool_call.erase("index");
    }
  }
  one["logprobs"] = nullptr;
  if (request_.top_logprobs && !(event && last)) {
    const std::vector<ScoredToken> scores = std::exchange(choice.scores, {});
    one["logprobs"] = request_.chat ? chat_logprobs(scores) : completion_logprobs(scores);
  }
  one["finish_reason"] = last ? Json(choice.reason) : Json();
  if (request_.token_ids && (!event || !choice.ids.empty())) one["token_ids"] = std::exchange(choice.ids, {});
  if (request_.token_ids && !event && !request_.chat)
    one["prompt_token_ids"] = request_.prompts[prompt_of(index)];
  return one;
}

// A token as the text that it adds to another, if there is one; a part of a character as OpenAI has it,
// `bytes:\\xf0`.
std::string TextJob::shown(std::int64_t id, const std::int64_t* before) const {
  if (request_.tokens_as_ids) return "token_id:" + std::to_string(id);
  const std::string& bytes = model->token_bytes[static_cast<std::size_t>(id)];
  if (first_invalid_utf8(bytes)) {
    std::string text = "bytes:";
    for (const char c : bytes) {
      if (c >= ' ' && c <= '~') {
        text += c;
      } else {
        append_hex(text += "\\x", static_cast<std::uint8_t>(c));
      }
    }
    return text;
  }
  const std::span token(&id, 1);
  if (before == nullptr) return model->tokenizer().decode(token, false);
  return model->tokenizer().decode_continuation(std::span(before, 1), token, false);
}

ScoredToken TextJob::scored(const Choice& choice, const GeneratedToken& token) const {
  const auto score = [&](std::int64_t id, double log_probability) {
    std::string text = shown(id, &choice.last);
    const std::string& own = model->token_bytes[static_cast<std::size_t>(id)];
    return TokenScore{text, own.empty() ? text : own, log_probability};
  };
  ScoredToken one{.token = score(token.id, token.log_probability)};
  for (const auto& [id, log_probability] : token.top) one.top.push_back(score(id, log_probability));
  // The rest of a character is where the character is.
  const std::string& bytes = model->token_bytes[static_cast<std::size_t>(token.id)];
  one.offset = choice.offset - (!bytes.empty() && !is_utf8_start(bytes.front()) ? 1 : 0);
  return one;
}

Json TextJob::envelope(bool event) {
  const char* object = !request_.chat ? "text_completion"
                       : event        ? "chat.completion.chunk"
                                      : "chat.completion";
  Json all = {{"id", id_},
              {"object", object},
              {"created", created_},
              {"model", model->name},
              {"system_fingerprint", model->fingerprint()}};
  if (request_.grammar && !request_.grammar->notes().empty() && !std::exchange(has_warned_, true))
    all["warnings"] = request_.grammar->notes();
  if (event && request_.stream_usage) all["usage"] = request_.usage_always ? usage() : Json();
  return all;
}

// A prompt is counted once, and what was known of it before any of its candidates.
std::int64_t TextJob::cached_tokens() const {
  std::int64_t cached = 0;
  for (auto begin = choices_.begin(); begin != choices_.end(); begin += request_.candidates)
    cached += std::min_element(begin, begin + request_.candidates, [](const Choice& a, const Choice& b) {
                return a.cached < b.cached;
              })->cached;
  return cached;
}

Json TextJob::usage() const {
  Json all = {{"prompt_tokens", prompt_tokens_},
              {"completion_tokens", completion_tokens_},
              {"total_tokens", prompt_tokens_ + completion_tokens_},
              {"prompt_tokens_details", {{"cached_tokens", cached_tokens()}}}};
  if (request_.thinks) {
    std::int64_t thought = 0;
    for (const Choice& choice : choices_) thought += choice.thought;
    all["completion_tokens_details"] = {{"reasoning_tokens", thought}};
  }
  return all;
}

}  // namespace heed::serve
