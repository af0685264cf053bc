// Chats: conversations as prompts of generate, tokenize and attend, and heed chat.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <sstream>

#include "command.h"

namespace heed::cli_test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// The shipped model of plays, for which a speaker and a speech are a message.
const std::string& player() {
  static const Folder kFolder;
  static const std::string kPath = [] {
    std::filesystem::copy(HEED_SOURCE "/models/shakespeare", kFolder.path(),
                          std::filesystem::copy_options::recursive);
    spill(kFolder / "chat_template.jinja",
          "{% for m in messages %}{{ m.role | upper }}:\n{{ m.content }}\n\n{% endfor %}"
          "{% if add_generation_prompt %}ASSISTANT:\n{% endif %}");
    return kFolder.path().string();
  }();
  return kPath;
}

Words with_player(Words words, const Words& more) {
  words.insert(words.end(), {"--max-new-tokens", "30"});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}
Words generate(const Words& more) { return with_player({"generate", "--model", player()}, more); }
Words chat(const Words& more) { return with_player({"chat", player()}, more); }

/// What the model continues a text with.
std::string continued(const std::string& text) {
  return json_lines(output_of(generate({"--json", "--prompt", text}))).front().at("text");
}

constexpr const char* kPrompt = "SYSTEM:\nBe brief.\n\nUSER:\nSpeak.\n\nASSISTANT:\n";
constexpr const char* kMessages =
    R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Speak."}])";

TEST(Chats, ArePromptsOfGenerate) {
  const Folder folder;
  spill(folder / "chat.json", std::string("\n ") + kMessages + "\n");
  const std::string lines = std::string(kMessages) + "\n\n{\"messages\": " + kMessages + "}\n";
  const std::string answer = continued(kPrompt);
  ASSERT_NE(answer, continued("USER:\nSpeak.\n\nASSISTANT:\n"));  // it depends on the whole prompt
  EXPECT_EQ(output_of(generate({"--messages", folder / "chat.json"})), answer + "\n");
  EXPECT_EQ(output_of(generate({"--system", "Be brief.", "Speak."})), answer + "\n");
  EXPECT_EQ(output_of(generate({"--chat", "Speak."})), continued("USER:\nSpeak.\n\nASSISTANT:\n") + "\n");
  const std::vector<Json> all = json_lines(output_of(generate({"--messages", "-", "--json"}), lines));
  ASSERT_EQ(all.size(), 2u);
  for (const Json& one : all) EXPECT_EQ(one.at("text"), answer);
  const std::string continues =
      R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "I am"}])";
  EXPECT_EQ(output_of(generate({"--messages", "-"}), continues),
            continued("USER:\na\n\nASSISTANT:\nI am") + "\n");
}

TEST(Chats, AreTokenizedAndAttended) {
  const Folder folder;
  spill(folder / "chat.json", kMessages);
  const auto ids = [](const std::string& out) { return json_lines(out).front().at("ids"); };
  EXPECT_EQ(ids(output_of({"tokenize", "--model", player(), "--messages", folder / "chat.json"})),
            ids(output_of({"tokenize", "--model", player(), "--no-special-tokens", kPrompt})));
  const std::string out =
      output_of({"attend", "--model", player(), "--messages", folder / "chat.json", "--json"});
  EXPECT_THAT(out, HasSubstr("Speak"));
}

TEST(Chats, ThatAreWrongAreErrors) {
  const Folder folder;
  const auto with = [&](const std::string& content) {
    spill(folder / "chat.json", content);
    return generate({"--messages", folder / "chat.json"});
  };
  expect_error(1, with(""), "chat.json: expected at least one conversation, got none");
  expect_error(1, with(R"([{"role": "user", "content": 5}])"),
               "chat.json: messages.0.content: expected a text, null or a list of texts, got 5");
  expect_error(1, with("[{\n"), "chat.json: ");
  expect_error(2, generate({"--messages", "x", "text"}), "generate: expected text or --messages, got both");
  expect_error(2, generate({"--messages", "x", "--chat"}), "--chat");
  expect_error(2, generate({"--chat", "--prompt-ids", "1"}), "--prompt-ids: expected no conversation");
  expect_error(2, generate({"--chat", "--full-text", "x"}), "--full-text: expected a text to continue");
  expect_error(1, {"generate", "--model", HEED_SOURCE "/models/shakespeare", "--chat", "x"},
               "expected a model for chats, got one without a chat template");
  expect_error(1, {"chat", player(), "--messages", folder / "none"}, "--messages: ");
  const Folder blank;
  std::filesystem::copy(
      player(), blank.path(),
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
  spill(blank / "chat_template.jinja", " ");
  expect_error(1, {"chat", blank.path()}, "expected a chat template, got an empty one", "a\n");
  expect_error(2, {"tokenize", "--messages", "x", "--pair", "y"}, "--messages: cannot be combined");
  expect_error(2, {"attend", "--messages", "x", "y"}, "--messages: cannot be combined");
  const Result some = run(generate({"--messages", "-"}), std::string(kMessages) + "\n[]\n");
  EXPECT_EQ(some.status, 1);
  EXPECT_THAT(some.err, HasSubstr("line 2: chat: messages: expected at least one message"));
  EXPECT_EQ(lines(some.out).size(), 2u);
}

// Each answer is that of the whole conversation, of which only what is new is read.
TEST(ChatCommand, AnswersLineByLine) {
  const std::vector<Json> answers =
      json_lines(output_of(chat({"--system", "Be brief.", "--json"}), "Speak.\nMore!\n"));
  ASSERT_EQ(answers.size(), 2u);
  const std::string first = answers[0].at("content"), second = answers[1].at("content");
  EXPECT_EQ(first, continued(kPrompt));
  EXPECT_EQ(second, continued(kPrompt + first + "\n\nUSER:\nMore!\n\nASSISTANT:\n"));
  EXPECT_EQ(answers[0].at("role"), "assistant");
  EXPECT_EQ(answers[0].at("finish_reason"), "length");
  EXPECT_EQ(answers[0].at("tokens"), 30);
  const Words plain = lines(output_of(chat({"--system", "Be brief."}), "Speak.\nMore!\n"));
  ASSERT_EQ(plain.size(), 2u);
  EXPECT_THAT(plain[0], Not(HasSubstr("\n")));
}

TEST(ChatCommand, TalksInATerminal) {
  const Folder folder;
  const Words words = chat({});
  const auto shown = [&](const std::string& input) {
    const Result result = run_on_terminal(words, input);
    EXPECT_EQ(result.status, 0) << result.out;
    return result.out;
  };
  const std::string saved = folder / "saved.json", page = folder / "page.html";
  const std::string out =
      shown("/save " + saved + "\nSpeak.\n/save " + saved + "\n/attend " + page +
            "\n/undo\n/undo\n/nothing\n/load " + saved +
            "\n/retry\n/system Be brief.\n/clear\n/retry\n//quit\n/attend x.svg\n/help\n/quit\n");
  EXPECT_THAT(out, HasSubstr("/help lists the commands"));
  EXPECT_THAT(out, HasSubstr("/save: expected a conversation with messages, got none"));
  EXPECT_THAT(out, HasSubstr("The answer ends after 30 tokens"));
  EXPECT_THAT(out, HasSubstr("Taken back: Speak."));
  EXPECT_THAT(out, HasSubstr("There is nothing to take back."));
  EXPECT_THAT(out, HasSubstr("/nothing: no such command"));
  EXPECT_THAT(out, HasSubstr("2 messages."));
  EXPECT_THAT(out, HasSubstr("System prompt: Be brief."));
  EXPECT_THAT(out, HasSubstr("There is no message to answer."));
  EXPECT_THAT(out, HasSubstr("expected a file ending in .html, got x.svg"));
  const Json conversation = read_json(saved);
  EXPECT_EQ(conversation.at("messages").at(0).at("content"), "Speak.");
  EXPECT_EQ(conversation.at("messages").at(1).at("content"), continued("USER:\nSpeak.\n\nASSISTANT:\n"));
  EXPECT_THAT(slurp(page), StartsWith("<!"));
}

TEST(ChatCommand, BreaksLinesBetweenWords) {
  const std::string answer = continued("USER:\nSpeak.\n\nASSISTANT:\n");
  std::string out = run_on_terminal(chat({}), "Speak.\n/quit\n", 20).out;
  const std::string typed = "\033[?2004l";  // ends what is typed
  out = out.substr(out.rfind(typed) + typed.size());
  out = out.substr(0, out.find("\033[2m"));  // what the answer is followed by
  std::erase(out, '\r');
  const auto words_of = [](const std::string& text) {
    std::istringstream stream(text);
    return Words(std::istream_iterator<std::string>(stream), {});
  };
  EXPECT_EQ(words_of(out), words_of(answer));
  std::istringstream shown(out);
  for (std::string line; std::getline(shown, line);) EXPECT_LE(line.size(), 20u) << line;
}

/// The chat command, by someone who waits for each answer.
class Chatter : public TerminalDialogue {
 public:
  explicit Chatter(const Folder& state, const Words& more = {}) : TerminalDialogue(chat(more), state.path()) {
    read_until("Ctrl-D ends.");
    next();
  }
  void next() { read_until("\033[?2004h\033[1m>\033[0m "); }  // the prompt, not as it is drawn again
  void say(const std::string& keys) {
    type(keys + "\r");
    next();
  }
};

TEST(ChatCommand, EditsLines) {
  const Folder state, folder;
  const std::string saved = folder / "saved.json";
  Chatter one(state);
  const auto said = [&] {
    one.say("/sa\t" + saved);
    const Json conversation = read_json(saved);
    Words messages;
    for (const Json& message : conversation.at("messages")) {
      if (message.at("role") == "user") messages.push_back(message.at("content"));
    }
    one.say("/clear");  // makes room
    return messages;
  };
  one.say("peak.\001S");                       // Ctrl-A
  one.say("nothing\025N\303\251a\033[D\177");  // Ctrl-U, arrow left, Backspace after a letter of two bytes
  one.say("\033[A\033[A!");                    // arrow up
  EXPECT_EQ(said(), (Words{"Speak.", "Na", "Speak.!"}));
  one.say("\033[200~one\rtwo\t\033[201~");  // a paste
  one.say("\"\"\"a\r/b\"\"\"");
  one.say("\"\"\"\rc\r\"\"\"");
  one.say("a\033\rb");  // Alt-Enter
  EXPECT_EQ(said(), (Words{"one\ntwo\t", "a\n/b", "c", "a\nb"}));
  one.type("half\003");
  one.read_until("Ctrl-D or /quit ends.");
  one.next();
  one.type("\004");
  EXPECT_EQ(one.finish().status, 0);
}

TEST(ChatCommand, KeepsWhatWasTyped) {
  const Folder state;
  const std::filesystem::path file = state.path() / "heed" / "chat_history";
  const auto quit = [](Chatter& chatter) {
    chatter.type("/quit\r");
    EXPECT_EQ(chatter.finish().status, 0);
  };
  {
    Chatter none(state, {"--no-history"});
    none.say("a secret");
    quit(none);
    EXPECT_FALSE(std::filesystem::exists(file));
  }
  {
    Chatter one(state);
    one.say("/undo");
    one.say("\033[200~back\\slash\rline\033[201~");
    quit(one);
  }
  EXPECT_EQ(slurp(file), "/undo\nback\\\\slash\\nline\n/quit\n");
  EXPECT_EQ(std::filesystem::status(file).permissions(), std::filesystem::perms(0600));
  {
    Chatter again(state);
    again.say("\033[A\033[A\033[A");  // /undo
    again.say("\033[A\033[A\033[A!");
    quit(again);
  }
  EXPECT_THAT(slurp(file), EndsWith("/quit\n/undo\nback\\\\slash\\nline!\n/quit\n"));
  std::string many;
  for (int i = 0; i < 2001; ++i) many += "/undo " + std::to_string(i) + "\n";
  spill(file, many);
  std::filesystem::permissions(file, std::filesystem::perms(0600));
  {
    Chatter last(state);
    last.say("\033[A");
    quit(last);
  }
  const Words kept = lines(slurp(file));
  ASSERT_EQ(kept.size(), 1001u);
  EXPECT_EQ(kept.front(), "/undo 1001");
  EXPECT_EQ(kept[999], "/undo 2000");
  EXPECT_EQ(kept.back(), "/quit");
  EXPECT_EQ(std::filesystem::status(file).permissions(), std::filesystem::perms(0600));
}

TEST(ChatCommand, SaysWhenTheConversationIsTooLong) {
  const Folder folder;
  spill(folder / "long.json", Json::array({{{"role", "user"}, {"content", std::string(3000, 'a')}}}).dump());
  expect_error(1, {"chat", player(), "--messages", folder / "long.json"},
               "input line 1: chat: expected a conversation of at most 256 tokens, got a text of ", "more\n");
  const Result result = run_on_terminal({"chat", player()}, std::string(2000, 'a') + "\n/quit\n");
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out, HasSubstr("begin anew); the message is taken back"));
  expect_error(2, {"chat"}, "model");
  expect_error(1, {"chat", HEED_SOURCE "/models/en-fr"}, "cannot continue text");
}

}  // namespace
}  // namespace heed::cli_test
