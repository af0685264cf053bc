#include "cli/input/chat_session.h"

#include <fmt/format.h>

#include <algorithm>

#include "generate/option_fields.h"
#include "heed/error.h"
#include "heed/nn/context.h"

namespace heed::cli {
namespace {

std::string role_of(const Json& message) { return message["role"].get<std::string>(); }

bool begins_with_system(const Json& messages) {
  return !messages.empty() && role_of(messages.front()) == "system";
}

}  // namespace

ChatSession::ChatSession(const LoadedModel& model, GenerationOptions options)
    : opened_(model),
      model_(model.decoder()),
      tokenizer_(model.tokenizer()),
      chat_(model.chat_templates()),
      options_(std::move(options)) {
  options_.num_return_sequences = 1;
  longest_ = model_.trained_positions();
  if (options_.max_length) longest_ = std::min(*options_.max_length, longest_.value_or(*options_.max_length));
  generate::allow_whole_length(model_, options_);
  conversation_["messages"] = Json::array();
}

void ChatSession::say(const std::string& role, const std::string& text) {
  messages().push_back({{"role", role}, {"content", text}});
}

std::unique_ptr<Decoding> ChatSession::take_decoding(const std::vector<std::int64_t>& prompt) {
  std::unique_ptr<Decoding> decoding = std::move(decoding_);
  if (decoding == nullptr) return model_.decode(1);
  const auto common = std::mismatch(read_.begin(), read_.end(), prompt.begin(), prompt.end()).first;
  // The last token is read again: the first token of the answer comes of it.
  const std::int64_t kept =
      std::min({common - read_.begin(), std::ssize(prompt) - 1, std::ptrdiff_t{decoding->length()}});
  if (decoding->length() == kept) return decoding;
  // Where frequencies follow the length of the text, what was read of a longer one is not that of a shorter.
  if (!model_.rows_are_independent()) return model_.decode(1);
  try {
    decoding->truncate(kept);
  } catch (const Error&) {  // a recurrent model cannot forget
    return model_.decode(1);
  }
  return decoding;
}

ChatAnswer ChatSession::answer(const std::function<bool(const std::string&)>& on_text,
                               const std::atomic<bool>* stop) {
  opened_.require_unchanged_files();
  const std::vector<std::vector<std::int64_t>> prompts{chat_.prompt(json()).encoding.ids};
  const std::vector<std::int64_t>& prompt = prompts.front();
  if (longest_ && std::ssize(prompt) >= *longest_)
    throw Error(fmt::format(
        "expected a conversation of fewer than {} tokens, got {} (take messages back, or begin anew)",
        *longest_, prompt.size()));
  std::unique_ptr<Decoding> decoding = take_decoding(prompt);  // lost if the search fails
  ChatAnswer answer;
  answer.ids = prompt;
  answer.prompt_length = prompt.size();
  answer.read = std::ssize(prompt) - decoding->length();
  StreamingDecoder decoder(tokenizer_);
  decoder.begin_after(prompt);
  const auto ends = [&](std::int64_t id) {
    return std::find(options_.eos_token_id.begin(), options_.eos_token_id.end(), id) !=
           options_.eos_token_id.end();
  };
  const auto show = [&](const std::string& part) {
    answer.text += part;
    return on_text(part);
  };
  SearchHooks hooks{.sample_ids = {answers_}, .longest = longest_};
  hooks.on_token = [&](std::size_t, std::size_t, std::int64_t id) {
    return ends(id) || show(decoder.push(id));
  };
  Context context;
  context.cache_dtype = options_.cache_dtype;
  context.cache_length = longest_.value_or(0);
  context.stop = stop;
  if (answer.read > 1) {  // all but the last token, which the search reads; it is stopped by on_token alone
    const std::vector<std::int64_t> fresh(prompt.end() - answer.read, prompt.end() - 1);
    decoding->step(Tensor::from(fresh, {1, answer.read - 1}), context);
  }
  context.stop = nullptr;
  const bool beams = options_.num_beams > 1;
  if (beams) hooks.on_token = {};
  const Hypothesis found = search(*decoding, prompts, options_, hooks, context).front().front();
  answer.ids.insert(answer.ids.end(), found.ids.begin(), found.ids.end());
  answer.finish_reason = found.finish_reason;
  for (const std::int64_t id : beams ? found.ids : std::vector<std::int64_t>()) {
    if (!ends(id)) show(decoder.push(id));
  }
  show(decoder.finish());
  if (!beams) decoding_ = std::move(decoding);  // beams have other rows
  read_ = answer.ids;
  ++answers_;
  const bool continues = last_role() == "assistant" && messages().back()["content"].is_string();
  if (!continues) say("assistant", "");
  Json& content = messages().back()["content"];
  content = content.get<std::string>() + answer.text;
  return answer;
}

std::optional<std::string> ChatSession::undo() {
  const Json& all = messages();
  for (std::size_t i = all.size(); i-- > 0;) {
    if (role_of(all[i]) == "assistant" || role_of(all[i]) == "system") continue;
    const Json content = all[i].value("content", Json());
    messages().get_ref<Json::array_t&>().resize(i);
    return content.is_string() ? content.get<std::string>() : json_text(content);
  }
  return std::nullopt;
}

bool ChatSession::undo_answer() {
  if (last_role() != "assistant") return false;
  messages().erase(messages().size() - 1);
  return true;
}

void ChatSession::set_system(const std::optional<std::string>& text) {
  Json& all = messages();
  if (begins_with_system(all)) all.erase(0);
  if (text) all.insert(all.begin(), Json{{"role", "system"}, {"content", *text}});
}

void ChatSession::clear() {
  messages().get_ref<Json::array_t&>().resize(begins_with_system(messages()) ? 1 : 0);
}

std::string ChatSession::json(int indent) const { return json_text(conversation_, indent); }

void ChatSession::load(const std::string& json, const std::string& where) {
  chat_.encode(json, where);
  Json given = parse_json(json, where);
  if (given.is_array()) given = Json::object({{"messages", std::move(given)}});
  for (const char* ending : {"add_generation_prompt", "continue_final_message"}) given.erase(ending);
  conversation_ = std::move(given);
}

std::string ChatSession::last_role() const {
  return messages().empty() ? std::string() : role_of(messages().back());
}

}  // namespace heed::cli
