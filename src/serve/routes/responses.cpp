// OpenAI's Responses API, as a chat: its fields and items become those of /v1/chat/completions.
#include <fmt/format.h>

#include "serve/generation/response_job.h"
#include "serve/routes/routes.h"

namespace heed::serve {
namespace {

using server::RequestObject;

constexpr Need kAnswersChats{"chat", "has a chat template"};
constexpr const char* kResponsesTopic = "Responses";

struct ResponseFields {
  ResponseFields() = default;
  explicit ResponseFields(const ServedModel& model) : chat(model) {}
  void walk(Fields& fields);

  ChatFields chat;  // what is the same in both
  const Json *input = nullptr, *tools = nullptr, *tool_choice = nullptr, *format = nullptr,
             *metadata = nullptr;
  std::optional<std::string> instructions, effort;
  std::vector<std::string> include;
  std::string verbosity, summary;
  bool store = false;
};

void ResponseFields::walk(Fields& fields) {
  fields.any("input", input,
             "A text, or an array of items: messages with `input_text` or `output_text`, `function_call`, "
             "`function_call_output` and `reasoning`, for templates that read it",
             {.required = "a text or an array of items", .items = 4096});
  fields("instructions", instructions, "A message of the system before the input");
  fields("max_output_tokens", chat.max_tokens,
         "New tokens at most, reasoning included; else what the model has room for",
         {.least = 1, .most = 1 << 24});
  chat.walk_sampling(fields);
  fields("stream", chat.request.stream, "Answer by server-sent events, each named by its type");
  fields.members("text", "The form of the answer", [&](Fields& text) {
    text.object("format", format,
                "Of type `text`, `json_object`, or `json_schema` with a `schema`, as `response_format` of "
                "chats");
    text("verbosity", verbosity, "Has no effect");
  });
  fields.array("tools", tools, "Functions: `{\"type\": \"function\", \"name\": ..., \"parameters\": ...}`",
               {.items = 128});
  fields.any("tool_choice", tool_choice,
             "`auto`, `none`, `required`, `{\"type\": \"function\", \"name\": ...}`, or `{\"type\": "
             "\"allowed_tools\", \"mode\": ..., \"tools\": [...]}`");
  fields("parallel_tool_calls", chat.parallel_tool_calls,
         "`true`: a forced call may be several; `false`: all but the first call of an answer are left out");
  fields.members("reasoning", "How the model thinks", [&](Fields& reasoning) {
    reasoning("effort", effort,
              "The variable `reasoning_effort` of the chat template; `none`: `enable_thinking` is false");
    reasoning("summary", summary, "Has no effect: the reasoning is told whole");
  });
  fields.object("chat_template_kwargs", chat.chat_template_kwargs, "Further variables of the chat template",
                {.items = 64});
  fields.object("metadata", metadata, "Is part of the answer", {.items = 16});
  fields("include", include, "Has no effect, but for log-probabilities, which are refused", {.items = 16});
  fields("store", store, "Has no effect: no answer is stored");
  fields.refused("previous_response_id", "answers are not stored; send the whole conversation as input", "");
  fields.refused("conversation", "answers are not stored; send the whole conversation as input", "");
  fields.refused("background", "stream is supported");
  fields.refused("prompt", "instructions and input are supported", "");
  fields.refused("truncation", "a conversation that is too long is refused", "disabled");
  fields.refused("top_logprobs", "/v1/chat/completions has them", 0);
  for (const char* name : {"max_tokens", "max_completion_tokens", "max_new_tokens", "n_predict"})
    fields.refused(name, "max_output_tokens is supported", 0);
  fields.refused("n", "/v1/chat/completions has it", 1);
  fields.refused("stop", "/v1/chat/completions has it", "");
  fields.refused("response_format", "text.format is supported", "");
  fields.refused("heed", "/v1/chat/completions has it", "");
}

// A text, or the texts of parts.
Json content_of(const RequestObject& item, const char* key) {
  const Json* content = item.find(key);
  if (content == nullptr || (!content->is_string() && !content->is_array()))
    item.fail(key, "a text or an array of parts");
  if (content->is_string()) return *content;
  Json parts = Json::array();
  for (std::size_t i = 0; i < content->size(); ++i) {
    const RequestObject part = item.element(key, i);
    const std::string type = part.string("type").value_or("input_text");
    if (type != "input_text" && type != "output_text" && type != "text" && type != "refusal")
      part.fail("type", "input_text or output_text, as chats are of texts alone");
    const char* text = type == "refusal" ? "refusal" : "text";
    if (part.find(text) == nullptr) part.fail(text, "a text");
    parts.push_back({{"type", "text"}, {"text", *part.string(text)}});
  }
  if (parts.empty()) return "";
  return parts.size() == 1 ? parts[0]["text"] : parts;
}

std::string required_text(const RequestObject& object, const char* key) {
  const auto text = object.string(key);
  if (!text) object.fail(key, "a text");
  return *text;
}

// Items as messages: calls belong to the message of the assistant before them, reasoning to the one after it.
class ItemMessages {
 public:
  explicit ItemMessages(bool knows_developer) : knows_developer_(knows_developer) {}

  void add(const RequestObject& item) {
    const std::string type = item.string("type").value_or("message");
    if (type == "message") {
      add_message(item);
    } else if (type == "function_call") {
      add_call(item);
    } else if (type == "function_call_output") {
      messages_.push_back({{"role", "tool"},
                           {"tool_call_id", required_text(item, "call_id")},
                           {"content", content_of(item, "output")}});
    } else if (type == "reasoning") {
      for (const char* key : {"content", "summary"}) {
        const Json* texts = item.array(key);
        if (texts == nullptr || texts->empty()) continue;
        for (std::size_t i = 0; i < texts->size(); ++i)
          thoughts_ += required_text(item.element(key, i), "text");
        break;
      }
    } else {
      item.fail("type", "message, function_call, function_call_output or reasoning");
    }
  }

  void instruct(const std::string& text) {
    const bool joins = !messages_.empty() && messages_[0]["role"] != "user" &&
                       messages_[0]["role"] != "assistant" && messages_[0]["content"].is_string();
    if (!joins) {
      messages_.insert(messages_.begin(), Json{{"role", "system"}, {"content", text}});
    } else {
      messages_[0]["content"] = text + "\n\n" + messages_[0]["content"].get<std::string>();
    }
  }

  const Json& messages() const { return messages_; }

 private:
  void add_message(const RequestObject& item) {
    const std::string role = required_text(item, "role");
    if (role == "assistant") return add_answer(content_of(item, "content"));
    if (role != "user" && role != "system" && role != "developer")
      item.fail("role", "user, assistant, system or developer");
    const bool is_system = role == "developer" && !knows_developer_;
    messages_.push_back({{"role", is_system ? "system" : role}, {"content", content_of(item, "content")}});
  }

  void add_answer(Json content) {
    messages_.push_back({{"role", "assistant"}, {"content", std::move(content)}});
    if (!thoughts_.empty()) messages_.back()["reasoning_content"] = std::exchange(thoughts_, {});
  }

  void add_call(const RequestObject& item) {
    if (messages_.empty() || messages_.back()["role"] != "assistant" || !thoughts_.empty())
      add_answer(nullptr);
    messages_.back()["tool_calls"].push_back(
        {{"id", required_text(item, "call_id")},
         {"type", "function"},
         {"function",
          {{"name", required_text(item, "name")}, {"arguments", required_text(item, "arguments")}}}});
  }

  const bool knows_developer_;  // the template does
  Json messages_ = Json::array();
  std::string thoughts_;
};

Json messages_of(const RequestContext& context, const ResponseFields& given) {
  ItemMessages messages(context.model.opened.chat_templates().writes("developer"));
  const Json& input = *given.input;
  if (input.is_string()) {
    const Json message = {{"role", "user"}, {"content", input}};
    messages.add(RequestObject(message, "input"));
  } else if (input.is_array()) {
    for (std::size_t i = 0; i < input.size(); ++i) messages.add(context.fields.reads()->element("input", i));
  } else {
    context.fields.fail("input", "a text or an array of items");
  }
  if (given.instructions && !given.instructions->empty()) messages.instruct(*given.instructions);
  return messages.messages();
}

// The same function as chats have it.
Json chat_function(const RequestObject& flat, std::initializer_list<const char*> keys) {
  if (flat.string("type").value_or("function") != "function")
    flat.fail("type", "function, as the server has no tools of its own");
  Json function = {{"name", required_text(flat, "name")}};
  for (const char* key : keys) {
    if (const Json* value = flat.find(key)) function[key] = *value;
  }
  return {{"type", "function"}, {"function", std::move(function)}};
}

Json chat_tools(const RequestObject& object) {
  Json tools = Json::array();
  for (std::size_t i = 0; i < object.array("tools")->size(); ++i)
    tools.push_back(chat_function(object.element("tools", i), {"description", "parameters", "strict"}));
  return tools;
}

Json chat_choice(const Json& said) {
  if (!said.is_object()) return said;
  const RequestObject choice(said, "tool_choice");
  if (choice.string("type").value_or("") != "allowed_tools") return chat_function(choice, {});
  Json tools = Json::array();
  const Json* allowed = choice.array("tools");
  for (std::size_t i = 0; allowed != nullptr && i < allowed->size(); ++i)
    tools.push_back(chat_function(choice.element("tools", i), {}));
  return {{"type", "allowed_tools"},
          {"allowed_tools", {{"mode", choice.string("mode").value_or("auto")}, {"tools", std::move(tools)}}}};
}

Json chat_format(const Json& format) {
  if (format.value("type", Json()) != "json_schema") return format;
  return {{"type", "json_schema"}, {"json_schema", format}};
}

// What the answer says of its request.
Json told_of(const RequestObject& object, const ResponseFields& given) {
  const auto said = [&](const char* key, Json otherwise = nullptr) {
    const Json* value = object.find(key);
    return value != nullptr ? *value : std::move(otherwise);
  };
  return {{"background", false},
          {"instructions", said("instructions")},
          {"max_output_tokens", said("max_output_tokens")},
          {"metadata", said("metadata", Json::object())},
          {"parallel_tool_calls", said("parallel_tool_calls", true)},
          {"previous_response_id", nullptr},
          {"reasoning", said("reasoning", Json{{"effort", nullptr}, {"summary", nullptr}})},
          {"store", false},
          {"temperature", said("temperature")},
          {"text", {{"format", given.format != nullptr ? *given.format : Json{{"type", "text"}}}}},
          {"tool_choice", said("tool_choice", "auto")},
          {"tools", said("tools", Json::array())},
          {"top_p", said("top_p")},
          {"truncation", "disabled"}};
}

// An error of the chat, by the names of these fields.
ApiError renamed(const ApiError& error) {
  for (const auto& [theirs, ours] : {std::pair<std::string, std::string>("messages", "input"),
                                     {"response_format", "text.format"},
                                     {"max_tokens", "max_output_tokens"}}) {
    if (!error.param().starts_with(theirs)) continue;
    std::string message = error.what();
    const std::size_t at = message.find(theirs);
    if (at != message.npos) message.replace(at, theirs.size(), ours);
    return {error.code(), message, ours};
  }
  return error;
}

void answer_response(const RequestContext& context, ResponseFields given) {
  const RequestObject& object = *context.fields.reads();
  for (const std::string& one : given.include) {
    if (one == "message.output_text.logprobs")
      throw ApiError(ErrorCode::not_supported,
                     "request: include: expected no log-probabilities (/v1/chat/completions has them)",
                     "include");
  }
  ChatFields& chat = given.chat;
  const Json messages = messages_of(context, given);
  const Json tools = given.tools != nullptr ? chat_tools(object) : Json();
  const Json choice = given.tool_choice != nullptr ? chat_choice(*given.tool_choice) : Json();
  const Json format = given.format != nullptr ? chat_format(*given.format) : Json();
  Json variables = chat.chat_template_kwargs != nullptr ? *chat.chat_template_kwargs : Json::object();
  if (given.effort) variables["reasoning_effort"] = *given.effort;
  if (given.effort == "none") variables["enable_thinking"] = false;
  chat.messages = &messages;
  chat.chat_template_kwargs = &variables;
  if (given.tools != nullptr) chat.tools = &tools;
  if (given.tool_choice != nullptr) chat.tool_choice = &choice;
  if (given.format != nullptr) chat.response_format = &format;
  try {
    auto job = std::make_shared<ResponseJob>(context.call, context.model,
                                             chat_request(context, std::move(chat)), told_of(object, given));
    ResponseJob& response = *job;
    context.scheduler.add(std::move(job), [&response] { response.begin(); });
  } catch (const ApiError& error) {
    throw renamed(error);
  }
}

// Of an answer by its id.
Route stored(const char* method, const char* summary) {
  Route route{method,
              {"/v1/responses/{response_id}"},
              ErrorForm::openai,
              kResponsesTopic,
              summary,
              {{.shape = server::error_shape(ErrorForm::openai), .status = 404}}};
  route.answer = [](const std::shared_ptr<Call>&, Fields&) {
    throw ApiError(ErrorCode::not_found,
                   "response: not found, as answers are not stored (send the whole conversation as input of "
                   "POST /v1/responses)",
                   "response_id");
  };
  return route;
}

}  // namespace

Routes response_routes(Serving* serving) {
  return {
      to_model(serving,
               {"POST",
                {"/v1/responses", "/responses"},
                ErrorForm::openai,
                kResponsesTopic,
                "Answer a conversation of items",
                {{response_shape()},
                 {R"({"type": "string", "sequence_number": "integer", "*": "any"})", server::kEventsType}}},
               kAnswersChats, answer_response),
      stored("GET", "404, as no answer is stored"), stored("DELETE", "404, as no answer is stored")};
}

}  // namespace heed::serve
