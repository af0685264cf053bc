#include "heed/chat/model_chat.h"

#include <algorithm>
#include <map>
#include <optional>

#include "core/json_field.h"
#include "core/strings.h"
#include "heed/error.h"
#include "heed/text/tokenizer.h"
#include "text/chat_templates.h"
#include "text/tokenizer_config.h"

namespace heed {
namespace {

constexpr std::string_view kToolUse = "tool_use";
// The end of a message that is to be continued, with a space that shows whether the template strips messages.
constexpr std::string_view kEndMark = "CONTINUE_FINAL_MESSAGE_TAG ";

void check_part(const JsonField& part) {
  if (const std::string& type = part.at("type").string(); type != "text")
    throw Error(part.where() + ": " + part.path_of("type") + ": expected \"text\", got " + json_quoted(type) +
                " (chats are of texts alone)");
  part.at("text").string();
}

void check_message(const JsonField& message) {
  message.at("role").string();
  const auto content = message.find("content");
  if (!content || content->value().is_string()) return;
  if (!content->value().is_array()) content->fail("a text, null or a list of texts");
  for (std::size_t i = 0; i < content->array_size(); ++i) check_part(content->at(i));
}

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

void check_objects(const JsonField& conversation, const char* key) {
  const auto list = conversation.find(key);
  for (std::size_t i = 0; list && i < list->array_size(); ++i)
    if (!list->at(i).value().is_object()) list->at(i).fail("an object");
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
void mark_end(Json& message, const JsonField& given) {
  const auto content = message.find("content");
  if (content == message.end() || content->empty())
    throw Error(given.where() + ": " + given.path_of("content") + ": expected a text to continue, got none");
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

/// The special tokens by the names that templates have for them.
std::string special_tokens(const std::string& model, const Tokenizer& tokenizer) {
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
  return json_text(tokens);
}

}  // namespace

namespace {

/// The object of a conversation that is given as that or as a list of messages.
Json conversation_of(std::string_view text, const std::string& where) {
  Json given = parse_json(text, where);
  if (given.is_array()) given = Json::object({{"messages", std::move(given)}});
  return given;
}

}  // namespace

struct ModelChat::Templates {
  struct One {
    ChatTemplate parsed;
    std::string where;
    bool reads_lists;  // contents that are lists of parts
    bool reads_calls;  // members tool_calls of messages
    bool reads_tools;
    ToolCallFormat calls;
  };
  std::map<std::string, One, std::less<>> by_name;
  const One& with_tools() const {
    const auto own = by_name.find(kToolUse);
    return (own != by_name.end() ? own : by_name.find(kDefaultTemplate))->second;
  }
  RenderOptions options;
};

namespace {

/// Whether a template writes the text of a content that is a list of parts, rather than the list.
bool reads_lists(const ChatTemplate& chat, const RenderOptions& options) {
  constexpr const char* kProbe =
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "probe"}]}],
          "tools": null, "documents": null, "add_generation_prompt": false})";
  try {
    const std::string text = chat.render(kProbe, options).text;
    return text.find("probe") != text.npos && text.find("'probe'") == text.npos &&
           text.find("\"probe\"") == text.npos;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

ModelChat::ModelChat(std::shared_ptr<const Templates> templates, const Tokenizer& tokenizer)
    : templates_(std::move(templates)), tokenizer_(&tokenizer) {}

bool ModelChat::has_template(const std::string& model) {
  const std::vector<NamedTemplate> files = read_chat_templates(model);
  return std::any_of(files.begin(), files.end(),
                     [](const NamedTemplate& one) { return !strip(one.text).empty(); });
}

ModelChat ModelChat::load(const std::string& model, const Tokenizer& tokenizer) {
  const std::vector<NamedTemplate> files = read_chat_templates(model);
  if (files.empty())
    throw Error(model +
                ": expected a model for chats, got one without a chat template (chat_template.jinja, or "
                "chat_template in tokenizer_config.json)");
  if (find_template(files, kDefaultTemplate) == nullptr)
    throw Error(model + ": expected a chat template of the name default, got only " +
                joined(files, ", ", &NamedTemplate::name));
  auto templates = std::make_shared<Templates>();
  templates->options.constants = special_tokens(model, tokenizer);
  for (const NamedTemplate& one : files) {
    if (one.name != kDefaultTemplate && one.name != kToolUse) continue;
    if (strip(one.text).empty()) throw Error(one.where + ": expected a chat template, got an empty one");
    ChatTemplate parsed = ChatTemplate::parse(one.text, one.where);
    const bool lists = reads_lists(parsed, templates->options);
    templates->by_name.emplace(
        one.name,
        Templates::One{std::move(parsed), one.where, lists, one.text.find("tool_calls") != std::string::npos,
                       one.name == kToolUse || one.text.find("tools") != std::string::npos,
                       tool_call_format(one.text)});
  }
  return {std::move(templates), tokenizer};
}

ToolCallFormat ModelChat::tool_calls() const { return templates_->with_tools().calls; }

bool ModelChat::reads_tools() const { return templates_->with_tools().reads_tools; }

EncodedChat ModelChat::encode(std::string_view conversation, const std::string& where) const {
  return encode(conversation, where, false);
}

EncodedChat ModelChat::prompt(std::string_view conversation, const std::string& where) const {
  return encode(conversation, where, true);
}

EncodedChat ModelChat::encode_answers(std::string_view conversation, const std::string& where) const {
  Json given = conversation_of(conversation, where);
  if (given.is_object()) {
    given.erase("add_generation_prompt");
    given.erase("continue_final_message");
  }
  EncodedChat chat = encode(json_text(given), where);
  if (!chat.generated.empty()) return chat;
  const Json messages = given["messages"];
  const std::vector<std::int64_t>& ids = chat.encoding.ids;
  // The ids of the first `count` messages, perhaps with the beginning of an answer.
  const auto ids_of = [&](std::size_t count, bool starts) {
    given["messages"] = Json(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(count));
    given["add_generation_prompt"] = starts;
    return encode(json_text(given), where).encoding.ids;
  };
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (messages[i]["role"] != "assistant") continue;
    const std::string at = where + ": messages." + std::to_string(i);
    if (i == 0) throw Error(at + ": expected a message to answer, got an answer");
    const std::vector<std::int64_t> prompt = ids_of(i, true), whole = ids_of(i + 1, false);
    if (whole.size() > ids.size() || !std::equal(whole.begin(), whole.end(), ids.begin()))
      throw Error(
          at +
          ": expected a chat template that writes an answer alike whatever follows, got another (make "
          "it the last message)");
    const auto begin = std::mismatch(prompt.begin(), prompt.end(), whole.begin(), whole.end()).second;
    if (begin != whole.end()) chat.generated.emplace_back(begin - whole.begin(), std::ssize(whole));
  }
  if (chat.generated.empty()) throw Error(where + ": expected an answer of the assistant to learn, got none");
  return chat;
}

EncodedChat ModelChat::encode(std::string_view conversation, const std::string& where, bool prompt) const {
  const Json given = conversation_of(conversation, where);
  const JsonField object(given, where);
  if (!given.is_object()) object.fail("an object with messages, or a list of messages");
  const JsonField messages = object.at("messages");
  if (messages.array_size() == 0) messages.fail("at least one message");
  for (std::size_t i = 0; i < messages.array_size(); ++i) check_message(messages.at(i));
  for (const char* key : {"tools", "documents"}) check_objects(object, key);
  prompt = prompt && !object.find("add_generation_prompt") && !object.find("continue_final_message");
  const bool answered = messages.at(messages.array_size() - 1).at("role").string() == "assistant";
  const bool starts = object.boolean("add_generation_prompt", prompt && !answered);
  const bool continues = object.boolean("continue_final_message", prompt && answered);
  if (starts && continues)
    throw Error(where + ": expected add_generation_prompt or continue_final_message, got both");

  const Templates::One& chosen =
      object.find("tools") ? templates_->with_tools() : templates_->by_name.find(kDefaultTemplate)->second;
  Json variables = {{"tools", nullptr}, {"documents", nullptr}, {"add_generation_prompt", starts}};
  for (const auto& member : given.items()) {
    if (member.key() != "chat_template_kwargs" && member.key() != "continue_final_message")
      variables[member.key()] = member.value();
  }
  if (const auto further = object.find("chat_template_kwargs"))
    further->each_member([&](const std::string& key, const JsonField& v) { variables[key] = v.value(); });
  for (Json& message : variables["messages"]) {
    message = normalized(message);
    const auto content = message.find("content");
    if (content != message.end() && content->is_array() && !chosen.reads_lists)
      *content = joined_parts(*content);
    // A call of a tool has no text; a template that knows no calls adds the text to others.
    const auto calls = message.find("tool_calls");
    if (content == message.end() && calls != message.end() && !calls->empty() && !chosen.reads_calls)
      message["content"] = "";
  }
  if (continues) mark_end(variables["messages"].back(), messages.at(messages.array_size() - 1));
  RenderedChat chat = chosen.parsed.render(json_text(variables), templates_->options);
  if (continues && !end_at_mark(chat))
    throw Error(where + ": continue_final_message: expected a template that writes the last message, got " +
                chosen.where + ", which leaves it out");
  Encoding encoding = tokenizer_->encode_chat(chat.text, chat.data);
  auto generated = tokens_of(chat.generated, chat.text, encoding);
  return {std::move(chat.text), std::move(encoding), std::move(generated)};
}

}  // namespace heed
