// The forms in which people have conversations, as one: a line of a chat file as a conversation with
// `messages`.
#pragma once

#include <cstdint>
#include <string>

#include "core/json.h"

namespace heed {

enum class ChatForm : std::uint8_t {
  messages,           ///< messages: role and content (OpenAI, Hugging Face)
  sharegpt,           ///< conversations: from and value
  alpaca,             ///< instruction, input, output
  prompt_completion,  ///< prompt and completion: texts, or lists of messages
  text,               ///< text alone, learned as it is, without a template
};
inline constexpr std::size_t kChatForms = 5;

/// As messages name it.
std::string chat_form_name(ChatForm form);

/// A line of a chat file.
struct ChatLine {
  ChatForm form = ChatForm::messages;
  Json conversation{};  ///< an object with messages, and what else the line has; with ChatForm::text, `text`
  double weight = 1;    ///< of the losses of all its answers
};

/// Finds out the form of a line. `where` begins messages. Throws Error for a line of no form, and for one
/// whose members are not as its form has them.
ChatLine read_chat_line(Json line, const std::string& where);

/// A line of preferences: two answers to a prompt, of which the first is preferred.
struct PreferenceLine {
  /// Learned as they are, without a template; if they are empty, the answers are in conversations.
  std::string prompt{}, chosen{}, rejected{};
  /// Objects with messages; those of the prompt have "train": false.
  Json chosen_chat{}, rejected_chat{};

  bool is_chat() const { return !chosen_chat.is_null(); }
};

/// Reads `prompt`, `chosen` and `rejected`: texts, or lists of messages. Without a prompt, and where both
/// lists begin with it, they are whole conversations, whose common beginning is the prompt. Throws Error for
/// a line that has not all of them, or is of another form.
PreferenceLine read_preference_line(const Json& line, const std::string& where);

}  // namespace heed
