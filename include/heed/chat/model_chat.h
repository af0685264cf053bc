// Conversations as a model reads them: the chat templates among its files, and messages as token ids.
//   const auto tokenizer = heed::load_tokenizer("smollm");
//   const auto chat = heed::ModelChat::load("smollm", *tokenizer);
//   chat.encode(R"({"messages": [{"role": "user", "content": "Hi"}], "add_generation_prompt":
//   true})").encoding.ids;
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/chat/chat_template.h"
#include "heed/chat/tool_calls.h"
#include "heed/export.h"
#include "heed/text/tokenizer.h"

namespace HEED_API heed {

namespace chat {
class Conversation;
}

/// A conversation as tokens.
struct EncodedChat {
  std::string text;   ///< as the template writes it
  Encoding encoding;  ///< of the text; no token is added
  /// The tokens begin .. end - 1 with a character between `{% generation %}` and `{% endgeneration %}`, in
  /// ascending order: the tokens that are learned in training on answers only.
  std::vector<std::pair<std::int64_t, std::int64_t>> generated;
  std::vector<double> weights;  ///< of the losses of `generated`, if encode_answers() read one but 0 and 1
};

/// The templates of a model with its tokenizer. A conversation is a JSON object, as apply_chat_template() of
/// transformers takes it, or the list of its messages alone:
///   messages: at least one object with `role` (system, developer, user, assistant, tool, function or one
///     that the template names), `content` (a text, or a list of {"type": "text", "text": ...}, one text for
///     templates that read no lists; null or absent beside `tool_calls` or a reasoning), and what else the
///     template reads. Templates that do not mention `tool_calls` see "" in the place of an absent content
///   tools, documents: lists of objects. With tools, the template is `tool_use` if the model has one of that
///     name, else `default`
///   add_generation_prompt: whether the text ends with the beginning of an answer
///   continue_final_message: whether the text ends within the last message, to be continued
///   chat_template_kwargs: an object of further variables, none of which has a name of these members; other
///     members are variables, too
/// Special tokens (`bos_token`, `eos_token`, ...) are the tokenizer's. Nothing that a member says becomes a
/// special token (Tokenizer::encode_chat), and no token is added that the template does not write.
/// Threads: several may use one object at once.
class ModelChat {
 public:
  /// Reads the templates of a model's directory in Hugging Face layout (chat_template.jinja and
  /// additional_chat_templates/NAME.jinja, else chat_template of tokenizer_config.json or of
  /// chat_template.json) or of a GGUF file (tokenizer.chat_template, tokenizer.chat_template.NAME).
  /// `tokenizer`, which must outlive the result, is the model's. Throws Error if the model has no template,
  /// or none of the name `default`, and `FILE: line N: ...` if one cannot be parsed.
  static ModelChat load(const std::string& model, const Tokenizer& tokenizer);
  static ModelChat load(const ModelFiles& model, const Tokenizer& tokenizer);
  /// Whether load() would find a template.
  static bool has_template(const std::string& model);
  static bool has_template(const ModelFiles& model);

  /// Renders and tokenizes. `where` begins messages about the conversation: `where: messages.2.content:
  /// expected ...`, with messages counted from 0. Throws Error for one that is not as described above, and
  /// where the template refuses it.
  EncodedChat encode(std::string_view conversation, const std::string& where = "chat") const;
  /// The same for a conversation that the model continues. If it has neither add_generation_prompt nor
  /// continue_final_message, the latter is set if the last message is the assistant's, else the former.
  EncodedChat prompt(std::string_view conversation, const std::string& where = "chat") const;
  /// The number of tokens that the model reads at most: prompt() refuses a text that cannot have as few,
  /// because it has more bytes than these tokens, each as long as the longest of the tokenizer. Every text
  /// that a template writes has at most 8 MiB. Both are looked at before a text is tokenized.
  void limit_tokens(std::int64_t most) { most_tokens_ = most; }
  /// How the model writes calls of the tools that a conversation gives it.
  ToolCallFormat tool_calls() const;
  /// Whether the template for conversations with tools mentions `tools`. If not, the message of the system
  /// (the first of the user, for templates without one) describes them, and asks for calls as JSON.
  bool reads_tools() const;
  /// Whether the source of the template for conversations with tools has a text.
  bool writes(std::string_view text) const;
  /// The whole conversation, for training: `generated` are the assistant's answers with what ends them. If
  /// the template marks none, an answer is the difference between the conversation with it and the prompt
  /// before it (TRL's rule for prompts with completions), without whitespace behind its last special token.
  /// A message may have a `weight` of at least 0, with which its answer's loss is multiplied; one of 0, or
  /// with `train` false, is not learned. An answer that the template writes in another way once others follow
  /// (Qwen3 drops earlier thinking) is learned as it is generated: the conversation up to it comes first, as
  /// a part of its own. Throws Error for a conversation without an answer, and for one that begins with an
  /// answer.
  std::vector<EncodedChat> encode_answers(std::string_view conversation,
                                          const std::string& where = "chat") const;
  /// For heed's own modules: the same of a conversation that is a value already (src/chat/conversation.h).
  EncodedChat encode(const chat::Conversation& conversation) const;
  EncodedChat prompt(const chat::Conversation& conversation) const;
  std::vector<EncodedChat> encode_answers(const chat::Conversation& conversation) const;

 private:
  struct Templates;
  ModelChat(std::shared_ptr<const Templates> templates, const Tokenizer& tokenizer);

  std::shared_ptr<const Templates> templates_;
  const Tokenizer* tokenizer_;
  std::optional<std::int64_t> most_tokens_;
};

}  // namespace heed
