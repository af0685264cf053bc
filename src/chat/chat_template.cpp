// From variables, JSON or of the caller, to values, and from the text to the rendered chat.
#include "heed/chat/chat_template.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "chat/conversation.h"
#include "chat/rendered_prefixes.h"
#include "chat/renderer.h"
#include "chat/syntax.h"
#include "core/json.h"
#include "heed/error.h"

namespace heed {
namespace {

using chat::Budget;
using chat::Dict;
using chat::MarkedText;
using chat::Value;
using chat::Values;

/// Makes values of JSON.
class Variables {
 public:
  Variables(Budget& budget, bool from_user, const std::string& where)
      : budget_(budget), from_user_(from_user), where_(where) {}

  Value value(const Json& json) const {
    if (json.is_null()) return {};
    if (json.is_boolean()) return Value::boolean(json.get<bool>());
    if (json.is_number_unsigned() && json.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
      throw Error(where_ + ": expected integers of 64 bits, got " + json_text(json));
    if (json.is_number_integer()) return Value::integer(json.get<std::int64_t>());
    if (json.is_number()) return Value::real(json.get<double>());
    if (json.is_string()) return text(json.get_ref<const std::string&>());
    if (json.is_array()) {
      Values values;
      for (const Json& element : json) values.push_back(value(element));
      return Value::list(std::move(values), &budget_);
    }
    Dict entries;
    for (const auto& [key, member] : json.items()) entries.set(text(key), value(member));
    return Value::dict(std::move(entries), &budget_);
  }

  /// The same of messages, whose roles are not marked if they are usual ones.
  Value messages(const Json& json) const {
    if (!json.is_array()) return value(json);
    Values values;
    for (const Json& message : json) {
      const auto role = message.is_object() ? message.find("role") : message.end();
      if (role == message.end() || !role->is_string() ||
          !chat::is_usual_role(role->get_ref<const std::string&>())) {
        values.push_back(value(message));
        continue;
      }
      Dict entries;
      for (const auto& [key, member] : message.items())
        entries.set(text(key),
                    key == "role" ? Value::text(member.get<std::string>(), &budget_) : value(member));
      values.push_back(Value::dict(std::move(entries), &budget_));
    }
    return Value::list(std::move(values), &budget_);
  }

 private:
  Value text(const std::string& bytes) const {
    MarkedText marked(bytes);
    if (from_user_) marked.mark(chat::Mark::data);
    return Value::text(std::move(marked), &budget_);
  }

  Budget& budget_;
  bool from_user_;
  const std::string& where_;
};

void set_variables(chat::Renderer& renderer, const std::string& name, const Json& variables,
                   const Json& constants) {
  const std::string where = name + ": variables", constants_where = name + ": constants";
  if (!variables.is_object()) throw Error(where + ": expected an object, got " + json_shown(variables));
  if (!constants.is_object())
    throw Error(constants_where + ": expected an object, got " + json_shown(constants));
  try {
    const Variables from_user(renderer.budget(), true, where);
    const Variables trusted(renderer.budget(), false, constants_where);
    for (const auto& member : constants.items()) renderer.set(member.key(), trusted.value(member.value()));
    for (const auto& member : variables.items()) {
      const bool messages = member.key() == "messages";
      renderer.set(member.key(),
                   messages ? from_user.messages(member.value()) : from_user.value(member.value()));
    }
  } catch (const chat::TemplateError& error) {
    throw Error(where + ": " + error.what());
  }
}

RenderedChat rendered(const MarkedText& text) {
  return {text.bytes(), text.spans(chat::Mark::data), text.spans(chat::Mark::generated)};
}

}  // namespace

ChatTemplate::ChatTemplate(std::shared_ptr<const chat::ParsedTemplate> parsed) : parsed_(std::move(parsed)) {}

ChatTemplate ChatTemplate::parse(std::string_view text, std::string name) {
  auto parsed = std::make_shared<chat::ParsedTemplate>();
  parsed->name = std::move(name);
  parsed->body = chat::parse_template(text, parsed->name);
  return ChatTemplate(std::move(parsed));
}

RenderedChat ChatTemplate::render(std::string_view variables, const RenderOptions& options) const {
  return chat::render(*parsed_, parse_json(variables, parsed_->name + ": variables"),
                      parse_json(options.constants, parsed_->name + ": constants"), options);
}

RenderedChat chat::render(const ParsedTemplate& parsed, const Json& variables, const Json& constants,
                          const RenderOptions& options) {
  Renderer renderer(parsed.name, options.limits, options.now.value_or(std::time(nullptr)));
  set_variables(renderer, parsed.name, variables, constants);
  return rendered(renderer.run(parsed.body));
}

chat::RenderedPrefixes chat::render_prefixes(const ParsedTemplate& parsed, const Json& variables,
                                             const Json& constants, const RenderOptions& options,
                                             const std::vector<std::size_t>& counts) {
  Renderer renderer(parsed.name, options.limits, options.now.value_or(std::time(nullptr)));
  set_variables(renderer, parsed.name, variables, constants);
  return renderer.run_prefixes(parsed.body, counts);
}

}  // namespace heed
