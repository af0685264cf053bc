// Checks and merges the members of a conversation.
#include "chat/conversation.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/json_field.h"
#include "core/strings.h"
#include "heed/error.h"

namespace heed::chat {
namespace {

constexpr const char* kFurther = "chat_template_kwargs";
// What a conversation says itself. A further variable of such a name would be a second word on it.
constexpr std::string_view kOwn[] = {
    "messages", "tools", "documents", "add_generation_prompt", "continue_final_message", kFurther};

constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool", "function"};
// Members beside which a message needs no content.
constexpr std::string_view kSaidOtherwise[] = {"tool_calls", "reasoning_content", "thinking", "reasoning"};

void check_part(const JsonField& part) {
  if (const std::string& type = part.at("type").string(); type != "text")
    throw Error(part.where() + ": " + part.path_of("type") + ": expected \"text\", got " + json_quoted(type) +
                " (chats are of texts alone)");
  part.at("text").string();
}

void check_message(const JsonField& message) {
  message.at("role").string();
  const auto is_said = [&](std::string_view key) {
    const auto member = message.find(key);
    return member && !member->value().empty();
  };
  const auto content = message.find("content");
  if (!content && std::any_of(std::begin(kSaidOtherwise), std::end(kSaidOtherwise), is_said)) return;
  if (message.at("content").value().is_string()) return;
  if (!content->value().is_array()) content->fail("a text, null or a list of texts");
  for (std::size_t i = 0; i < content->array_size(); ++i) check_part(content->at(i));
}

void check_objects(const JsonField& conversation, const char* key) {
  const auto list = conversation.find(key);
  for (std::size_t i = 0; list && i < list->array_size(); ++i)
    if (!list->at(i).value().is_object()) list->at(i).fail("an object");
}

/// Adds the further variables to the conversation's own members.
void merge_further(Json& conversation, const std::string& where) {
  const auto found = conversation.find(kFurther);
  if (found == conversation.end()) return;
  const Json further = std::move(*found);
  conversation.erase(found);
  if (further.is_null()) return;
  JsonField(further, where, kFurther).each_member([&](const std::string& key, const JsonField& member) {
    if (std::find(std::begin(kOwn), std::end(kOwn), key) != std::end(kOwn))
      throw Error(where + ": " + member.path() +
                  ": expected a variable of the template's own, got what the conversation itself says "
                  "(leave it out, or give it beside chat_template_kwargs)");
    conversation[key] = member.value();
  });
}

/// Removes a member, which is a boolean or null, and returns its value.
std::optional<bool> take_boolean(Json& conversation, const char* key, const std::string& where) {
  const auto found = conversation.find(key);
  if (found == conversation.end()) return std::nullopt;
  const auto field = JsonField(conversation, where).find(key);
  const auto value = field ? std::optional(field->boolean()) : std::nullopt;
  conversation.erase(found);
  return value;
}

}  // namespace

bool is_usual_role(std::string_view role) {
  return std::find(std::begin(kRoles), std::end(kRoles), role) != std::end(kRoles);
}

void require_known_roles(const Conversation& conversation, std::string_view source) {
  const Json& messages = conversation.messages();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i]["role"].get_ref<const std::string&>();
    const auto names = [&](char quote) { return source.find(quote + role + quote) != source.npos; };
    if (!is_usual_role(role) && !names('\'') && !names('"'))
      JsonField(messages[i]["role"], conversation.where(), "messages." + std::to_string(i) + ".role")
          .fail(joined(kRoles) + ", or a role that the chat template names");
  }
}

Conversation::Conversation(Json given, std::string where) : where_(std::move(where)) {
  if (given.is_array()) given = Json::object({{"messages", std::move(given)}});
  if (!given.is_object()) JsonField(given, where_).fail("an object with messages, or a list of messages");
  merge_further(given, where_);
  const JsonField merged(given, where_);
  const JsonField messages = merged.at("messages");
  if (messages.array_size() == 0) messages.fail("at least one message");
  for (std::size_t i = 0; i < messages.array_size(); ++i) check_message(messages.at(i));
  for (const char* key : {"tools", "documents"}) check_objects(merged, key);
  add_generation_prompt = take_boolean(given, "add_generation_prompt", where_);
  continue_final_message = take_boolean(given, "continue_final_message", where_);
  variables_ = {{"tools", nullptr}, {"documents", nullptr}};
  for (auto& member : given.items()) variables_[member.key()] = std::move(member.value());
}

bool Conversation::ends_with_answer() const { return messages().back()["role"] == "assistant"; }

}  // namespace heed::chat
