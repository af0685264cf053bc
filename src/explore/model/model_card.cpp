// Reads the front matter line by line.
#include "explore/model/model_card.h"

#include <optional>

#include "core/strings.h"
#include "files/input_file.h"
#include "heed/core/utf8.h"
#include "heed/error.h"

namespace heed::explore {
namespace {

constexpr std::size_t kMostExamples = 8, kLongestExample = 500;

std::string_view trimmed(std::string_view text) { return heed::trimmed(text, " \t\r"); }

std::string_view take_line(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
  return line;
}

// A plain scalar of YAML, or one in quotes; nothing for what goes on in the next line.
std::optional<std::string> scalar(std::string_view text) {
  if (text.empty() || text.front() == '|' || text.front() == '>') return std::nullopt;
  const char quote = text.front();
  if (quote != '"' && quote != '\'') return std::string(text);
  std::string value;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (quote == '\'' && text.substr(i).starts_with("''")) {
      value += text[i++];
    } else if (text[i] == quote) {
      return value;
    } else if (quote == '"' && text[i] == '\\' && i + 1 < text.size()) {
      const char next = text[++i];
      value += next == 'n' ? '\n' : next == 't' ? '\t' : next;
    } else {
      value += text[i];
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> examples_in_card(std::string_view card) {
  std::vector<std::string> examples;
  if (trimmed(take_line(card)) != "---") return examples;
  bool in_widget = false;
  while (!card.empty() && examples.size() < kMostExamples) {
    const std::string_view line = take_line(card), text = trimmed(line);
    if (text == "---") break;
    const bool entry = text.starts_with('-') || line.starts_with(' ') || line.starts_with('\t');
    if (!entry && !text.empty()) in_widget = text == "widget:";
    const std::string_view item = text.starts_with('-') ? trimmed(text.substr(1)) : text;
    if (!in_widget || !entry || !item.starts_with("text:")) continue;
    std::optional<std::string> example = scalar(trimmed(item.substr(5)));
    if (example && !example->empty() && example->size() <= kLongestExample && !first_invalid_utf8(*example))
      examples.push_back(std::move(*example));
  }
  return examples;
}

std::vector<std::string> examples_of(const std::filesystem::path& directory) {
  try {
    return examples_in_card(read_regular_file(directory / "README.md", file_limits::kRecipe));
  } catch (const Error&) {  // a model needs no card
    return {};
  }
}

}  // namespace heed::explore
