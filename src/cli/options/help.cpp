// Help texts. CLI11's own help lists a command's options without those of its parent commands, shows the
// values of flags, and does not break long lines.
#include "cli/options/help.h"

#include <algorithm>
#include <sstream>

#include "cli/terminal/terminal.h"
#include "core/strings.h"

namespace heed::cli {
namespace {

constexpr std::size_t kCommandColumn = 14;
constexpr const char* kNoGroup = "Subcommands";  // CLI11's, of a command without a group

std::size_t help_width() { return static_cast<std::size_t>(std::clamp(terminal_width(100), 40, 110)); }
// Where texts begin beside their labels; below them where there is no room.
std::size_t text_column() { return help_width() < 60 ? 8 : 32; }

// Returns the words of a text in lines that fit when they begin in this column, where the first one begins.
std::string in_lines(const std::string& text, std::size_t column) {
  std::string out, line;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!line.empty() && column + line.size() + 1 + word.size() > help_width()) {
      out += line + "\n" + std::string(column, ' ');
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return out + line + "\n";
}

// A line of its own, whole where it fits.
std::string line_of(const std::string& text) {
  return text.size() <= help_width() ? text + "\n" : in_lines(text, 0);
}

// Returns a label and its text in two columns, with lines that fit.
std::string row(const std::string& label, const std::string& text, std::size_t column = text_column()) {
  std::string out = "  " + label;
  if (out.size() + 2 > column) {
    out += "\n" + std::string(column, ' ');
  } else {
    out.resize(column, ' ');
  }
  return out + in_lines(text, column);
}

// The paragraphs of a footer, prose in lines that fit; lists and commands are indented, and stay as they are.
std::string paragraphs(const std::string& footer) {
  std::string out;
  for (std::size_t begin = 0; begin < footer.size();) {
    const std::size_t end = std::min(footer.find("\n\n", begin), footer.size());
    const std::string text = footer.substr(begin, end - begin);
    bool prose = true, fits = true;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      prose = prose && !line.starts_with(' ');
      fits = fits && line.size() <= help_width();
    }
    out += "\n" + (prose && !fits ? in_lines(text, 0) : text + "\n");
    begin = end + 2;
  }
  return out;
}

bool is_positional(const CLI::Option& option) { return option.get_positional(); }
bool repeats(const CLI::Option& option) { return option.get_expected_max() > 1; }

std::string option_label(const CLI::Option& option) {
  std::string label = joined(option_names(option));
  if (label.rfind("--", 0) == 0) label = "    " + label;
  return takes_value(option) ? label + " " + option.get_type_name() : label;
}

std::string option_text(const CLI::Option& option) {
  std::string notes;
  const auto note = [&](const std::string& text) { notes += (notes.empty() ? "" : "; ") + text; };
  if (option.get_required() && !is_positional(option)) note("required");
  if (takes_value(option) && repeats(option)) note("repeatable");
  if (takes_value(option) && !option.get_default_str().empty()) note("default: " + option.get_default_str());
  return option.get_description() + (notes.empty() ? "" : " (" + notes + ")");
}

std::string positional_label(const CLI::Option& option) {
  return option.get_name(true, false) + (repeats(option) ? "..." : "");
}

std::string usage(const CLI::App& app, const std::string& name) {
  std::string line = "Usage: " + name;
  const bool has_commands = !app.get_subcommands({}).empty();
  if (has_commands) line += " COMMAND";
  line += " [OPTIONS]";
  for (const CLI::Option* option : positionals(app)) {
    const std::string label = positional_label(*option);
    line += option->get_required() ? " " + label : " [" + label + "]";
  }
  return line_of(line);
}

// The commands below a command, in the groups that main.cpp gives them; others are plain "Commands".
std::string list_of_commands(const CLI::App& app) {
  std::string out, last;
  for (const CLI::App* command : app.get_subcommands({})) {
    const std::string& group = command->get_group();
    if (group.empty()) continue;
    if (group != last) out += "\n" + (group == kNoGroup ? "Commands" : group) + ":\n";
    last = group;
    out += row(command->get_name(), command->get_description(), kCommandColumn);
  }
  return out;
}

}  // namespace

bool takes_value(const CLI::Option& option) { return option.get_expected_max() > 0; }

std::vector<std::string> option_names(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<const CLI::Option*> listed_options(const CLI::App& command) {
  const auto listed = [](const CLI::Option* option) {
    return option->nonpositional() && !option->get_group().empty();
  };
  std::vector<const CLI::Option*> options;
  for (const CLI::App* app = &command; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options(listed)) {
      const bool of_this_only = option == app->get_help_ptr() || option == app->get_version_ptr();
      if (app != &command && of_this_only) continue;
      options.push_back(option);
    }
  }
  return options;
}

std::vector<const CLI::Option*> positionals(const CLI::App& command) {
  return command.get_options([](const CLI::Option* option) { return is_positional(*option); });
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode) const {
  std::string out = line_of(app->get_description()) + "\n" + usage(*app, name);
  const auto arguments = positionals(*app);
  if (!arguments.empty()) out += "\nArguments:\n";
  for (const CLI::Option* option : arguments) {
    out += row(positional_label(*option), option->get_description());
  }
  out += list_of_commands(*app);
  const auto options = listed_options(*app);
  const auto group_of = [&](const CLI::Option* option) {
    return option == app->get_help_ptr() ? std::string(kCommonOptions) : option->get_group();
  };
  std::vector<std::string> groups;
  for (const CLI::Option* option : options) {
    const std::string group = group_of(option);
    if (group != kCommonOptions && std::find(groups.begin(), groups.end(), group) == groups.end())
      groups.push_back(group);
  }
  groups.emplace_back(kCommonOptions);
  for (const std::string& group : groups) {
    out += "\n" + group + ":\n";
    for (const CLI::Option* option : options) {
      if (group_of(option) == group) out += row(option_label(*option), option_text(*option));
    }
  }
  return out + paragraphs(app->get_footer());
}

}  // namespace heed::cli
