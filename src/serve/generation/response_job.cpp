// Items and their events: each item is added, gets its text by pieces, and is done.
#include "serve/generation/response_job.h"

#include <ctime>

#include "server/access.h"

namespace heed::serve {
namespace {

Json text_part(const std::string& item) {
  if (item == "reasoning") return {{"type", "reasoning_text"}, {"text", ""}};
  return {{"type", "output_text"}, {"text", ""}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
}

Json text_item(const std::string& type) {
  Json item = {{"id", (type == "reasoning" ? "rs_" : "msg_") + server::random_token()},
               {"type", type},
               {"status", "in_progress"}};
  if (type == "reasoning") {
    item["summary"] = Json::array();
  } else {
    item["role"] = "assistant";
  }
  item["content"] = Json::array();
  return item;
}

}  // namespace

std::string response_shape() {
  const std::string item = R"({"id": "string", "status": "=in_progress|completed|incomplete", "type": )";
  return R"({"id": "string", "object": "=response", "created_at": "integer", "completed_at?": "integer",
             "status": "=in_progress|completed|incomplete|failed",
             "error": {"|": ["null", {"code": "string", "message": "string"}]},
             "incomplete_details": {"|": ["null", {"reason": "string"}]}, "model": "string", "output": [)" +
         item + R"("=message", "role": "=assistant", "content": [{"type": "=output_text", "text": "string",
                   "annotations": ["any"], "logprobs": ["any"]}]}, )" +
         item + R"("=reasoning", "summary": ["any"],
                   "content": [{"type": "=reasoning_text", "text": "string"}]}, )" +
         item + R"("=function_call", "call_id": "string", "name": "string", "arguments": "string"}],
             "usage": {"|": ["null", {"input_tokens": "integer",
                                      "input_tokens_details": {"cached_tokens": "integer"},
                                      "output_tokens": "integer",
                                      "output_tokens_details": {"reasoning_tokens": "integer"},
                                      "total_tokens": "integer"}]},
             "warnings?": ["string"], "background": "boolean", "instructions": "string|null",
             "max_output_tokens": "integer|null", "metadata": {"*": "any"}, "parallel_tool_calls": "boolean",
             "previous_response_id": "null", "reasoning": {"*": "any"}, "store": "boolean",
             "temperature": "number|null", "text": {"format": {"*": "any"}}, "tool_choice": "any",
             "tools": [{"*": "any"}], "top_p": "number|null", "truncation": "string"})";
}

ResponseJob::ResponseJob(std::shared_ptr<Call> given_call, const ServedModel& given_model,
                         TextRequest request, Json told)
    : TextJob(std::move(given_call), given_model, std::move(request)),
      id_("resp_" + server::random_token()),
      told_(std::move(told)) {
  call->failed_event = [this](const ApiError& error) -> Json {
    Json all = response("failed");
    all["error"] = {{"code", error.code() == ErrorCode::invalid ? "invalid_prompt" : "server_error"},
                    {"message", error.what()}};
    return {{"type", "response.failed"}, {"sequence_number", events_}, {"response", std::move(all)}};
  };
}

ResponseJob::~ResponseJob() { call->failed_event = {}; }

void ResponseJob::write_begin() {
  event("response.created", {{"response", response("in_progress")}});
  event("response.in_progress", {{"response", response("in_progress")}});
}

void ResponseJob::write_part(std::size_t, const Part& part) {
  add("reasoning", part.thoughts);
  add("message", part.text);
}

void ResponseJob::write_end(std::size_t index, const Part& part) {
  write_part(index, part);
  finish();
}

void ResponseJob::write_all() {
  if (!request_.stream) {
    write_part(0, {choices_.front().text, choices_.front().thoughts});
    finish();
  }
  const char* status = choices_.front().reason == "length" ? "incomplete" : "completed";
  Json all = response(status);
  const Json counts = usage();
  const Json details = counts.value("completion_tokens_details", Json::object());
  all["usage"] = {{"input_tokens", counts["prompt_tokens"]},
                  {"input_tokens_details", counts["prompt_tokens_details"]},
                  {"output_tokens", counts["completion_tokens"]},
                  {"output_tokens_details", {{"reasoning_tokens", details.value("reasoning_tokens", 0)}}},
                  {"total_tokens", counts["total_tokens"]}};
  if (!request_.stream) return call->answer(all);
  event(std::string("response.") + status, {{"response", std::move(all)}});
  call->end_named_events();
}

// Text of an item of a type, which is the open one, or begins.
void ResponseJob::add(const std::string& item, const std::string& text) {
  if (text.empty()) return;
  if (is_open_ && output_.back()["type"] != item) close();
  if (!is_open_) open_text(item);
  Json& part = output_.back()["content"][0];
  part["text"].get_ref<std::string&>() += text;
  Json more = {{"content_index", 0}, {"delta", text}};
  if (item == "message") more["logprobs"] = Json::array();
  event("response." + part["type"].get<std::string>() + ".delta", at_item(std::move(more)));
}

void ResponseJob::open(Json item) {
  output_.push_back(std::move(item));
  is_open_ = true;
  event("response.output_item.added", {{"output_index", output_.size() - 1}, {"item", output_.back()}});
}

void ResponseJob::open_text(const std::string& type) {
  open(text_item(type));
  output_.back()["content"].push_back(text_part(type));
  event("response.content_part.added", at_item({{"content_index", 0}, {"part", text_part(type)}}));
}

// What the largest length has cut is not complete.
void ResponseJob::close() {
  if (!std::exchange(is_open_, false)) return;
  Json& item = output_.back();
  item["status"] = choices_.front().reason == "length" ? "incomplete" : "completed";
  if (item.contains("content")) {
    const Json& part = item["content"][0];
    Json more = {{"content_index", 0}, {"text", part["text"]}};
    if (item["type"] == "message") more["logprobs"] = Json::array();
    event("response." + part["type"].get<std::string>() + ".done", at_item(std::move(more)));
    event("response.content_part.done", at_item({{"content_index", 0}, {"part", part}}));
  }
  event("response.output_item.done", {{"output_index", output_.size() - 1}, {"item", item}});
}

void ResponseJob::add_call(const Json& tool_call) {
  const Json& function = tool_call["function"];
  open({{"id", "fc_" + server::random_token()},
        {"type", "function_call"},
        {"status", "in_progress"},
        {"call_id", tool_call["id"]},
        {"name", function["name"]},
        {"arguments", ""}});
  const Json& arguments = function["arguments"];
  event("response.function_call_arguments.delta", at_item({{"delta", arguments}}));
  output_.back()["arguments"] = arguments;
  event("response.function_call_arguments.done",
        at_item({{"name", function["name"]}, {"arguments", arguments}}));
  close();
}

// After the last part: the calls; an answer of nothing is an empty message.
void ResponseJob::finish() {
  const Choice& choice = choices_.front();
  close();
  for (const Json& one : choice.tool_calls) add_call(one);
  if (!output_.empty() && output_.back()["type"] != "reasoning") return;
  if (choice.reason == "length") return;
  open_text("message");
  close();
}

void ResponseJob::event(const std::string& type, Json more) {
  if (!request_.stream) return;
  Json all = {{"type", type}, {"sequence_number", events_++}};
  all.update(more);
  call->named_event(all);
}

// With what says which item an event is of: the last.
Json ResponseJob::at_item(Json more) const {
  Json all = {{"item_id", output_.back()["id"]}, {"output_index", output_.size() - 1}};
  all.update(more);
  return all;
}

Json ResponseJob::response(const char* status) const {
  const bool is_cut = status == std::string_view("incomplete");
  Json all = {{"id", id_},
              {"object", "response"},
              {"created_at", created_},
              {"status", status},
              {"error", nullptr},
              {"incomplete_details", is_cut ? Json{{"reason", "max_output_tokens"}} : Json()},
              {"model", model->name},
              {"output", output_}};
  all.update(told_);
  all["usage"] = nullptr;
  if (status == std::string_view("completed")) all["completed_at"] = std::time(nullptr);
  if (request_.grammar && !request_.grammar->notes().empty()) all["warnings"] = request_.grammar->notes();
  return all;
}

}  // namespace heed::serve
