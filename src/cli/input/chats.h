// Conversations on the command line: the files of --messages, and texts as messages.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/cli.h"

namespace heed::cli {

/// --messages, --chat and --system.
struct ChatArguments {
  std::filesystem::path messages;
  bool chat = false;
  std::optional<std::string> system;

  /// Adds --messages alone.
  CLI::Option* add_messages_to(CLI::App& command);
  void add_to(CLI::App& command);
  /// Whether texts are messages.
  bool of_texts() const { return chat || system.has_value(); }
  bool any() const { return of_texts() || !messages.empty(); }
};

/// A conversation as JSON, and where it is from, for messages.
struct GivenChat {
  std::string json, where;
};

/// How long an answer may be without an option: `longest` of GenerationArguments::add_to.
inline constexpr const char* kLongestAnswer =
    "up to the length of texts that the model was trained on, or 512";

/// Reads a file of conversations, `-` for stdin: JSON, a list of messages or an object with messages; or one
/// of these a line. Throws Error if it has none, or does not exist: OPTION names it.
std::vector<GivenChat> read_chats(const std::filesystem::path& file, const char* option);

/// The conversation of one user's message, after that of the system if there is one, as JSON.
std::string chat_of(const std::string& text, const std::optional<std::string>& system);

}  // namespace heed::cli
