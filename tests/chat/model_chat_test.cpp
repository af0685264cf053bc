#include "heed/chat/model_chat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "heed/error.h"
#include "heed/text/tokenizer.h"
#include "reference/error.h"
#include "reference/gguf_writer.h"
#include "reference/json.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;

/// What transformers gives (tests/fixtures/chat_models.py).
const Json& chat_models() {
  static const Json kModels = read_json<Json>(HEED_FIXTURES "/chat/models.json");
  return kModels;
}

/// A model's directory with the fixture's tokenizer.
class ModelFolder {
 public:
  explicit ModelFolder(const Json& files = Json::object()) {
    spill(folder_ / "tokenizer.json", chat_models()["tokenizer"].dump());
    for (const auto& [name, text] : files.items()) write(name, text.get<std::string>());
  }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    spill(folder_ / name, text);
  }
  void write_config(const Json& chat_template) const {
    write("tokenizer_config.json",
          Json{{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"chat_template", chat_template}}.dump());
  }
  std::string path() const { return folder_.path().string(); }
  EncodedChat encode(const std::string& conversation) const {
    const auto tokenizer = load_tokenizer(path());
    return ModelChat::load(path(), *tokenizer).encode(conversation);
  }

 private:
  TemporaryFolder folder_;
};

std::vector<std::pair<std::int64_t, std::int64_t>> spans_of(const std::vector<int>& mask) {
  std::vector<std::pair<std::int64_t, std::int64_t>> spans;
  for (std::int64_t i = 0; i < std::ssize(mask); ++i) {
    if (mask[static_cast<std::size_t>(i)] == 0) continue;
    if (spans.empty() || spans.back().second < i) spans.push_back({i, i});
    spans.back().second = i + 1;
  }
  return spans;
}

TEST(ModelChat, TokenizesAsTransformers) {
  ASSERT_EQ(chat_models()["models"].size(), 6u);
  for (const Json& model : chat_models()["models"]) {
    const ModelFolder folder(model["files"]);
    for (const Json& chat : model["chats"]) {
      SCOPED_TRACE(model["name"].get<std::string>() + ": " + chat["given"].dump());
      EncodedChat encoded;
      ASSERT_NO_THROW(encoded = folder.encode(chat["given"].dump()));
      EXPECT_EQ(encoded.text, chat["text"].get<std::string>());
      EXPECT_EQ(encoded.encoding.ids, chat["ids"].get<std::vector<std::int64_t>>());
      EXPECT_EQ(encoded.generated, spans_of(chat["generated"].get<std::vector<int>>()));
    }
  }
}

TEST(ModelChat, FindsWhatIsLearnedAsTransformersAndTrl) {
  int learned = 0;
  for (const Json& model : chat_models()["models"]) {
    const ModelFolder folder(model["files"]);
    const auto tokenizer = load_tokenizer(folder.path());
    const ModelChat chat = ModelChat::load(folder.path(), *tokenizer);
    for (const Json& given : model["chats"]) {
      if (!given.contains("answers")) continue;
      SCOPED_TRACE(model["name"].get<std::string>() + ": " + given["given"].dump());
      const EncodedChat encoded = chat.encode_answers(given["given"].dump()).front();
      EXPECT_EQ(encoded.encoding.ids, given["ids"].get<std::vector<std::int64_t>>());
      auto answers = spans_of(given["answers"].get<std::vector<int>>());
      for (auto& [begin, end] : answers) {  // TRL's have the newline behind the token that ends them
        if (end - begin > 1 && tokenizer->is_special(encoded.encoding.ids[static_cast<std::size_t>(end - 2)]))
          --end;
      }
      EXPECT_EQ(encoded.generated, answers);
      ++learned;
    }
  }
  EXPECT_EQ(learned, 4);
}

/// A token for each byte, and one for `<|end|>`, which is special or, where it is not, is read as a whole
/// too. Counts the bytes that it reads.
class CountingTokenizer : public Tokenizer {
 public:
  explicit CountingTokenizer(bool knows_special) : knows_special_(knows_special) {}
  std::string decode(std::span<const std::int64_t>, bool) const override { return ""; }
  std::int64_t vocab_size() const override { return kEndId + 1; }
  std::string token(std::int64_t id) const override { return id == kEndId ? kEnd : std::string(1, 'x'); }
  std::optional<std::int64_t> token_to_id(std::string_view) const override { return std::nullopt; }
  bool is_special(std::int64_t id) const override { return knows_special_ && id == kEndId; }
  void save(const std::filesystem::path&) const override {}
  mutable std::size_t bytes = 0;

 protected:
  Encoding tokenize(std::string_view text) const override { return tokenize_chat(text, {}); }
  Encoding tokenize_chat(std::string_view text, std::span<const TextSpan> data) const override {
    bytes += text.size();
    Encoding encoding;
    const auto is_data = [&](std::size_t i) {
      return std::any_of(data.begin(), data.end(),
                         [&](const TextSpan& s) { return s.begin <= i && i < s.end; });
    };
    for (std::size_t i = 0; i < text.size();) {
      const bool ends = text.substr(i).starts_with(kEnd) && !is_data(i);
      const std::size_t size = ends ? kEnd.size() : 1;
      encoding.push(ends ? kEndId : static_cast<unsigned char>(text[i]), "",
                    {static_cast<std::int64_t>(i), static_cast<std::int64_t>(i + size)});
      i += size;
    }
    return encoding;
  }
  Encoding post_process(Encoding first, std::optional<Encoding>, bool) const override { return first; }

 private:
  static constexpr std::int64_t kEndId = 256;
  inline static const std::string kEnd = "<|end|>";
  bool knows_special_;
};

TEST(ModelChat, TokenizesLongConversationsOnce) {
  const ModelFolder folder;
  folder.write_config(
      "{% for m in messages %}{{ m.role }}:{{ m.content }}<|end|>{% endfor %}"
      "{% if add_generation_prompt %}assistant:{% endif %}");
  const auto learned = [&](std::size_t turns, bool knows_special, std::size_t& bytes) {
    Json messages = Json::array();
    for (std::size_t i = 0; i < turns; ++i) {
      messages.push_back({{"role", "user"}, {"content", "a <|end|> " + std::to_string(i)}});
      messages.push_back({{"role", "assistant"}, {"content", "an answer <|end|>"}});
    }
    const CountingTokenizer tokenizer(knows_special);
    EncodedChat chat = ModelChat::load(folder.path(), tokenizer).encode_answers(messages.dump()).front();
    bytes = tokenizer.bytes;
    return chat;
  };
  std::size_t few = 0, many = 0, from_the_start = 0;
  learned(10, true, few);
  const EncodedChat fast = learned(80, true, many), slow = learned(80, false, from_the_start);
  EXPECT_EQ(fast.generated.size(), 80u);
  EXPECT_EQ(fast.generated, slow.generated);
  EXPECT_LE(many, 9 * few);
  EXPECT_GE(from_the_start, 20 * many);
}

constexpr const char* kPlain = "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}";

TEST(ModelChat, RefusesTextsThatAreTooLongBeforeTheyAreTokenized) {
  const ModelFolder model;
  model.write_config(
      "{% set s = 'a' * 1000000 %}{% for i in range(messages[0].content | int) %}{{ s }}{% endfor %}");
  const auto tokenizer = load_tokenizer(model.path());
  ModelChat chat = ModelChat::load(model.path(), *tokenizer);
  const auto times = [](int count) {
    return R"([{"role": "user", "content": ")" + std::to_string(count) + R"("}])";
  };
  EXPECT_ERROR(
      chat.encode(times(60)),
      "tokenizer_config.json: chat_template: expected a template that writes at most 8388608 bytes, got one "
      "that writes 60000000");
  std::size_t longest = 0;
  for (std::int64_t id = 0; id < tokenizer->vocab_size(); ++id)
    longest = std::max(longest, tokenizer->token(id).size());
  chat.limit_tokens(static_cast<std::int64_t>(1000000 / longest));
  EXPECT_EQ(chat.prompt(times(1)).text.size(), 1000000u);
  EXPECT_ERROR(chat.prompt(times(2)), "bytes, which are more (make it shorter, or begin anew)");
  EXPECT_EQ(chat.encode(times(2)).text.size(), 2000000u);
}

TEST(ModelChat, EndsPromptsWhereAnAnswerBegins) {
  const ModelFolder folder;
  folder.write_config(std::string(kPlain) + "{% if add_generation_prompt %}assistant:{% endif %}");
  const auto tokenizer = load_tokenizer(folder.path());
  const ModelChat chat = ModelChat::load(folder.path(), *tokenizer);
  const std::string user = R"({"role": "user", "content": "a"})";
  EXPECT_EQ(chat.prompt("[" + user + "]").text, "user:a;assistant:");
  EXPECT_EQ(chat.encode("[" + user + "]").text, "user:a;");
  EXPECT_EQ(chat.prompt(R"({"add_generation_prompt": false, "messages": [)" + user + "]}").text, "user:a;");
  EXPECT_EQ(chat.prompt("[" + user + R"(, {"role": "assistant", "content": "b"}])").text,
            "user:a;assistant:b");
}

TEST(ModelChat, JoinsPartsForTemplatesOfTexts) {
  const ModelFolder folder;
  folder.write_config(kPlain);
  const std::string parts =
      R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}])";
  EXPECT_EQ(folder.encode(parts).text, "user:ab;");
  EXPECT_EQ(folder.encode(R"({"continue_final_message": true, "messages": )" + parts + "}").text, "user:ab");
}

TEST(ModelChat, CallsWithoutATextHaveAnEmptyOneForTemplatesThatKnowNone) {
  const std::string messages =
      R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": null, "tool_calls": [{"x": 1}]},
          {"role": "assistant", "tool_calls": [{"x": 1}]}, {"role": "user", "content": "b"}])";
  const ModelFolder folder;
  folder.write_config("{% for m in messages %}{{ '[' + m['role'] + ':' + m['content'] + ']' }}{% endfor %}");
  EXPECT_EQ(folder.encode(messages).text, "[user:a][assistant:][assistant:][user:b]");
  EXPECT_ERROR(folder.encode(R"([{"role": "user", "content": null}])"), "content");
  folder.write_config(
      "{% for m in messages %}{% if m.tool_calls %}{{ m.content is defined }}{% endif %}{% endfor %}");
  EXPECT_EQ(folder.encode(messages).text, "FalseFalse");
}

TEST(ModelChat, TellsWhetherTheModelSeesTools) {
  const ModelFolder folder;
  const auto tokenizer = load_tokenizer(folder.path());
  const auto reads = [&] { return ModelChat::load(folder.path(), *tokenizer).reads_tools(); };
  folder.write_config(kPlain);
  EXPECT_FALSE(reads());
  folder.write_config("{% if tools %}{{ tools }}{% endif %}" + std::string(kPlain));
  EXPECT_TRUE(reads());
  folder.write_config(
      {{{"name", "default"}, {"template", kPlain}}, {{"name", "tool_use"}, {"template", "x"}}});
  EXPECT_TRUE(reads());
}

TEST(ModelChat, DescribesToolsWhereTheTemplateHasNoPlaceForThem) {
  const ModelFolder folder;
  const std::string tools = R"("tools": [{"type": "function", "function": {"name": "f"}}], )";
  const auto encode = [&](const std::string& messages) {
    return folder.encode("{" + tools + "\"messages\": " + messages + "}").text;
  };
  folder.write_config(kPlain);
  const std::string told = encode(R"([{"role": "user", "content": "a"}])");
  EXPECT_TRUE(told.starts_with("system:You can call")) << told;
  EXPECT_TRUE(told.ends_with("\n{\"name\":\"f\"};user:a;")) << told;
  EXPECT_EQ(encode(R"([{"role": "system", "content": "s"}, {"role": "user", "content": "a"}])"),
            "system:s\n\n" + told.substr(7));
  EXPECT_EQ(encode(R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": null, "tool_calls":
                       [{"function": {"name": "f", "arguments": "{\"x\": 1}"}}, {"x": 1}, {"function": 5}]},
                       {"role": "tool", "content": "b"}])"),
            told + R"(assistant:{"name":"f","parameters":{"x":1}})" + "\n\n" +
                R"({"name":null,"parameters":{}})" + "\n\n" + R"({"name":null,"parameters":{}};user:b;)");
  EXPECT_EQ(folder.encode(R"({"tools": [], "messages": [{"role": "user", "content": "a"}]})").text,
            "user:a;");
  const auto tokenizer = load_tokenizer(folder.path());
  EXPECT_EQ(ModelChat::load(folder.path(), *tokenizer).tool_calls(), ToolCallFormat::llama);
  folder.write_config("{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}" +
                      std::string(kPlain));
  const std::string in_user = encode(R"([{"role": "user", "content": "a"}])");
  EXPECT_TRUE(in_user.starts_with("user:You can call") && in_user.ends_with("\n\na;")) << in_user;
  // Phi-4-mini reads them in the message of the system.
  folder.write_config(
      "{{ messages[0].role }}{{ messages[0]['content'] }}{% for message in messages %}"
      "{% if message['tools'] %}<|tool|>{{ message['tools'] }}<|/tool|>{% endif %}{% endfor %}");
  EXPECT_EQ(encode(R"([{"role": "user", "content": "a"}])"), "system<|tool|>[{\"name\":\"f\"}]<|/tool|>");
  EXPECT_TRUE(ModelChat::load(folder.path(), *tokenizer).writes("<|/tool|>"));
}

TEST(ModelChat, ReadsTheLegacyFileOfProcessors) {
  const ModelFolder folder;
  folder.write("chat_template.json", Json{{"chat_template", kPlain}}.dump());
  EXPECT_EQ(folder.encode(R"([{"role": "user", "content": "x"}])").text, "user:x;");
}

TEST(ModelChat, IsSavedWithTheTokenizer) {
  const ModelFolder folder;
  folder.write("chat_template.jinja", kPlain);
  folder.write("additional_chat_templates/tool_use.jinja", "tools");
  const TemporaryFolder saved;
  load_tokenizer(folder.path())->save(saved.path());
  const auto tokenizer = load_tokenizer(saved.path());
  const ModelChat chat = ModelChat::load(saved.path().string(), *tokenizer);
  EXPECT_EQ(chat.encode(R"([{"role": "user", "content": "x"}])").text, "user:x;");
  EXPECT_EQ(chat.encode(R"({"tools": [], "messages": [{"role": "user", "content": "x"}]})").text, "tools");
}

TEST(ModelChat, NamesTheMessageThatIsWrong) {
  const ModelFolder folder;
  folder.write_config(kPlain);
  const auto with = [&](const std::string& members) { return folder.encode("{" + members + "}"); };
  EXPECT_ERROR(folder.encode("3"), "chat: expected an object with messages, or a list of messages, got 3");
  EXPECT_ERROR(folder.encode("[]"), "chat: messages: expected at least one message");
  EXPECT_ERROR(with(""), "chat: messages: not found");
  EXPECT_ERROR(with(R"("messages": [{"role": "user", "content": "a"}, "x"])"),
               "chat: messages.1: expected an object");
  EXPECT_ERROR(with(R"("messages": [{"content": "x"}])"), "chat: messages.0.role: not found");
  EXPECT_ERROR(with(R"("messages": [{"role": 1}])"), "chat: messages.0.role: expected a string, got 1");
  EXPECT_ERROR(with(R"("messages": [{"role": "user", "content": 5}])"),
               "chat: messages.0.content: expected a text, null or a list of texts, got 5");
  EXPECT_ERROR(with(R"("messages": [{"role": "user", "content": [{"type": "image_url"}]}])"),
               "chat: messages.0.content.0.type: expected \"text\", got \"image_url\"");
  for (const char* unsaid : {"", R"(, "content": null)", R"(, "tool_calls": [])", R"(, "thinking": null)"})
    EXPECT_ERROR(with(R"("messages": [{"role": "user", "content": "a"}, {"role": "assistant")" +
                      std::string(unsaid) + "}]"),
                 "chat: messages.1.content: not found");
  EXPECT_EQ(with(R"("messages": [{"role": "assistant", "content": "", "reasoning": "a"}])").text,
            "assistant:;");
  EXPECT_ERROR(with(R"("messages": [{"role": "user", "content": "a"}], "tools": [1])"),
               "chat: tools.0: expected an object");
  const std::string message = R"("messages": [{"role": "user", "thinking": "a"}], )";
  EXPECT_ERROR(with(message + R"("add_generation_prompt": true, "continue_final_message": true)"),
               "chat: expected add_generation_prompt or continue_final_message, got both");
  EXPECT_ERROR(with(message + R"("continue_final_message": true)"),
               "chat: messages.0.content: expected a text to continue, got none");
  EXPECT_ERROR(with(message + R"("add_generation_prompt": 1)"),
               "chat: add_generation_prompt: expected true or false, got 1");
  folder.write_config("{{ messages[0].role }}");
  EXPECT_ERROR(with(R"("messages": [{"role": "user", "content": "a"}], "continue_final_message": true)"),
               "expected a template that writes the last message, got " + folder.path());
}

TEST(ModelChat, RefusesRolesThatNeitherFormatsNorTheTemplateHave) {
  const ModelFolder folder;
  folder.write_config(kPlain);
  for (const char* role : {"system", "developer", "user", "assistant", "tool", "function"})
    EXPECT_EQ(folder.encode(R"([{"role": ")" + std::string(role) + R"(", "content": "a"}])").text,
              role + std::string(":a;"));
  const std::string narrator = R"([{"role": "user", "content": "a"}, {"role": "narrator", "content": "b"}])";
  EXPECT_ERROR(
      folder.encode(narrator),
      "chat: messages.1.role: expected system, developer, user, assistant, tool, function, or a role "
      "that the chat template names, got \"narrator\"");
  const auto tokenizer = load_tokenizer(folder.path());
  EXPECT_ERROR(ModelChat::load(folder.path(), *tokenizer).encode_answers(narrator, "x:1"),
               "x:1: messages.1.role");
  folder.write_config(
      "{% for m in messages %}{% if m.role == 'narrator' %}{{ m.content }}{% endif %}{% endfor %}");
  EXPECT_EQ(folder.encode(narrator).text, "b");
}

TEST(ModelChat, RefusesConversationsWithoutSomethingToLearn) {
  const ModelFolder folder;
  const auto learned = [&](const std::string& messages) {
    const auto tokenizer = load_tokenizer(folder.path());
    ModelChat::load(folder.path(), *tokenizer).encode_answers(messages, "x:1");
  };
  const std::string user = R"({"role": "user", "content": "a"})",
                    assistant = R"({"role": "assistant", "content": "b"})";
  folder.write_config(kPlain);
  EXPECT_ERROR(learned("[" + user + "]"), "x:1: expected an answer of the assistant to learn, got none");
  EXPECT_ERROR(learned("[" + assistant + "]"),
               "x:1: messages.0: expected a message to answer, got an answer");
  EXPECT_ERROR(learned("5"), "x:1: expected an object with messages, or a list of messages, got 5");
}

// As Qwen3's template drops the thinking of earlier answers.
TEST(ModelChat, LearnsAnAnswerAsItIsGenerated) {
  const ModelFolder folder;
  folder.write_config(
      "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% else %}{{ m.content if loop.last "
      "else "
      "m.content|upper }}{% endif %};{% endfor %}");
  const auto tokenizer = load_tokenizer(folder.path());
  const Json messages = {{{"role", "user"}, {"content", "a"}},
                         {{"role", "assistant"}, {"content", "b"}},
                         {{"role", "user"}, {"content", "c"}},
                         {{"role", "assistant"}, {"content", "d"}}};
  const auto parts = ModelChat::load(folder.path(), *tokenizer).encode_answers(messages.dump());
  ASSERT_EQ(parts.size(), 2u);
  const auto learned = [&](const EncodedChat& part) {
    std::string text;
    for (const auto& [begin, end] : part.generated) {
      const std::span all(part.encoding.ids);
      text += tokenizer->decode(
          all.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)), false);
    }
    return text;
  };
  EXPECT_EQ(parts[0].text, "a;b;");
  EXPECT_EQ(learned(parts[0]), "b;");
  EXPECT_EQ(parts[1].text, "a;B;c;d;");
  EXPECT_EQ(learned(parts[1]), "d;");
}

// By templates that mark answers, and by those that do not, also where an answer is a part of its own.
TEST(ModelChat, WeighsAnswers) {
  const ModelFolder folder;
  const auto weights = [&](const std::string& first, const std::string& second) {
    const auto tokenizer = load_tokenizer(folder.path());
    const std::string user = R"({"role": "user", "content": "a"}, )";
    std::vector<std::vector<double>> found;
    for (const EncodedChat& part :
         ModelChat::load(folder.path(), *tokenizer)
             .encode_answers("[" + user + R"({"role": "assistant", "content": "b")" + first + "}, " + user +
                             R"({"role": "assistant", "content": "d")" + second + "}]")) {
      found.push_back(part.weights);
      EXPECT_TRUE(part.weights.empty() || part.weights.size() == part.generated.size());
    }
    return found;
  };
  using Weights = std::vector<std::vector<double>>;
  const std::string marked =
      "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration "
      "%}"
      "{% else %}{{ m.content }}{% endif %};{% endfor %}";
  for (const std::string& text : {std::string(kPlain), marked}) {
    folder.write_config(text);
    EXPECT_EQ(weights("", ""), (Weights{{}}));
    EXPECT_EQ(weights(R"(, "weight": 0.5)", ""), (Weights{{0.5, 1}}));
    EXPECT_EQ(weights(R"(, "weight": 0)", R"(, "weight": 2)"), (Weights{{2}}));
    EXPECT_EQ(weights(R"(, "weight": 3, "train": false)", R"(, "weight": 1.0)"), (Weights{{}}));
    EXPECT_ERROR(weights(R"(, "weight": -1)", ""),
                 "chat: messages.1.weight: expected a number of at least 0, got -1");
  }
  folder.write_config(
      "{% for m in messages %}{{ m.content|upper if m.role == 'assistant' and not loop.last else m.content "
      "}};{% endfor %}");
  EXPECT_EQ(weights(R"(, "weight": 0.5)", ""), (Weights{{0.5}, {}}));
}

// A member of chat_template_kwargs never replaces what was checked.
TEST(ModelChat, ChecksWhatFurtherVariablesAreMergedInto) {
  const ModelFolder folder;
  folder.write_config(std::string("{{ x }}") + kPlain + "{% for t in tools or [] %}{{ t.a }}{% endfor %}");
  const auto given = [](const std::string& further, const std::string& more = "") {
    return R"({"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": )" + further + more +
           "}";
  };
  EXPECT_EQ(folder.encode(given("null")).text, "user:a;");
  EXPECT_EQ(folder.encode(given(R"({"x": "y"})")).text, "yuser:a;");
  EXPECT_EQ(folder.encode(given(R"({"x": "y"})", R"(, "x": "z")")).text, "yuser:a;");
  for (const char* key : {"messages", "tools", "documents", "add_generation_prompt", "continue_final_message",
                          "chat_template_kwargs"}) {
    for (const char* value : {"5", "[]", "null", R"([{"role": "user", "content": [{"type": "text"}]}])"}) {
      EXPECT_ERROR(folder.encode(given("{\"" + std::string(key) + "\": " + value + "}")),
                   "chat: chat_template_kwargs." + std::string(key) +
                       ": expected a variable of the template's own, got what the conversation itself says");
    }
  }
  EXPECT_ERROR(folder.encode(given("[]")),
               "chat: chat_template_kwargs: expected an object, got an array of 0");
  EXPECT_ERROR(folder.encode(given("{}", R"(, "tools": [5])")), "chat: tools.0: expected an object, got 5");
}

TEST(ModelChat, NamesTheFileThatIsWrong) {
  const ModelFolder folder;
  const auto encode = [&] { return folder.encode(R"([{"role": "user", "content": "x"}])"); };
  EXPECT_FALSE(ModelChat::has_template(folder.path()));
  EXPECT_ERROR(encode(), "expected a model for chats, got one without a chat template");
  folder.write_config(5);
  EXPECT_ERROR(encode(),
               "tokenizer_config.json: chat_template: expected a template or a list of templates, got 5");
  folder.write_config({{{"name", "rag"}, {"template", "x"}}});
  EXPECT_TRUE(ModelChat::has_template(folder.path()));
  EXPECT_ERROR(encode(), "expected a chat template of the name default, got only rag");
  folder.write_config({{{"name", "default"}}});
  EXPECT_ERROR(encode(), "tokenizer_config.json: chat_template.0.template: not found");
  folder.write_config("{% if %}");
  EXPECT_ERROR(encode(), "tokenizer_config.json: chat_template: line 1: expected ");
  folder.write_config("\n{{ raise_exception('no ' + messages[0].role) }}");
  EXPECT_ERROR(encode(), "tokenizer_config.json: chat_template: line 2: no user");
}

TEST(ModelChat, ReadsGgufFiles) {
  const TemporaryFolder folder;
  GgufWriter w;
  w.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", "gpt-2");
  w.strings("tokenizer.ggml.tokens", {"<s>", "</s>", "a", "b", "[", "]"});
  w.array<std::int32_t>("tokenizer.ggml.token_type", 5, {3, 3, 1, 1, 1, 1});
  w.strings("tokenizer.ggml.merges", std::vector<std::string>{});
  w.integer("tokenizer.ggml.bos_token_id", 0).integer("tokenizer.ggml.eos_token_id", 1);
  w.string("tokenizer.chat_template", "{{ bos_token }}[{{ messages[0].content }}]{{ eos_token }}");
  w.string("tokenizer.chat_template.tool_use", "{{ messages[0].content }}");
  const std::string path = (folder / "chat.gguf").string();
  spill(path, w.bytes());
  const auto tokenizer = load_tokenizer(path);
  const ModelChat chat = ModelChat::load(path, *tokenizer);
  const std::string messages = R"("messages": [{"role": "user", "content": "ab"}])";
  EXPECT_THAT(chat.encode("{" + messages + "}").encoding.ids, ElementsAre(0, 4, 2, 3, 5, 1));
  EXPECT_EQ(chat.encode("{" + messages + R"(, "tools": []})").text, "ab");
}

}  // namespace
}  // namespace heed
