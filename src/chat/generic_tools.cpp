// Calls as texts of the assistant, results as texts of the user.
#include "chat/generic_tools.h"

#include <algorithm>
#include <string>

#include "heed/error.h"

namespace heed::chat {
namespace {

const Json& function_of(const Json& tool) {
  const auto function = tool.find("function");
  return function != tool.end() && function->is_object() ? *function : tool;
}

std::string description(const Json& tools) {
  std::string text =
      "You can call functions. To call one, answer with a JSON object alone: {\"name\": ..., \"parameters\": "
      "{...}}. Functions:";
  for (const Json& tool : tools) text += "\n" + json_text(function_of(tool));
  return text;
}

/// Adds a text before or after a content, which is a text, a list of texts, or missing.
void add_text(Json& message, const std::string& text, bool before) {
  Json& content = message["content"];
  if (content.is_array()) {
    content.insert(before ? content.begin() : content.end(), Json{{"type", "text"}, {"text", text}});
    return;
  }
  const std::string own = content.is_string() ? content.get<std::string>() : std::string();
  content = own.empty() ? text : before ? text + "\n\n" + own : own + "\n\n" + text;
}

/// A call as the description asks for it.
std::string text_of_call(const Json& call) {
  const Json& function = function_of(call);
  Json arguments = function.value("arguments", Json::object());
  if (arguments.is_string()) {
    try {
      arguments = parse_json(arguments.get_ref<const std::string&>(), "arguments");
    } catch (const Error&) {  // not JSON: as it is
    }
  }
  return json_text(Json{{"name", function.value("name", Json())}, {"parameters", std::move(arguments)}});
}

}  // namespace

void describe_tools(Json& messages, const Json& tools, bool has_system) {
  for (Json& message : messages) {
    if (message["role"] == "tool") message["role"] = "user";
    const auto calls = message.find("tool_calls");
    if (calls == message.end() || !calls->is_array()) continue;
    const Json given = std::move(*calls);
    message.erase("tool_calls");
    for (const Json& call : given)
      if (call.is_object()) add_text(message, text_of_call(call), false);
  }
  const std::string text = description(tools);
  const Json& first = messages.front()["role"];
  if (first == "system" || first == "developer") return add_text(messages.front(), text, false);
  if (has_system) {
    messages.insert(messages.begin(), Json{{"role", "system"}, {"content", text}});
    return;
  }
  const auto user = std::find_if(messages.begin(), messages.end(),
                                 [](const Json& message) { return message["role"] == "user"; });
  if (user != messages.end()) add_text(*user, text, true);
}

}  // namespace heed::chat
