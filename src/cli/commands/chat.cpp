// heed chat: a conversation with a decoder, in the terminal or by lines.
#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <utility>

#include "cli/cli.h"
#include "cli/input/chat_session.h"
#include "cli/input/input.h"
#include "cli/input/lines.h"
#include "cli/input/models.h"
#include "cli/options/generation_arguments.h"
#include "cli/options/option_group.h"
#include "cli/options/task_arguments.h"
#include "cli/results/results.h"
#include "cli/terminal/exit.h"
#include "cli/terminal/line_editor.h"
#include "cli/terminal/terminal.h"
#include "heed/analyses/attend.h"
#include "heed/error.h"
#include "heed/files/file.h"
#include "heed/io/json.h"

namespace heed::cli {
namespace {

struct ChatCommandArguments {
  ModelChoice model;
  WeightArguments weights;
  std::optional<std::string> system;
  ChatArguments chat;
  GenerationArguments generation;
  bool no_history = false;
};

struct Command {
  const char *name, *argument, *help;
};
constexpr std::array<Command, 9> kCommands{
    {{"/help", "", "this list"},
     {"/undo", "", "take back the last message and its answer"},
     {"/retry", "", "answer the last message again"},
     {"/system", "TEXT", "set the system prompt; without TEXT: none"},
     {"/save", "FILE", "write the conversation as JSON"},
     {"/load", "FILE", "go on with a conversation of a file"},
     {"/attend", "FILE.html", "write a page of what the last answer attended to"},
     {"/clear", "", "begin anew; the system prompt stays"},
     {"/quit", "", "end, as Ctrl-D does"}}};

std::string command_list() {
  std::string list;
  for (const Command& one : kCommands)
    list += fmt::format("  {:<18} {}\n", fmt::format("{} {}", one.name, one.argument), one.help);
  return list;
}

std::vector<CompletedWord> completed_commands() {
  std::vector<CompletedWord> words;
  for (const Command& one : kCommands)
    words.push_back({one.name, std::string_view(one.argument).starts_with("FILE")});
  return words;
}

constexpr std::string_view kBlock = "\"\"\"";  // before and after a message of several lines
bool is_block(const std::string& text) {
  return text.size() >= 2 * kBlock.size() && text.starts_with(kBlock) && text.ends_with(kBlock);
}

// The conversation of a terminal.
class Terminal {
 public:
  Terminal(ChatSession& session, const LoadedModel& model, std::string title, LineHistory history,
           bool verbose)
      : session_(session),
        model_(model),
        title_(std::move(title)),
        editor_(completed_commands(), std::move(history)),
        verbose_(verbose) {}

  void run();

 private:
  // What was typed or pasted at once: lines that are no commands are one message. Returns false at the end.
  bool read(std::vector<std::string>& entries);
  // A line, or a block of lines. Returns false at the end.
  bool read_typed(std::string& typed, bool first);
  // Returns false for /quit.
  bool handle(const std::string& entry);
  bool command(const std::string& name, const std::string& argument);
  void answer();
  void retry();
  void undo();
  void load(const std::string& file);
  void attend(const std::string& file);

  std::string dim(const std::string& text) const {
    return color_stdout() ? "\033[2m" + text + "\033[0m" : text;
  }
  // A remark between messages.
  void note(const std::string& text) const {
    WrappedText wrapped(terminal_width(80));
    std::string shown = wrapped.add(safe_for_stdout(text));
    shown += wrapped.finish();
    print_styled(dim(shown) + "\n");
  }

  ChatSession& session_;
  const LoadedModel& model_;
  std::string title_;
  LineEditor editor_;
  bool verbose_;
  std::optional<ChatAnswer> last_ = {};
};

bool Terminal::read_typed(std::string& typed, bool first) {
  const auto prompt = [](const std::string& mark) {
    return color_stdout() ? "\1\033[1m\1" + mark + "\1\033[0m\1 " : mark + " ";
  };
  if (!editor_.read(prompt(first ? ">" : "."), typed)) return false;
  const bool opens = typed.starts_with(kBlock) && typed.find('\n') == typed.npos;
  for (std::string line; opens && !is_block(typed); typed += "\n" + line) {
    if (!editor_.read(prompt("."), line)) return false;
  }
  editor_.remember(typed);
  return true;
}

bool Terminal::read(std::vector<std::string>& entries) {
  entries.clear();
  bool joins = false;
  do {
    std::string text;
    if (!read_typed(text, entries.empty())) return !entries.empty();
    const bool several = text.find('\n') != text.npos;
    const bool command = text.starts_with("/") && !text.starts_with("//") && !several;
    if (is_block(text)) {
      text = text.substr(kBlock.size(), text.size() - 2 * kBlock.size());
      if (text.starts_with('\n')) text.erase(0, 1);
      if (text.ends_with('\n')) text.pop_back();
    } else if (text.starts_with("//") && !several) {
      text.erase(0, 1);
    }
    if (joins && !command) {
      entries.back() += "\n" + text;
    } else {
      entries.push_back(command ? text : " " + text);  // a space tells messages from commands
    }
    joins = !command;
  } while (editor_.has_more());
  return true;
}

void Terminal::run() {
  note(fmt::format("{}{}. /help lists the commands, Ctrl-C stops an answer, Ctrl-D ends.", title_,
                   session_.longest() ? fmt::format(", {} tokens", *session_.longest()) : ""));
  if (!session_.last_role().empty() && session_.last_role() != "assistant" &&
      session_.last_role() != "system")
    answer();
  for (std::vector<std::string> entries;;) {
    try {
      if (!read(entries)) break;
    } catch (const Canceled&) {
      if (stop_signal() != SIGINT) throw;
      forget_stop();
      print_stdout("\n");
      note("Ctrl-D or /quit ends.");
      continue;
    }
    for (const std::string& entry : entries) {
      if (!handle(entry)) return;
    }
  }
  print_stdout("\n");
}

bool Terminal::handle(const std::string& entry) {
  try {
    if (entry.starts_with("/")) {
      const std::size_t end = std::min(entry.find(' '), entry.size());
      return command(entry.substr(0, end), std::string(strip(entry.substr(end))));
    }
    const std::string text = entry.substr(1);
    if (is_blank(text)) return true;
    session_.say("user", text);
    answer();
  } catch (const Canceled&) {
    throw;
  } catch (const Error& error) {
    note(error.what());
  }
  return true;
}

bool Terminal::command(const std::string& name, const std::string& argument) {
  const auto known =
      std::find_if(kCommands.begin(), kCommands.end(), [&](const Command& one) { return one.name == name; });
  if (known == kCommands.end()) {
    note(name + ": no such command (/help lists them; a message that begins with / is written with //)");
  } else if (name == "/quit") {
    return false;
  } else if (name == "/help") {
    print_stdout("{}", command_list());
    note(
        "Lines that are pasted together are one message, and so are lines between \"\"\" and \"\"\"; "
        "Alt-Enter "
        "begins a line. Tab completes commands, and the arrow up brings back what was typed. Ctrl-C stops an "
        "answer; what it has stays.");
  } else if (name == "/undo") {
    undo();
  } else if (name == "/retry") {
    retry();
  } else if (name == "/system") {
    session_.set_system(argument.empty() ? std::nullopt : std::optional(argument));
    note(argument.empty() ? "No system prompt." : "System prompt: " + argument);
  } else if (name == "/clear") {
    session_.clear();
    last_.reset();
    note("A new conversation.");
  } else if (name == "/attend") {
    attend(argument.empty() ? "attention.html" : argument);
  } else if (argument.empty()) {
    note(fmt::format("{}: expected the name of a file, got none", name));
  } else if (name == "/save") {
    if (session_.size() == 0) throw Error("/save: expected a conversation with messages, got none");
    write_file(argument, session_.json(2) + "\n");
    note(fmt::format("wrote {} (heed chat --messages {} goes on with it)", argument, argument));
  } else {
    load(argument);
  }
  return true;
}

void Terminal::answer() {
  WrappedText wrapped(terminal_width(80));
  const auto show = [&](const std::string& text) {
    print_stdout("{}", text);
    flush_results();
  };
  const auto begun = std::chrono::steady_clock::now();
  std::string reason;
  try {
    last_ = session_.answer(
        [&](const std::string& part) {
          if (stop_requested()) return false;
          show(wrapped.add(safe_for_stdout(part)));
          return true;
        },
        &stop_flag());
  } catch (const Canceled&) {
    reason = "stopped before the answer; the message is taken back";
  } catch (const Error& error) {
    reason = std::string(error.what()) + "; the message is taken back";
  }
  if (!reason.empty()) {
    session_.undo();
  } else {
    show((stop_requested() ? "" : wrapped.finish()) + "\n");
  }
  if (stop_requested()) {
    if (stop_signal() != SIGINT) throw Canceled();
    forget_stop();
    if (reason.empty()) reason = "stopped";
  } else if (reason.empty() && last_->finish_reason != FinishReason::stop) {
    const bool full = session_.longest() && std::ssize(last_->ids) >= *session_.longest();
    reason = full ? fmt::format(
                        "The conversation has all of its {} tokens: /undo makes room, /clear begins "
                        "anew.",
                        *session_.longest())
                  : fmt::format("The answer ends after {} tokens (--max-new-tokens).",
                                last_->ids.size() - last_->prompt_length);
  }
  if (!reason.empty()) note(reason);
  if (verbose_ && last_) {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begun;
    note(fmt::format("{} tokens read, {} written in {:.1f} s; {} in all", last_->read,
                     last_->ids.size() - last_->prompt_length, seconds.count(), last_->ids.size()));
  }
  print_stdout("\n");
  flush_results();
}

void Terminal::retry() {
  session_.undo_answer();
  if (session_.last_role() != "user" && session_.last_role() != "tool") {
    note("There is no message to answer.");
    return;
  }
  answer();
}

void Terminal::undo() {
  const auto taken = session_.undo();
  last_.reset();
  note(taken ? "Taken back: " + *taken : "There is nothing to take back.");
}

void Terminal::load(const std::string& file) {
  const std::vector<GivenChat> chats = read_chats(file, "/load");
  if (chats.size() > 1) throw Error(fmt::format("{}: expected one conversation, got {}", file, chats.size()));
  session_.load(chats.front().json, chats.front().where);
  last_.reset();
  note(fmt::format("{} messages.", session_.size()));
}

void Terminal::attend(const std::string& file) {
  if (!last_) throw Error("/attend: there is no answer yet");
  if (!file.ends_with(".html")) throw Error("/attend: expected a file ending in .html, got " + file);
  check_picture_file(file);
  AttendOptions options;
  if (last_->prompt_length > 0) options.queries = fmt::format("{}:", last_->prompt_length);
  const ModelParts parts = parts_of(model_);
  Subject subject = subject_of_ids(parts, last_->ids);
  subject.title = last_->text;
  AttentionPicture picture = heed::attend(parts, std::move(subject), options).picture;
  picture.model.name = title_;
  write_picture(picture, file);
  note(fmt::format("wrote {} (open it in a browser)", std::filesystem::absolute(file).string()));
}

ChatAnswer answer_of(ChatSession& session, const std::string& where) {
  try {
    return session.answer([](const std::string&) { return !stop_requested(); }, &stop_flag());
  } catch (const Error& error) {
    throw Error(where + ": " + error.what());
  }
}

// Without a terminal: a message a line, and an answer a line.
void converse_by_lines(ChatSession& session, const Globals& globals) {
  const std::vector<std::string> none;
  TextWindows windows(none, globals.quiet, 1);
  for (std::vector<std::string> window; windows.next(window);) {
    const std::string where = fmt::format("input line {}", windows.first_line() + 1);
    session.say("user", valid_text(window.front(), where, globals.quiet));
    const ChatAnswer answer = answer_of(session, where);
    if (globals.json) {
      JsonWriter json;
      json.begin_object().field("role", "assistant").field("content", answer.text);
      json.field("finish_reason", std::string(finish_reason_name(answer.finish_reason)));
      json.field("prompt_tokens", answer.prompt_length)
          .field("tokens", answer.ids.size() - answer.prompt_length);
      print_stdout("{}\n", json.end_object().text());
    } else {
      print_stdout("{}\n", escape_newlines(answer.text));
    }
    flush_results();
  }
}

void run(const ChatCommandArguments& a, const Globals& globals) {
  std::vector<GivenChat> chats;
  if (!a.chat.messages.empty()) chats = read_chats(a.chat.messages, "--messages");
  if (chats.size() > 1)
    throw Error(fmt::format("{}: expected one conversation, got {}", a.chat.messages.string(), chats.size()));
  const LoadedModel model = open_model(a.model, globals, a.weights, true);
  const GenerationOptions generation = a.generation.load(model.directory(), globals);
  require_task(model, Task::generate, globals);
  check_tokens(a.generation, generation, model.model().vocab_size(), model.directory(), globals.quiet);
  ChatSession session(model, generation);
  if (!chats.empty()) session.load(chats.front().json, chats.front().where);
  if (a.system) session.set_system(a.system);
  stop_flag();  // from here on, Ctrl-C stops an answer
  if (isatty(STDIN_FILENO) == 0 || !stdout_is_terminal() || globals.json)
    return converse_by_lines(session, globals);
  Terminal(session, model, std::filesystem::path(title_of(a.model)).filename().string(),
           LineHistory(a.no_history ? "" : history_file("chat_history")), globals.verbose)
      .run();
}

}  // namespace

void add_chat(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand(
      "chat", "Talk with a model for chats, in the terminal; elsewhere, a message and an answer a line");
  auto a = std::make_shared<ChatCommandArguments>();
  add_stored_model_argument(*command, a->model)->required();
  add_weight_options(*command, a->weights);
  OptionGroup input(*command, "Input");
  input.value("--system", a->system, "TEXT", "System prompt: a message of the system before all others");
  input.value(
      "--messages", a->chat.messages, "FILE",
      "Go on with this conversation: JSON, a list of messages or an object with messages, tools, ...");
  input.flag("--no-history", a->no_history,
             "Keep nothing of what is typed (else in ~/.local/state/heed/chat_history)");
  a->generation.add_to(*command, kLongestAnswer,
                       {"num_return_sequences", "decoder_start_token_id", "forced_bos_token_id"});
  command->footer("In the terminal:\n" + command_list() + "\n" + kGenerationNote +
                  "Answers are greedy, the likeliest token each time, unless --do-sample or "
                  "generation_config.json says otherwise.\n\n"
                  "Examples:\n"
                  "  heed chat SmolLM2-135M-Instruct\n"
                  "  heed chat SmolLM2-135M-Instruct.gguf --system \"Answer in one sentence.\" --do-sample "
                  "--temperature 0.7\n"
                  "  heed chat SmolLM2-135M-Instruct --json < questions.txt > answers.jsonl");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
