// Chooses the template of a conversation, shows it the messages as it reads them, and finds what is learned.
#include "heed/chat/model_chat.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "chat/conversation.h"
#include "chat/renderer.h"
#include "core/json.h"
#include "core/strings.h"
#include "heed/error.h"
#include "heed/files/model_files.h"
#include "heed/text/tokenizer.h"
#include "text/loading/chat_templates.h"
#include "text/loading/loaders.h"
#include "text/loading/tokenizer_config.h"

namespace heed {
namespace chat {

struct ModelTemplate {
  ChatTemplate parsed;
  std::string where;
  bool reads_lists;  // contents that are lists of parts
  bool reads_calls;  // members tool_calls of messages
  bool reads_tools;
  ToolCallFormat calls;
};

}  // namespace chat

namespace {

using chat::ModelTemplate;

constexpr std::string_view kToolUse = "tool_use";
// The end of a message that is to be continued, with a space that shows whether the template strips messages.
constexpr std::string_view kEndMark = "CONTINUE_FINAL_MESSAGE_TAG ";

std::string joined_parts(const Json& content) {
  std::string text;
  for (const Json& part : content) text += part["text"].get_ref<const std::string&>();
  return text;
}

/// A message as transformers passes it to the template: without members that are null, and with the reasoning
/// under each name that templates read.
Json normalized(const Json& message) {
  Json result = Json::object();
  for (const auto& member : message.items()) {
    if (!member.value().is_null()) result[member.key()] = member.value();
  }
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const auto reasoning = result.find(name);
    if (reasoning == result.end()) continue;
    const Json value = *reasoning;
    if (!result.contains("thinking")) result["thinking"] = value;
    result["reasoning_content"] = value;
    break;
  }
  return result;
}

/// Cuts a text, and the spans in it, to its first `size` bytes.
void cut(RenderedChat& chat, std::size_t size) {
  chat.text.resize(size);
  for (auto* spans : {&chat.data, &chat.generated}) {
    std::erase_if(*spans, [&](const TextSpan& span) { return span.begin >= size; });
    for (TextSpan& span : *spans) span.end = std::min(span.end, size);
  }
}

/// Marks the end of the last message's text.
void mark_end(Json& messages, const std::string& where) {
  Json& message = messages.back();
  const auto content = message.find("content");
  if (content == message.end() || content->empty())
    throw Error(where + ": messages." + std::to_string(messages.size() - 1) +
                ".content: expected a text to continue, got none");
  Json& text = content->is_array() ? content->back()["text"] : *content;
  text = text.get_ref<const std::string&>() + std::string(kEndMark);
}

/// Ends the text where the marked message does. Returns false if the template left the mark out.
bool end_at_mark(RenderedChat& chat) {
  const std::size_t at = chat.text.rfind(kEndMark.substr(0, kEndMark.size() - 1));
  if (at == std::string::npos) return false;
  std::size_t size = at;
  if (chat.text.compare(at, kEndMark.size(), kEndMark) != 0) {  // the template strips messages
    const std::string_view before = strip(std::string_view(chat.text).substr(0, at));
    size = static_cast<std::size_t>(before.data() + before.size() - chat.text.data());
  }
  cut(chat, size);
  return true;
}

/// The tokens that have a character of the spans.
std::vector<std::pair<std::int64_t, std::int64_t>> tokens_of(const std::vector<TextSpan>& spans,
                                                             const std::string& text,
                                                             const Encoding& encoding) {
  std::vector<std::pair<std::int64_t, std::int64_t>> tokens;
  if (spans.empty()) return tokens;
  const CharacterOffsets characters(text);
  auto span = spans.begin();
  for (std::int64_t i = 0; i < encoding.size(); ++i) {
    const auto [begin, end] = encoding.offsets[static_cast<std::size_t>(i)];
    while (span != spans.end() && begin >= characters[span->end]) ++span;
    if (span == spans.end()) break;
    if (end <= characters[span->begin]) continue;
    if (tokens.empty() || tokens.back().second < i) tokens.push_back({i, i});
    tokens.back().second = i + 1;
  }
  return tokens;
}

ModelFiles files_of(const std::string& model) { return ModelFiles(model, {gguf_tokenizer_maker()}); }

/// The special tokens by the names that templates have for them.
Json special_tokens(const ModelFiles& model, const Tokenizer& tokenizer) {
  const TokenizerConfig config = TokenizerConfig::load(model);
  const std::pair<SpecialRole, std::optional<std::int64_t>> roles[] = {
      {SpecialRole::bos, tokenizer.bos_id()},  {SpecialRole::eos, tokenizer.eos_id()},
      {SpecialRole::unk, tokenizer.unk_id()},  {SpecialRole::sep, tokenizer.sep_id()},
      {SpecialRole::pad, tokenizer.pad_id()},  {SpecialRole::cls, tokenizer.cls_id()},
      {SpecialRole::mask, tokenizer.mask_id()}};
  Json tokens = Json::object();
  for (const auto& [role, id] : roles) {
    if (const auto& named = config.role(role)) {
      tokens[role_key(role)] = *named;
    } else if (id) {
      tokens[role_key(role)] = tokenizer.token(*id);
    }
  }
  return tokens;
}

/// Whether a template writes the text of a content that is a list of parts, rather than the list.
bool reads_lists(const ChatTemplate& chat, const Json& constants) {
  const Json part = {{"type", "text"}, {"text", "probe"}};
  const Json message = {{"role", "user"}, {"content", Json::array({part})}};
  const Json probe = {{"messages", Json::array({message})},
                      {"tools", nullptr},
                      {"documents", nullptr},
                      {"add_generation_prompt", false}};
  try {
    const std::string text = chat::render(chat.parsed(), probe, constants, {}).text;
    return text.find("probe") != text.npos && text.find("'probe'") == text.npos &&
           text.find("\"probe\"") == text.npos;
  } catch (const Error&) {
    return false;
  }
}

/// A message in the form that a template reads.
Json shown_message(const Json& given, const ModelTemplate& chosen) {
  Json message = normalized(given);
  const auto content = message.find("content");
  if (content != message.end() && content->is_array() && !chosen.reads_lists)
    *content = joined_parts(*content);
  // A call of a tool has no text; a template that knows no calls adds the text to others.
  const auto calls = message.find("tool_calls");
  if (content == message.end() && calls != message.end() && !calls->empty() && !chosen.reads_calls)
    message["content"] = "";
  return message;
}

Json shown_variables(const chat::Conversation& conversation, const ModelTemplate& chosen) {
  Json variables = conversation.variables();
  for (Json& message : variables["messages"]) message = shown_message(message, chosen);
  return variables;
}

}  // namespace

struct ModelChat::Templates {
  std::map<std::string, ModelTemplate, std::less<>> by_name;
  Json constants;

  const ModelTemplate& with_tools() const {
    const auto own = by_name.find(kToolUse);
    return (own != by_name.end() ? own : by_name.find(kDefaultTemplate))->second;
  }
  const ModelTemplate& of(const chat::Conversation& conversation) const {
    return conversation.has_tools() ? with_tools() : by_name.find(kDefaultTemplate)->second;
  }
  RenderedChat render(const ModelTemplate& chosen, const Json& variables) const {
    return chat::render(chosen.parsed.parsed(), variables, constants, {});
  }
  EncodedChat encode(const chat::Conversation& conversation, bool starts, bool continues,
                     const Tokenizer& tokenizer) const;
};

EncodedChat ModelChat::Templates::encode(const chat::Conversation& conversation, bool starts, bool continues,
                                         const Tokenizer& tokenizer) const {
  const std::string& where = conversation.where();
  if (starts && continues)
    throw Error(where + ": expected add_generation_prompt or continue_final_message, got both");
  const ModelTemplate& chosen = of(conversation);
  Json variables = shown_variables(conversation, chosen);
  variables["add_generation_prompt"] = starts;
  if (continues) mark_end(variables["messages"], where);
  RenderedChat chat = render(chosen, variables);
  if (continues && !end_at_mark(chat))
    throw Error(where + ": continue_final_message: expected a template that writes the last message, got " +
                chosen.where + ", which leaves it out");
  Encoding encoding = tokenizer.encode_chat(chat.text, chat.data);
  auto generated = tokens_of(chat.generated, chat.text, encoding);
  return {std::move(chat.text), std::move(encoding), std::move(generated)};
}

ModelChat::ModelChat(std::shared_ptr<const Templates> templates, const Tokenizer& tokenizer)
    : templates_(std::move(templates)), tokenizer_(&tokenizer) {}

bool ModelChat::has_template(const ModelFiles& model) {
  const std::vector<NamedTemplate> files = read_chat_templates(model);
  return std::any_of(files.begin(), files.end(),
                     [](const NamedTemplate& one) { return !strip(one.text).empty(); });
}

bool ModelChat::has_template(const std::string& model) { return has_template(files_of(model)); }

ModelChat ModelChat::load(const std::string& model, const Tokenizer& tokenizer) {
  return load(files_of(model), tokenizer);
}

ModelChat ModelChat::load(const ModelFiles& model, const Tokenizer& tokenizer) {
  const std::vector<NamedTemplate> files = read_chat_templates(model);
  if (files.empty())
    throw Error(model.where() +
                ": expected a model for chats, got one without a chat template (chat_template.jinja, or "
                "chat_template in tokenizer_config.json)");
  if (find_template(files, kDefaultTemplate) == nullptr)
    throw Error(model.where() + ": expected a chat template of the name default, got only " +
                joined(files, ", ", &NamedTemplate::name));
  auto templates = std::make_shared<Templates>();
  templates->constants = special_tokens(model, tokenizer);
  for (const NamedTemplate& one : files) {
    if (one.name != kDefaultTemplate && one.name != kToolUse) continue;
    if (strip(one.text).empty()) throw Error(one.where + ": expected a chat template, got an empty one");
    ChatTemplate parsed = ChatTemplate::parse(one.text, one.where);
    const bool lists = reads_lists(parsed, templates->constants);
    templates->by_name.emplace(
        one.name,
        ModelTemplate{std::move(parsed), one.where, lists, one.text.find("tool_calls") != std::string::npos,
                      one.name == kToolUse || one.text.find("tools") != std::string::npos,
                      tool_call_format(one.text)});
  }
  return {std::move(templates), tokenizer};
}

ToolCallFormat ModelChat::tool_calls() const { return templates_->with_tools().calls; }

bool ModelChat::reads_tools() const { return templates_->with_tools().reads_tools; }

EncodedChat ModelChat::encode(std::string_view conversation, const std::string& where) const {
  return encode(chat::Conversation(parse_json(conversation, where), where));
}

EncodedChat ModelChat::prompt(std::string_view conversation, const std::string& where) const {
  return prompt(chat::Conversation(parse_json(conversation, where), where));
}

EncodedChat ModelChat::encode_answers(std::string_view conversation, const std::string& where) const {
  return encode_answers(chat::Conversation(parse_json(conversation, where), where));
}

EncodedChat ModelChat::encode(const chat::Conversation& conversation) const {
  return templates_->encode(conversation, conversation.add_generation_prompt.value_or(false),
                            conversation.continue_final_message.value_or(false), *tokenizer_);
}

EncodedChat ModelChat::prompt(const chat::Conversation& conversation) const {
  if (conversation.add_generation_prompt || conversation.continue_final_message) return encode(conversation);
  const bool answered = conversation.ends_with_answer();
  return templates_->encode(conversation, !answered, answered, *tokenizer_);
}

EncodedChat ModelChat::encode_answers(const chat::Conversation& conversation) const {
  EncodedChat chat = templates_->encode(conversation, false, false, *tokenizer_);
  if (!chat.generated.empty()) return chat;
  const ModelTemplate& chosen = templates_->of(conversation);
  Json variables = shown_variables(conversation, chosen);
  const Json messages = std::exchange(variables["messages"], Json::array());
  const std::vector<std::int64_t>& ids = chat.encoding.ids;
  // The ids of the first messages, perhaps with the beginning of an answer.
  const auto ids_so_far = [&](bool starts) {
    variables["add_generation_prompt"] = starts;
    const RenderedChat so_far = templates_->render(chosen, variables);
    return tokenizer_->encode_chat(so_far.text, so_far.data).ids;
  };
  for (std::size_t i = 0; i < messages.size(); ++i) {
    std::vector<std::int64_t> prompt;
    const bool is_answer = messages[i]["role"] == "assistant";
    const std::string at = conversation.where() + ": messages." + std::to_string(i);
    if (is_answer && i == 0) throw Error(at + ": expected a message to answer, got an answer");
    if (is_answer) prompt = ids_so_far(true);
    variables["messages"].push_back(messages[i]);
    if (!is_answer) continue;
    const std::vector<std::int64_t> whole = ids_so_far(false);
    if (whole.size() > ids.size() || !std::equal(whole.begin(), whole.end(), ids.begin()))
      throw Error(
          at +
          ": expected a chat template that writes an answer alike whatever follows, got another (make "
          "it the last message)");
    const auto begin = std::mismatch(prompt.begin(), prompt.end(), whole.begin(), whole.end()).second;
    if (begin != whole.end()) chat.generated.emplace_back(begin - whole.begin(), std::ssize(whole));
  }
  if (chat.generated.empty())
    throw Error(conversation.where() + ": expected an answer of the assistant to learn, got none");
  return chat;
}

}  // namespace heed
