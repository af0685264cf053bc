// Conversation: what a chat template is given, as one value: the members of a conversation and its further
// variables, merged, and checked as merged.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/json.h"

namespace heed::chat {

/// Whether message formats have the role; a template may have others.
bool is_usual_role(std::string_view role);

class Conversation {
 public:
  /// Takes a conversation as ModelChat does: an object, or the list of its messages. `where` begins messages.
  /// Throws Error `where: messages.2.content: expected ...` for one that is not as described there.
  Conversation(Json given, std::string where);

  const std::string& where() const { return where_; }
  /// At least one object with a role, a text. Contents are texts or lists of texts; null or absent beside
  /// calls of tools or a reasoning.
  const Json& messages() const { return variables_["messages"]; }
  bool has_tools() const { return !variables_["tools"].is_null(); }
  bool ends_with_answer() const;
  /// All that the template may read. `tools` and `documents` are null if there are none;
  /// `add_generation_prompt` is not among them, as it depends on who asks.
  const Json& variables() const { return variables_; }
  std::optional<bool> add_generation_prompt, continue_final_message;

 private:
  std::string where_;
  Json variables_;
};

/// Throws Error for a message whose role is not usual and not in quotes in the source of the template.
void require_known_roles(const Conversation& conversation, std::string_view source);

}  // namespace heed::chat
