// Reads ShareGPT, Alpaca, pairs of prompts and completions, and preferences as messages.
#include "data/chat_forms.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "core/json_field.h"
#include "heed/error.h"

namespace heed {
namespace {

Json message_of(const std::string& role, Json content) {
  return {{"role", role}, {"content", std::move(content)}};
}

// The role that a speaker of ShareGPT has.
std::string role_of(const JsonField& from) {
  constexpr std::pair<std::string_view, std::string_view> kRoles[] = {
      {"human", "user"},
      {"user", "user"},
      {"gpt", "assistant"},
      {"assistant", "assistant"},
      {"chatgpt", "assistant"},
      {"bard", "assistant"},
      {"model", "assistant"},
      {"system", "system"},
      {"observation", "tool"},
      {"tool", "tool"},
      {"function_response", "tool"},
      {"function_call", "calls"},
  };
  for (const auto& [name, role] : kRoles)
    if (from.string() == name) return std::string(role);
  from.fail("human, gpt, system, function_call or observation");
}

Json call_of(const JsonField& value) {
  Json call = parse_json(value.string(), value.where());
  const JsonField field(call, value.where(), value.path());
  field.at("name").string();
  Json function = {{"name", call["name"]},
                   {"arguments", call.contains("arguments") ? call["arguments"] : Json::object()}};
  return {{"type", "function"}, {"function", std::move(function)}};
}

Json sharegpt_message(const JsonField& turn) {
  const bool named = turn.member("role") != nullptr;  // from and value as role and content
  const std::string role = named ? turn.at("role").string() : role_of(turn.at("from"));
  const JsonField value = turn.at(named ? "content" : "value");
  Json message;
  if (role == "calls") {
    message = message_of("assistant", "");
    message["tool_calls"] = Json::array({call_of(value)});
  } else {
    message = message_of(role, named ? value.value() : Json(value.string()));
  }
  for (const char* key : {"weight", "train", "reasoning_content"})
    if (const Json* found = turn.member(key)) message[key] = *found;
  return message;
}

// A message of the system before the others, if there is one.
void add_system(const JsonField& line, Json& messages) {
  const auto system = line.find("system");
  if (system && !system->string().empty())
    messages.insert(messages.begin(), message_of("system", system->string()));
}

Json sharegpt_messages(const JsonField& line) {
  Json messages = Json::array();
  const JsonField turns = line.at("conversations");
  for (std::size_t i = 0; i < turns.array_size(); ++i) messages.push_back(sharegpt_message(turns.at(i)));
  add_system(line, messages);
  return messages;
}

Json alpaca_messages(const JsonField& line) {
  Json messages = Json::array();
  if (const auto history = line.find("history")) {
    for (std::size_t i = 0; i < history->array_size(); ++i) {
      const JsonField pair = history->at(i);
      messages.push_back(message_of("user", pair.at(std::size_t{0}).string()));
      messages.push_back(message_of("assistant", pair.at(std::size_t{1}).string()));
    }
  }
  std::string question = line.at("instruction").string();
  const std::string input = line.string("input", "");
  if (!input.empty()) question += (question.empty() ? "" : "\n") + input;
  messages.push_back(message_of("user", question));
  messages.push_back(message_of("assistant", line.at("output").string()));
  add_system(line, messages);
  return messages;
}

// A side of a pair: its messages, or a text as the message of `role`.
Json side_messages(const JsonField& side, const char* role) {
  return side.value().is_array() ? side.value() : Json::array({message_of(role, side.string())});
}

void append(Json& messages, const Json& further) {
  messages.insert(messages.end(), further.begin(), further.end());
}

// The first messages are not learned.
void mark_prompt(Json& messages, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    if (messages[i].is_object()) messages[i]["train"] = false;
}

Json pair_messages(const JsonField& line) {
  Json messages = side_messages(line.at("prompt"), "user");
  const std::size_t given = messages.size();
  append(messages, side_messages(line.at("completion"), "assistant"));
  mark_prompt(messages, given);
  add_system(line, messages);
  return messages;
}

// A conversation of the messages, with what else templates read of the line.
Json conversation_of(Json messages, const JsonField& line) {
  Json conversation = {{"messages", std::move(messages)}};
  if (const auto tools = line.find("tools"))
    conversation["tools"] =
        tools->value().is_string() ? parse_json(tools->string(), line.where()) : tools->value();
  if (const auto further = line.find("chat_template_kwargs"))
    conversation["chat_template_kwargs"] = further->value();
  return conversation;
}

bool begins_with(const Json& messages, const Json& beginning) {
  return messages.size() >= beginning.size() &&
         std::equal(beginning.begin(), beginning.end(), messages.begin());
}

std::optional<ChatForm> form_of(const Json& line) {
  constexpr std::pair<const char*, ChatForm> kKeys[] = {{"messages", ChatForm::messages},
                                                        {"conversations", ChatForm::sharegpt},
                                                        {"instruction", ChatForm::alpaca},
                                                        {"completion", ChatForm::prompt_completion},
                                                        {"text", ChatForm::text}};
  for (const auto& [key, form] : kKeys)
    if (line.contains(key)) return form;
  return std::nullopt;
}

}  // namespace

std::string chat_form_name(ChatForm form) {
  switch (form) {
    case ChatForm::messages: return "messages";
    case ChatForm::sharegpt: return "ShareGPT (conversations)";
    case ChatForm::alpaca: return "Alpaca (instruction, output)";
    case ChatForm::prompt_completion: return "prompt and completion";
    case ChatForm::text: return "text without a template";
  }
  return "";
}

ChatLine read_chat_line(Json line, const std::string& where) {
  if (line.is_array()) return {ChatForm::messages, Json::object({{"messages", std::move(line)}}), 1};
  if (!line.is_object()) JsonField(line, where).fail("a conversation");
  const auto form = form_of(line);
  if (!form)
    throw Error(where +
                ": expected messages, conversations (ShareGPT), instruction and output (Alpaca), prompt and "
                "completion, or text, got none of them");
  const JsonField field(line, where);
  const auto given = field.find("weight");
  if (given && given->number() < 0) given->fail("a number of at least 0");
  const double weight = given ? given->number() : 1;
  Json messages;
  switch (*form) {
    case ChatForm::messages: return {*form, std::move(line), weight};
    case ChatForm::text: field.at("text").string(); return {*form, std::move(line), weight};
    case ChatForm::sharegpt: messages = sharegpt_messages(field); break;
    case ChatForm::alpaca: messages = alpaca_messages(field); break;
    case ChatForm::prompt_completion: messages = pair_messages(field); break;
  }
  return {*form, conversation_of(std::move(messages), field), weight};
}

PreferenceLine read_preference_line(const Json& line, const std::string& where) {
  const JsonField field(line, where);
  if (!line.is_object()) field.fail("an object with prompt, chosen and rejected");
  const JsonField chosen = field.at("chosen"), rejected = field.at("rejected");
  const auto given = chosen.value().is_string() ? field.at("prompt") : field.find("prompt");
  if (given && !given->value().is_array() && !chosen.value().is_array() && !rejected.value().is_array()) {
    PreferenceLine texts{given->string(), chosen.string(), rejected.string()};
    for (const JsonField& answer : {chosen, rejected})
      if (answer.string().empty()) answer.fail("an answer");
    return texts;
  }
  Json first = side_messages(chosen, "assistant"), second = side_messages(rejected, "assistant");
  for (const JsonField& answer : {chosen, rejected})
    if (answer.value().is_array() && answer.value().empty()) answer.fail("at least one message");
  Json prompt = given ? side_messages(*given, "user") : Json::array();
  if (begins_with(first, prompt) && begins_with(second, prompt)) prompt.clear();
  add_system(field, prompt);
  for (Json* messages : {&first, &second}) messages->insert(messages->begin(), prompt.begin(), prompt.end());
  const std::size_t most = std::min(first.size(), second.size()) - 1;  // the last messages are answers
  std::size_t common = 0;
  while (common < most && first[common] == second[common]) ++common;
  for (Json* messages : {&first, &second}) mark_prompt(*messages, common);
  return {.chosen_chat = conversation_of(std::move(first), field),
          .rejected_chat = conversation_of(std::move(second), field)};
}

}  // namespace heed
