// Which calls of functions an answer may have, and how the model is made to write one.
#include <algorithm>
#include <optional>

#include "core/strings.h"
#include "serve/generation/text_request.h"

namespace heed::serve {
namespace {

using server::RequestObject;
using Syntax = ToolCallMarks::Syntax;

constexpr const char* kChoices = "auto, none, required, the name of a function, or allowed_tools";

// Functions that templates can show and grammars can call.
void check_tools(const Json& tools) {
  constexpr std::size_t kLongestName = 64;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const std::string path = "tools." + std::to_string(i);
    if (!tools[i].is_object())
      throw ApiError(ErrorCode::invalid,
                     "request: " + path + ": expected an object, got " + json_shown(tools[i]), path);
    const RequestObject tool(tools[i], path);
    const auto function = tool.members("function");
    if (!function) tool.fail("function", "an object with a name");
    const std::string name = function->string("name").value_or("");
    const bool known = std::all_of(
        name.begin(), name.end(), [](char c) { return is_ascii_letter_or_digit(c) || c == '_' || c == '-'; });
    if (!known || name.empty() || name.size() > kLongestName)
      function->fail("name", "1 to 64 letters, digits, _ and -");
  }
}

// Of what names a function as OpenAI does; else nothing.
std::string name_of(const Json& tool) {
  const Json function = tool.is_object() ? tool.value("function", Json()) : Json();
  const Json name = function.is_object() ? function.value("name", Json()) : Json();
  return name.is_string() ? name.get<std::string>() : std::string();
}

struct Choice {
  std::string how = "auto";  // none, required
  Json tools = Json::array();
};

// `tool_choice`, and those of the tools that it allows.
Choice choice_of(const Fields& fields, const ChatFields& given) {
  Choice choice;
  const Json* said = given.tool_choice;
  if (said != nullptr && said->is_string()) choice.how = said->get<std::string>();
  if (choice.how != "auto" && choice.how != "none" && choice.how != "required")
    fields.fail("tool_choice", kChoices);
  if (given.tools != nullptr) choice.tools = *given.tools;
  check_tools(choice.tools);
  const auto allow = [&](const Json& allowed) {
    Json kept = Json::array();
    for (const Json& tool : choice.tools) {
      const bool named = std::any_of(allowed.begin(), allowed.end(),
                                     [&](const Json& one) { return name_of(one) == name_of(tool); });
      if (named) kept.push_back(tool);
    }
    if (kept.size() < allowed.size() || kept.empty())
      fields.fail("tool_choice", "names of the functions in tools");
    choice.tools = std::move(kept);
  };
  if (said != nullptr && !name_of(*said).empty()) {
    choice.how = "required";
    allow(Json::array({*said}));
  } else if (said != nullptr && !said->is_string()) {
    const auto allowed =
        said->is_object() ? RequestObject(*said, "tool_choice").members("allowed_tools") : std::nullopt;
    const Json* tools = allowed ? allowed->find("tools") : nullptr;
    if (tools == nullptr || !tools->is_array()) fields.fail("tool_choice", kChoices);
    choice.how = allowed->string("mode").value_or("auto");
    if (choice.how != "auto" && choice.how != "required") fields.fail("tool_choice", kChoices);
    allow(*tools);
  }
  if (choice.how == "required" && choice.tools.empty())
    fields.fail("tool_choice", "auto or none, as there are no tools");
  return choice;
}

// The marks with tokens in the place of texts; nothing if the model lacks one.
std::optional<ToolCallMarks> with_tokens(const Tokenizer& tokenizer, std::initializer_list<const char*> texts,
                                         ToolCallMarks marks) {
  for (const char* text : texts) {
    const auto id = tokenizer.token_to_id(text);
    if (!id) return std::nullopt;
    marks.tokens.emplace_back(text, *id);
  }
  return marks;
}

// Of the form of the template; nothing if it has none that this model can write.
std::optional<ToolCallMarks> marks_of(const ModelChat& chat, const Tokenizer& tokenizer,
                                      ToolCallFormat format) {
  const auto list = [](const std::string& mark) {
    return ToolCallMarks{
        .begin = "", .end = "", .list_begin = mark + "[", .list_end = "]", .separator = ", "};
  };
  ToolCallMarks marks;
  switch (format) {
    case ToolCallFormat::hermes:
      if (!chat.writes("<tool_call>[")) return marks;
      marks = list("<tool_call>");
      marks.list_end = "]</tool_call>";
      return marks;
    case ToolCallFormat::qwen_coder: marks.syntax = Syntax::tags; return marks;
    case ToolCallFormat::mistral:
      if (!chat.writes("[ARGS]")) return with_tokens(tokenizer, {"[TOOL_CALLS]"}, list("[TOOL_CALLS]"));
      marks = {
          .begin = "[TOOL_CALLS]", .end = "", .syntax = Syntax::named, .separator = "", .name_end = "[ARGS]"};
      if (!chat.writes("[CALL_ID]")) return with_tokens(tokenizer, {"[TOOL_CALLS]", "[ARGS]"}, marks);
      marks.id_begin = "[CALL_ID]";
      return with_tokens(tokenizer, {"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"}, marks);
    case ToolCallFormat::granite: return with_tokens(tokenizer, {"<|tool_call|>"}, list("<|tool_call|>"));
    case ToolCallFormat::deepseek:
      marks = {.begin = "<｜tool▁call▁begin｜>",
               .end = "<｜tool▁call▁end｜>",
               .syntax = Syntax::named,
               .list_begin = "<｜tool▁calls▁begin｜>",
               .list_end = "<｜tool▁calls▁end｜>",
               .separator = "",
               .name_end = "<｜tool▁sep｜>"};
      if (chat.writes("```json")) {
        marks.begin += "function<｜tool▁sep｜>";
        marks.name_end = "\n```json\n";
        marks.end = "\n```" + marks.end;
        marks.separator = "\n";
      }
      return with_tokens(tokenizer,
                         {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>",
                          "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"},
                         marks);
    case ToolCallFormat::pythonic: {
      const bool marked = !chat.writes("tool_code") && chat.writes("<|tool_call_start|>");
      marks = list(marked ? "<|tool_call_start|>" : "");
      marks.syntax = Syntax::python;
      if (marked) return with_tokens(tokenizer, {"<|tool_call_start|>"}, marks);
      if (chat.writes("tool_code")) {
        marks.list_begin = "```tool_code\n";
        marks.list_end = "\n```";
        marks.separator = "\n";
      }
      return marks;
    }
    default: return std::nullopt;
  }
}

}  // namespace

void read_tools(const RequestContext& context, const ChatFields& given, TextRequest& request) {
  const ServedModel& model = context.model;
  const Choice choice = choice_of(context.fields, given);
  if (choice.how == "none" || choice.tools.empty()) return;
  if (request.grammar && choice.how == "auto") return;  // the answer is what the grammar says, and no call
  if (request.grammar)
    context.fields.fail("tool_choice",
                        "auto or none with " + request.grammar->where() + ", which says what the answer is");
  const ModelChat& chat = model.opened.chat_templates();
  request.calls = chat.tool_calls();
  request.tools = json_text(choice.tools);
  request.one_call = given.parallel_tool_calls == false;
  if (choice.how == "auto") return;
  auto own = marks_of(chat, model.tokenizer(), request.calls);
  if (!own) {  // plain JSON, which every model can be made to write
    request.calls = ToolCallFormat::llama;
    own = {.begin = "", .end = "", .arguments_key = "parameters", .separator = "; "};
  }
  own->several = given.parallel_tool_calls.value_or(false);
  try {
    request.grammar = Grammar::tool_calls(request.tools, *own, {}, "tools", given.unsupported());
  } catch (const Error& error) {
    throw ApiError(ErrorCode::invalid, std::string("request: ") + error.what(), "tools");
  }
}

}  // namespace heed::serve
