// Chooses the template of a conversation, shows it the messages as it reads them, and finds what is learned.
#include "heed/chat/model_chat.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "chat/conversation.h"
#include "chat/generic_tools.h"
#include "chat/rendered_prefixes.h"
#include "chat/renderer.h"
#include "core/json.h"
#include "core/strings.h"
#include "heed/error.h"
#include "heed/files/model_files.h"
#include "heed/text/tokenizer.h"
#include "heed/text/unicode.h"
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
  bool reads_system;  // messages of the system
  ToolCallFormat calls;
  std::string text;
};

}  // namespace chat

namespace {

using chat::ModelTemplate;

constexpr std::string_view kToolUse = "tool_use";
constexpr std::size_t kLongestText = std::size_t{8} << 20;
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

EncodedChat encoded(RenderedChat chat, const Tokenizer& tokenizer) {
  Encoding encoding = tokenizer.encode_chat(chat.text, chat.data);
  auto generated = tokens_of(chat.generated, chat.text, encoding);
  return {std::move(chat.text), std::move(encoding), std::move(generated), {}};
}

/// Throws Error for a text that has more tokens whatever they are.
void check_length(const std::string& where, const std::string& text, std::int64_t most_tokens,
                  const Tokenizer& tokenizer) {
  if (std::ssize(text) <= most_tokens) return;
  std::size_t longest = 1;
  for (std::int64_t id = 0; id < tokenizer.vocab_size(); ++id)
    longest = std::max(longest, tokenizer.token(id).size());
  if (text.size() / longest <= static_cast<std::size_t>(most_tokens)) return;
  throw Error(where + ": expected a conversation of at most " + std::to_string(most_tokens) +
              " tokens, got a text of " + std::to_string(text.size()) +
              " bytes, which are more (make it shorter, or begin anew)");
}

/// The byte from which two texts differ, or what of them is data.
std::size_t first_difference(const RenderedChat& a, const RenderedChat& b) {
  const auto at = std::mismatch(a.text.begin(), a.text.end(), b.text.begin(), b.text.end()).first;
  const auto [x, y] = std::mismatch(a.data.begin(), a.data.end(), b.data.begin(), b.data.end());
  auto first = static_cast<std::size_t>(at - a.text.begin());
  if (x != a.data.end()) first = std::min(first, x->begin);
  if (y != b.data.end()) first = std::min(first, y->begin);
  return first;
}

/// Finds the answers of a whole conversation among its tokens, one after the other. An answer is tokenized
/// from the last special token before it, at which tokenizers begin anew, so that the work grows with the
/// text alone.
class AnswerTokens {
 public:
  AnswerTokens(const RenderedChat& whole, const Encoding& encoding, const Tokenizer& tokenizer)
      : whole_(whole), encoding_(encoding), tokenizer_(tokenizer), characters_(whole.text) {}

  /// The tokens that the conversation with the answer has more than the prompt before it; nullopt if the
  /// whole one does not begin with these tokens.
  std::optional<std::pair<std::int64_t, std::int64_t>> of(const RenderedChat& prompt,
                                                          const RenderedChat& answered) {
    advance(std::min(first_difference(whole_, prompt), first_difference(whole_, answered)));
    auto found = of(prompt, answered, start_);
    if (!found && start_.token > 0) found = of(prompt, answered, {});
    return found;
  }

 private:
  struct Start {
    std::size_t token = 0, byte = 0;
  };

  /// Begins at the last special token that ends before the byte.
  void advance(std::size_t byte) {
    const std::int64_t most = characters_[byte];
    if (most < start_end_) start_ = {};
    for (; next_ < encoding_.ids.size() && encoding_.offsets[next_].second <= most; ++next_) {
      const auto [begin, end] = encoding_.offsets[next_];
      if (begin == end || !tokenizer_.is_special(encoding_.ids[next_])) continue;
      while (characters_[byte_] < begin) ++byte_;
      start_ = {next_, byte_};
      start_end_ = end;
    }
  }

  std::optional<std::pair<std::int64_t, std::int64_t>> of(const RenderedChat& prompt,
                                                          const RenderedChat& answered,
                                                          const Start& start) const {
    const std::vector<std::int64_t> before = ids_from(start, prompt), ids = ids_from(start, answered);
    const auto first = encoding_.ids.begin() + static_cast<std::ptrdiff_t>(start.token);
    if (std::ssize(ids) > encoding_.ids.end() - first || !std::equal(ids.begin(), ids.end(), first))
      return std::nullopt;
    const auto begin = std::mismatch(before.begin(), before.end(), ids.begin(), ids.end()).second;
    const auto token = static_cast<std::int64_t>(start.token);
    const std::int64_t first_token = token + (begin - ids.begin());
    return std::pair(first_token, end_of_answer(first_token, token + std::ssize(ids)));
  }

  /// Behind the last special token of tokens begin .. end - 1 if only whitespace follows it: a model that
  /// generates stops there.
  std::int64_t end_of_answer(std::int64_t begin, std::int64_t end) const {
    for (std::int64_t last = end; last > begin; --last) {
      const std::int64_t id = encoding_.ids[static_cast<std::size_t>(last - 1)];
      if (tokenizer_.is_special(id)) return last;
      if (tokenizer_.decode(std::span(&id, 1), false).find_first_not_of(" \t\r\n") != std::string::npos)
        return end;
    }
    return end;
  }

  std::vector<std::int64_t> ids_from(const Start& start, const RenderedChat& chat) const {
    std::vector<TextSpan> data;
    for (const TextSpan& span : chat.data) {
      if (span.end > start.byte)
        data.push_back({std::max(span.begin, start.byte) - start.byte, span.end - start.byte});
    }
    return tokenizer_.encode_chat(std::string_view(chat.text).substr(start.byte), data).ids;
  }

  const RenderedChat& whole_;
  const Encoding& encoding_;
  const Tokenizer& tokenizer_;
  const CharacterOffsets characters_;
  Start start_;
  std::int64_t start_end_ = 0;       // characters
  std::size_t next_ = 0, byte_ = 0;  // what advance() has come to
};

/// An answer of the assistant: the number of its message, and the weight of its loss; 0: it is not learned.
struct Answer {
  std::size_t message;
  double weight;
};

/// All answers. Messages may say whether they are learned: `train`, or `weight`.
std::vector<Answer> answers_in(const Json& messages, const std::string& where) {
  std::vector<Answer> answers;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (messages[i]["role"] != "assistant") continue;
    const JsonField message(messages[i], where, "messages." + std::to_string(i));
    const auto weight = message.find("weight");
    if (weight && weight->number() < 0) weight->fail("a number of at least 0");
    answers.push_back({i, message.boolean("train", true) ? (weight ? weight->number() : 1) : 0});
  }
  return answers;
}

/// Without weights, all are 1.
void drop_equal_weights(EncodedChat& chat) {
  if (std::all_of(chat.weights.begin(), chat.weights.end(), [](double weight) { return weight == 1; }))
    chat.weights.clear();
}

/// Removes the answers that are not learned from those that a template marks, and weighs the others.
void keep_learned(const std::vector<Answer>& answers, EncodedChat& chat, const std::string& where) {
  if (std::all_of(answers.begin(), answers.end(), [](const Answer& one) { return one.weight == 1; })) return;
  if (answers.size() != chat.generated.size())
    throw Error(where +
                ": messages: expected a chat template that marks each answer once beside train and weight, "
                "got " +
                std::to_string(chat.generated.size()) + " marks for " + std::to_string(answers.size()) +
                " answers");
  std::size_t kept = 0;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].weight == 0) continue;
    chat.generated[kept++] = chat.generated[i];
    chat.weights.push_back(answers[i].weight);
  }
  chat.generated.resize(kept);
  drop_equal_weights(chat);
}

[[noreturn]] void throw_nothing_to_learn(const std::string& where) {
  throw Error(where + ": expected an answer of the assistant to learn, got none");
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

/// Whether a template writes messages of the system.
bool reads_system(const ChatTemplate& chat, const Json& constants) {
  const Json probe = {
      {"messages", {{{"role", "system"}, {"content", "probe"}}, {{"role", "user"}, {"content", "a"}}}},
      {"tools", nullptr},
      {"documents", nullptr},
      {"add_generation_prompt", false}};
  try {
    return chat::render(chat.parsed(), probe, constants, {}).text.find("probe") != std::string::npos;
  } catch (const Error&) {
    return false;
  }
}

/// Gives tools to templates that read them in the message of the system (Phi-4-mini).
void add_system_tools(Json& messages, const Json& tools) {
  Json functions = Json::array();
  for (const Json& tool : tools) functions.push_back(tool.contains("function") ? tool["function"] : tool);
  if (messages.front()["role"] != "system")
    messages.insert(messages.begin(), Json{{"role", "system"}, {"content", ""}});
  messages.front()["tools"] = json_text(functions);
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
  chat::require_known_roles(conversation, chosen.text);
  Json variables = conversation.variables();
  if (const Json& tools = variables["tools"]; tools.is_array() && !tools.empty()) {
    if (!chosen.reads_tools) {
      chat::describe_tools(variables["messages"], tools, chosen.reads_system);
    } else if (chosen.text.find("message['tools']") != std::string::npos) {
      add_system_tools(variables["messages"], tools);
    }
  }
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
    RenderedChat chat = chat::render(chosen.parsed.parsed(), variables, constants, {});
    if (chat.text.size() <= kLongestText) return chat;
    throw Error(chosen.where + ": expected a template that writes at most " + std::to_string(kLongestText) +
                " bytes, got one that writes " + std::to_string(chat.text.size()) +
                " (make the conversation shorter)");
  }
  /// The text of a conversation, in which the last message is to be answered or continued.
  RenderedChat text(const chat::Conversation& conversation, bool starts, bool continues) const;
};

RenderedChat ModelChat::Templates::text(const chat::Conversation& conversation, bool starts,
                                        bool continues) const {
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
  return chat;
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
    const bool lists = reads_lists(parsed, templates->constants),
               system = reads_system(parsed, templates->constants);
    templates->by_name.emplace(
        one.name,
        ModelTemplate{std::move(parsed), one.where, lists, one.text.find("tool_calls") != std::string::npos,
                      one.name == kToolUse || one.text.find("tools") != std::string::npos, system,
                      tool_call_format(one.text), one.text});
  }
  return {std::move(templates), tokenizer};
}

ToolCallFormat ModelChat::tool_calls() const {
  const ModelTemplate& chosen = templates_->with_tools();
  return chosen.reads_tools ? chosen.calls : ToolCallFormat::llama;
}

bool ModelChat::reads_tools() const { return templates_->with_tools().reads_tools; }

bool ModelChat::writes(std::string_view text) const {
  return templates_->with_tools().text.find(text) != std::string::npos;
}

EncodedChat ModelChat::encode(std::string_view conversation, const std::string& where) const {
  return encode(chat::Conversation(parse_json(conversation, where), where));
}

EncodedChat ModelChat::prompt(std::string_view conversation, const std::string& where) const {
  return prompt(chat::Conversation(parse_json(conversation, where), where));
}

std::vector<EncodedChat> ModelChat::encode_answers(std::string_view conversation,
                                                   const std::string& where) const {
  return encode_answers(chat::Conversation(parse_json(conversation, where), where));
}

EncodedChat ModelChat::encode(const chat::Conversation& conversation) const {
  return encoded(templates_->text(conversation, conversation.add_generation_prompt.value_or(false),
                                  conversation.continue_final_message.value_or(false)),
                 *tokenizer_);
}

EncodedChat ModelChat::prompt(const chat::Conversation& conversation) const {
  const bool is_said = conversation.add_generation_prompt || conversation.continue_final_message;
  const bool answered = conversation.ends_with_answer();
  RenderedChat chat =
      templates_->text(conversation, is_said ? conversation.add_generation_prompt.value_or(false) : !answered,
                       is_said ? conversation.continue_final_message.value_or(false) : answered);
  if (most_tokens_) check_length(conversation.where(), chat.text, *most_tokens_, *tokenizer_);
  return encoded(std::move(chat), *tokenizer_);
}

std::vector<EncodedChat> ModelChat::encode_answers(const chat::Conversation& conversation) const {
  const ModelTemplate& chosen = templates_->of(conversation);
  Json variables = shown_variables(conversation, chosen);
  variables["add_generation_prompt"] = false;
  const RenderedChat whole = templates_->render(chosen, variables);
  EncodedChat chat = encoded(whole, *tokenizer_);
  const std::vector<Answer> answers = answers_in(variables["messages"], conversation.where());
  if (!chat.generated.empty()) {
    keep_learned(answers, chat, conversation.where());
    if (chat.generated.empty()) throw_nothing_to_learn(conversation.where());
    return {std::move(chat)};
  }
  std::vector<std::size_t> prompts, answered;  // numbers of messages
  std::vector<double> weights;                 // of the answers to `prompts`
  for (const Answer& answer : answers) {
    if (answer.weight == 0) continue;
    if (answer.message == 0)
      throw Error(conversation.where() + ": messages.0: expected a message to answer, got an answer");
    prompts.push_back(answer.message);
    answered.push_back(answer.message + 1);
    weights.push_back(answer.weight);
  }
  if (prompts.empty()) throw_nothing_to_learn(conversation.where());
  const auto prefixes = [&](bool starts, const std::vector<std::size_t>& counts) {
    variables["add_generation_prompt"] = starts;
    return chat::render_prefixes(chosen.parsed.parsed(), variables, templates_->constants, {}, counts);
  };
  const chat::RenderedPrefixes before = prefixes(true, prompts), after = prefixes(false, answered);
  const Json messages = std::exchange(variables["messages"], Json::array());
  const auto first = [&](std::size_t count, bool starts) {
    if (auto found = (starts ? before : after).find(count)) return *std::move(found);
    variables["add_generation_prompt"] = starts;
    while (variables["messages"].size() < count)
      variables["messages"].push_back(messages[variables["messages"].size()]);
    return templates_->render(chosen, variables);
  };
  std::vector<EncodedChat> parts;
  AnswerTokens tokens_of(whole, chat.encoding, *tokenizer_);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const RenderedChat prompt = first(prompts[i], true);
    const RenderedChat answer = first(answered[i], false);
    if (const auto tokens = tokens_of.of(prompt, answer)) {
      if (tokens->first == tokens->second) continue;
      chat.generated.push_back(*tokens);
      chat.weights.push_back(weights[i]);
      continue;
    }
    // What follows changes how the template writes the answer.
    EncodedChat part = encoded(answer, *tokenizer_);
    const auto tokens = AnswerTokens(answer, part.encoding, *tokenizer_).of(prompt, answer);
    if (!tokens || tokens->first == tokens->second) continue;
    part.generated = {*tokens};
    part.weights = {weights[i]};
    drop_equal_weights(part);
    parts.push_back(std::move(part));
  }
  drop_equal_weights(chat);
  if (!chat.generated.empty()) parts.push_back(std::move(chat));
  if (parts.empty()) throw_nothing_to_learn(conversation.where());
  return parts;
}

}  // namespace heed
