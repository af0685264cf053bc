// Conversation: what a chat template is given, as one value: the members of a conversation and its further
// variables, merged, and checked as merged.
#pragma once

#include <optional>
#include <string>

#include "core/json.h"

namespace heed::chat {

class Conversation {
 public:
  /// Takes a conversation as ModelChat does: an object, or the list of its messages. `where` begins messages.
  /// Throws Error `where: messages.2.content: expected ...` for one that is not as described there.
  Conversation(Json given, std::string where);

  const std::string& where() const { return where_; }
  /// At least one object with a role, a text; contents are texts, null, or lists of texts.
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

}  // namespace heed::chat
