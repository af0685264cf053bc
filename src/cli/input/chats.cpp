#include "cli/input/chats.h"

#include <fmt/format.h>

#include <string_view>

#include "cli/input/input.h"
#include "cli/options/option_group.h"
#include "core/json.h"
#include "files/input_file.h"
#include "heed/files/file.h"
#include "heed/io/json.h"

namespace heed::cli {
namespace {

constexpr std::string_view kSpaces = " \t\r\n";

// The next line of the text that is not blank, which it loses; empty at the end.
std::string_view next_line(std::string_view& text, std::size_t& number) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.find_first_not_of(kSpaces) != line.npos) return line;
  }
  return {};
}

bool is_json(std::string_view line) {
  try {
    parse_json(line, "line");
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

CLI::Option* ChatArguments::add_messages_to(CLI::App& command) {
  return command
      .add_option("--messages", messages,
                  "Conversations in place of texts, - for stdin: JSON, a list of messages or an object with "
                  "messages, tools, ...; or one of these a line")
      ->type_name("FILE")
      ->group("Input");
}

void ChatArguments::add_to(CLI::App& command) {
  CLI::Option* file = add_messages_to(command);
  OptionGroup input(command, "Input");
  input.flag("--chat", chat, "Each text is a user's message, put into the form of the model's chat template")
      ->excludes(file);
  input.value("--system", system, "TEXT", "System prompt before each message; implies --chat")
      ->excludes(file);
}

std::vector<GivenChat> read_chats(const std::filesystem::path& file, const char* option) {
  const std::filesystem::path path = file_arguments({file.string()}).front();
  require_file(option, path);
  const std::string text = read_file(path);
  std::string_view rest = text;
  std::size_t number = 0;
  std::string_view line = next_line(rest, number);
  const bool several = is_json(line) && rest.find_first_not_of(kSpaces) != rest.npos;
  std::vector<GivenChat> chats;
  if (!several && !line.empty()) return {{text, shown_name(path)}};
  for (; !line.empty(); line = next_line(rest, number))
    chats.push_back({std::string(line), fmt::format("{}:{}", shown_name(path), number)});
  if (chats.empty()) throw Error(shown_name(path) + ": expected at least one conversation, got none");
  return chats;
}

std::string chat_of(const std::string& text, const std::optional<std::string>& system) {
  JsonWriter json;
  json.begin_array();
  const auto add = [&](const char* role, const std::string& content) {
    json.begin_object().field("role", role).field("content", content).end_object();
  };
  if (system) add("system", *system);
  add("user", text);
  return json.end_array().text();
}

}  // namespace heed::cli
