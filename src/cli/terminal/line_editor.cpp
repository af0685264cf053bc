// libedit, with input that polls for signals and for a changed size of the window, and with bracketed paste.
#include "cli/terminal/line_editor.h"

#include <fmt/core.h>
#include <histedit.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <clocale>
#include <cstdlib>
#include <cwchar>
#include <utility>

#include "cli/terminal/exit.h"
#include "cli/terminal/terminal.h"
#include "heed/error.h"
#include "heed/text/unicode.h"

namespace heed::cli {
namespace {

constexpr char kEscapeMark = '\1';  // around what takes no columns of a prompt
constexpr wchar_t kReplacement = 0xFFFD;
constexpr const char* kPasteOn = "\033[?2004h";
constexpr const char* kPasteOff = "\033[?2004l";

std::atomic<bool> continued{false};  // after Ctrl-Z and fg: the shell has changed the terminal's modes
void note_continued(int) { continued = true; }

bool plain_terminal() {
  const char* name = std::getenv("TERM");
  return name == nullptr || *name == '\0' || std::string(name) == "dumb";
}

}  // namespace

struct LineEditor::State {
  State(std::vector<CompletedWord> completed, LineHistory entries)
      : words(std::move(completed)), kept(std::move(entries)) {}

  // The callbacks of libedit.
  static State& of(EditLine* editor);
  static char* show_prompt(EditLine* editor) { return of(editor).prompt.data(); }
  static int next_character(EditLine* editor, wchar_t* character);
  static unsigned char paste(EditLine* editor, int key);
  static unsigned char complete(EditLine* editor, int key);
  static unsigned char add_line_end(EditLine* editor, int key);

  bool follow_size();
  void follow_terminal();

  std::vector<CompletedWord> words;
  LineHistory kept;
  std::string prompt;
  EditLine* editor = nullptr;
  History* history = nullptr;
  std::FILE* nowhere = nullptr;  // for messages of libedit, which are of unknown terminals
  int columns = 0;
  bool pastes = !plain_terminal();
  bool canceled = false;
};

LineEditor::State& LineEditor::State::of(EditLine* editor) {
  void* data = nullptr;
  el_get(editor, EL_CLIENTDATA, &data);
  return *static_cast<State*>(data);
}

// The window may have another size. Returns true if so.
bool LineEditor::State::follow_size() {
  const int before = std::exchange(columns, terminal_width(columns));
  if (columns == before) return false;
  el_resize(editor);
  return true;
}

// What else happened while no key was pressed.
void LineEditor::State::follow_terminal() {
  const bool resumes = continued.exchange(false);
  if (resumes) {
    for (const int edits : {0, 1}) el_set(editor, EL_PREP_TERM, edits);
    if (pastes) fmt::print("{}", kPasteOn);
  }
  if (!follow_size() && !resumes) return;
  fmt::print("\r\033[J");  // what is left of the line
  el_set(editor, EL_REFRESH);
  std::fflush(stdout);
}

int LineEditor::State::next_character(EditLine* editor, wchar_t* character) {
  State& state = of(editor);
  constexpr int kLookAgainMs = 100;
  std::mbstate_t sequence{};
  for (;;) {
    pollfd descriptor{STDIN_FILENO, POLLIN, 0};
    while (poll(&descriptor, 1, kLookAgainMs) <= 0) {
      state.canceled = stop_requested();
      if (state.canceled) return -1;
      state.follow_terminal();
    }
    char byte = 0;
    const ssize_t count = ::read(STDIN_FILENO, &byte, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return static_cast<int>(count);
    const std::size_t used = std::mbrtowc(character, &byte, 1, &sequence);
    if (used == static_cast<std::size_t>(-2)) continue;  // more bytes follow
    if (used == static_cast<std::size_t>(-1)) *character = kReplacement;
    return 1;
  }
}

// After the sequence by which a terminal begins a paste.
unsigned char LineEditor::State::paste(EditLine* editor, int) {
  const std::wstring end = L"\033[201~";
  std::wstring text;
  for (wchar_t next = 0; !text.ends_with(end);) {
    if (el_wgetc(editor, &next) != 1) return CC_EOF;
    if (next == L'\n' && text.ends_with(L'\r')) text.pop_back();
    text += next;
  }
  text.resize(text.size() - end.size());
  std::replace(text.begin(), text.end(), L'\r', L'\n');
  std::erase_if(text, [](wchar_t c) { return (c < 0x20 && c != L'\n' && c != L'\t') || c == 0x7F; });
  while (text.ends_with(L'\n')) text.pop_back();
  return text.empty() || el_winsertstr(editor, text.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
}

unsigned char LineEditor::State::add_line_end(EditLine* editor, int) {
  return el_winsertstr(editor, L"\n") == 0 ? CC_REFRESH : CC_ERROR;
}

unsigned char LineEditor::State::complete(EditLine* editor, int key) {
  const State& state = of(editor);
  const LineInfo* line = el_line(editor);
  const std::string typed(line->buffer, line->cursor);
  const std::size_t space = typed.find(' ');
  std::vector<std::string> found;
  for (const CompletedWord& word : state.words) {
    if (space != typed.npos && word.text == typed.substr(0, space) && word.takes_file)
      return _el_fn_complete(editor, key);
    if (!typed.empty() && word.text.starts_with(typed)) found.push_back(word.text);
  }
  if (found.empty()) return CC_REFRESH_BEEP;
  std::string common = found.front();
  for (const std::string& word : found)
    common.resize(static_cast<std::size_t>(
        std::mismatch(common.begin(), common.end(), word.begin(), word.end()).first - common.begin()));
  if (found.size() == 1) common += ' ';
  if (common.size() > typed.size()) {
    return el_insertstr(editor, common.c_str() + typed.size()) == 0 ? CC_REFRESH : CC_ERROR;
  }
  fmt::print("\n");
  for (const std::string& word : found) fmt::print("{}  ", word);
  fmt::print("\n");
  return CC_REDISPLAY;
}

LineEditor::LineEditor(std::vector<CompletedWord> words, LineHistory history)
    : state_(std::make_unique<State>(std::move(words), std::move(history))) {
  // All text is UTF-8, whatever the environment says.
  if (std::setlocale(LC_CTYPE, "C.UTF-8") == nullptr) std::setlocale(LC_CTYPE, "");
  State& state = *state_;
  state.nowhere = std::fopen("/dev/null", "w");
  state.history = history_init();
  state.editor = el_init("heed", stdin, stdout, state.nowhere == nullptr ? stderr : state.nowhere);
  if (state.editor == nullptr || state.history == nullptr)
    throw Error("heed chat: the terminal cannot be prepared (with < FILE, no terminal is needed)");
  EditLine* const editor = state.editor;
  state.columns = terminal_width(0);

  HistEvent event;
  ::history(state.history, &event, H_SETSIZE, 1000);
  for (const std::string& entry : state.kept.entries())
    ::history(state.history, &event, H_ENTER, entry.c_str());

  el_set(editor, EL_CLIENTDATA, &state);
  el_set(editor, EL_PROMPT_ESC, &State::show_prompt, kEscapeMark);
  el_set(editor, EL_EDITOR, "emacs");
  el_set(editor, EL_HIST, ::history, state.history);
  el_wset(editor, EL_GETCFN, &State::next_character);
  el_set(editor, EL_ADDFN, "heed-complete", "Complete a command", &State::complete);
  el_set(editor, EL_ADDFN, "heed-paste", "Insert what is pasted", &State::paste);
  el_set(editor, EL_ADDFN, "heed-line-end", "Insert a line end", &State::add_line_end);
  // What other line editors have there.
  constexpr std::array<std::array<const char*, 2>, 14> kKeys{{{"\t", "heed-complete"},
                                                              {"\033[200~", "heed-paste"},
                                                              {"\033\r", "heed-line-end"},
                                                              {"\033\n", "heed-line-end"},
                                                              {"^W", "ed-delete-prev-word"},
                                                              {"^U", "vi-kill-line-prev"},
                                                              {"^R", "em-inc-search-prev"},
                                                              {"\033[1~", "ed-move-to-beg"},
                                                              {"\033[4~", "ed-move-to-end"},
                                                              {"\033[3~", "ed-delete-next-char"},
                                                              {"\033[1;5D", "ed-prev-word"},
                                                              {"\033[1;5C", "em-next-word"},
                                                              {"\033[1;3D", "ed-prev-word"},
                                                              {"\033[1;3C", "em-next-word"}}};
  for (const auto& [key, command] : kKeys) el_set(editor, EL_BIND, key, command, nullptr);
  el_source(editor, nullptr);
  struct sigaction action {};
  action.sa_handler = note_continued;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGCONT, &action, nullptr);
}

LineEditor::~LineEditor() {
  if (state_->editor != nullptr) el_end(state_->editor);
  if (state_->history != nullptr) history_end(state_->history);
  if (state_->nowhere != nullptr) std::fclose(state_->nowhere);
}

bool LineEditor::read(const std::string& prompt, std::string& line) {
  State& state = *state_;
  state.prompt = prompt;
  state.canceled = false;
  el_set(state.editor, EL_PREP_TERM, 1);  // before the prompt, which invites to type
  if (state.pastes) fmt::print("{}", kPasteOn);
  flush_results();
  continued = false;
  state.follow_size();
  int count = 0;
  const char* typed = el_gets(state.editor, &count);
  if (state.pastes) fmt::print("{}", kPasteOff);
  flush_results();
  if (state.canceled) throw Canceled();
  if (typed == nullptr || count <= 0) return false;
  line.assign(typed, static_cast<std::size_t>(count));
  if (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
  line = replace_invalid_utf8(line);
  return true;
}

void LineEditor::remember(const std::string& entry) {
  state_->kept.add(entry);
  HistEvent event;
  ::history(state_->history, &event, H_ENTER, entry.c_str());
}

bool LineEditor::has_more() const {
  pollfd descriptor{STDIN_FILENO, POLLIN, 0};
  return poll(&descriptor, 1, 0) > 0 && (descriptor.revents & POLLIN) != 0;
}

}  // namespace heed::cli
