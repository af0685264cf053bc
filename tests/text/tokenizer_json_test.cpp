// Invalid tokenizer.json and legacy files cause an Error that names file and field, never a crash. Also tests
// valid legacy files, the effects of tokenizer_config.json, scanners against ICU, and saving.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "core/json_field.h"
#include "fixtures.h"
#include "heed/error.h"
#include "heed/text/tokenizer.h"
#include "reference/error.h"
#include "reference/json.h"
#include "reference/small_stack.h"
#include "reference/temporary_folder.h"
#include "text/patterns/pattern.h"

namespace heed {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Json = nlohmann::ordered_json;
using Ids = std::vector<std::int64_t>;

std::string load_error(const std::filesystem::path& path) {
  return error_of([&] { load_tokenizer(path); });
}

/// Returns a complete tokenizer.json with one section replaced.
std::string with(const std::string& section, const std::string& content) {
  Json document = Json::parse(R"({"version": "1.0", "model": {"type": "WordLevel", "unk_token": "<unk>",
      "vocab": {"<unk>": 0, "a": 1, "b": 2}}})");
  return document.dump().insert(1, Json(section).dump() + ":" + content + ",");
}

// Parts that hold parts of their own kind, as deep as they may be, parsed, run and freed.
TEST(TokenizerJson, NestedSequencesFitASmallStack) {
  const auto sequence = [](const char* parts, std::string inside) {
    for (int i = 0; i < 15; ++i)
      inside = R"({"type": "Sequence", ")" + std::string(parts) + "\": [" + inside + "]}";
    return inside;
  };
  const TemporaryFolder folder;
  std::string text = with("normalizer", sequence("normalizers", R"({"type": "NFKC"})"));
  text.insert(1, "\"pre_tokenizer\": " +
                     sequence("pretokenizers", R"({"type": "ByteLevel", "add_prefix_space": false})") +
                     ", \"decoder\": " + sequence("decoders", R"({"type": "ByteLevel"})") +
                     ", \"post_processor\": " +
                     sequence("processors", R"({"type": "ByteLevel", "trim_offsets": true})") + ", ");
  spill(folder / "tokenizer.json", text);
  on_small_stack([&] {
    const auto tokenizer = load_tokenizer(folder.path());
    EXPECT_EQ(tokenizer->encode("a").ids, Ids{1});
    EXPECT_EQ(tokenizer->decode(Ids{1}), "a");
  });
}

TEST(TokenizerJson, NamesWhatIsWrong) {
  const std::string deep = [] {
    std::string sequence = R"({"type": "NFC"})";
    for (int i = 0; i < 20; ++i) sequence = R"({"type": "Sequence", "normalizers": [)" + sequence + "]}";
    return sequence;
  }();
  const auto model = [](const std::string& content) { return R"({"model": )" + content + "}"; };
  const auto bpe = [&](const std::string& vocab, const std::string& merges) {
    return model(R"({"type": "BPE", "vocab": )" + vocab + R"(, "merges": )" + merges + "}");
  };
  const std::pair<std::string, std::string> cases[] = {
      {"", "got the end of the text"},
      {"[]", "expected an object, got an array of 0"},
      {"{\"model\": {\"vocab\": {\"\xFF\": 0}}}", "expected UTF-8"},
      {std::string(100000, '['), "expected nesting of at most 64"},
      {std::string(20000, '[') + std::string(20000, ']'), "expected nesting of at most 64"},
      {R"({"version": "2.0", "model": {}})", "version: expected 1.0, got \"2.0\""},
      {model("{}"), "model.vocab: not found"},
      {model("3"), "model: expected an object, got 3"},
      {model(R"({"type": "Morfessor"})"),
       "model.type: expected a model (BPE, Unigram, WordLevel or WordPiece), got"},
      {bpe("[]", "[]"), "model.vocab: expected an object of tokens and ids"},
      {bpe(R"({"a": "x"})", "[]"), "model.vocab.a: expected an id from 0 to"},
      {bpe(R"({"a": -1})", "[]"), "model.vocab.a: expected an id"},
      {bpe(R"({"a": 1.5})", "[]"), "model.vocab.a: expected an id"},
      {bpe(R"({"a": null})", "[]"), "expected an id"},
      {bpe(R"({"a": 4294967296})", "[]"), "model.vocab.a: expected an id"},
      {bpe(R"({"a": 99999999999999999999})", "[]"), "model.vocab.a: expected an id"},
      {bpe(R"({"a": 500000})", "[]"), "model.vocab.a: expected an id from 0 to 100004, got 500000"},
      {bpe(R"({"a": 0, "b": 0})", "[]"), "model.vocab.b: expected an id other than that of \"a\", got 0"},
      {bpe(R"({"a": 0})", R"({"a": 1})"), "model.merges: expected an array"},
      {bpe(R"({"a": 0})", R"(["a"])"), "model.merges.0: expected two tokens with a space between"},
      {bpe(R"({"a": 0})", R"(["a b c"])"), "model.merges.0: expected two tokens with a space between"},
      {bpe(R"({"a": 0})", R"(["a x"])"),
       "model.merges.0: expected two tokens of the vocabulary, got \"a x\""},
      {bpe(R"({"a": 0})", R"([["a", "a"]])"),
       "model.merges.0: expected a pair that makes a token of the vocabulary"},
      {bpe(R"({"a": 0})", R"([["a"]])"), "model.merges.0: expected an array of two tokens"},
      {bpe(R"({"a": 0})", R"([["a", 1]])"), "model.merges.0: expected an array of two tokens"},
      {model(R"({"type": "BPE", "dropout": 0.1, "vocab": {"a": 0}, "merges": []})"),
       "model.dropout: expected null or 0"},
      {model(
           R"({"type": "BPE", "continuing_subword_prefix": "##", "vocab": {"a": 0, "b": 1}, "merges": ["a b"]})"),
       "model.merges.0: expected a second token that begins with the prefix"},
      {model(R"({"type": "WordPiece", "vocab": {"a": 0}})"),
       "model: expected a vocabulary with the unknown token [UNK]"},
      {model(R"({"type": "Unigram", "vocab": []})"), "model.vocab: expected an array of tokens and scores"},
      {model(R"({"type": "Unigram", "vocab": [["a"]]})"),
       "model.vocab.0: expected an array of a token and its score"},
      {model(R"({"type": "Unigram", "vocab": [["a", 1], ["a", 2]]})"),
       "model.vocab.1.0: expected a unique token"},
      {model(R"({"type": "Unigram", "unk_id": 7, "vocab": [["a", 1]]})"),
       "model.unk_id: expected an integer from 0 to 0"},
      {with("normalizer", "[]"), "normalizer: expected an object"},
      {with("normalizer", "{}"), "normalizer.type: not found"},
      {with("normalizer", R"({"type": "Rot13"})"), "normalizer.type: expected a normalizer (BertNormalizer"},
      {with("normalizer", R"({"type": "Sequence", "normalizers": {}})"),
       "normalizer.normalizers: expected an array"},
      {with("normalizer", R"({"type": "Sequence", "normalizers": [{"type": 3}]})"),
       "normalizer.normalizers.0.type: expected a string, got 3"},
      {with("normalizer", deep), "expected sequences nested at most 16 deep"},
      {with("normalizer", R"({"type": "Prepend"})"), "normalizer.prepend: not found"},
      {with("normalizer", R"({"type": "Strip", "strip_left": 1})"),
       "normalizer.strip_left: expected true or false, got 1"},
      {with("normalizer", R"({"type": "Replace", "pattern": "x", "content": ""})"),
       "normalizer.pattern: expected an object with either String or Regex"},
      {with("normalizer", R"({"type": "Replace", "pattern": {"Regex": "("}, "content": ""})"),
       "normalizer.pattern.Regex: expected a regular expression (U_REGEX_MISMATCHED_PAREN"},
      {with("normalizer", R"({"type": "Precompiled", "precompiled_charsmap": "?"})"),
       "normalizer.precompiled_charsmap: expected base64"},
      {with("normalizer", R"({"type": "Precompiled", "precompiled_charsmap": "/////w=="})"),
       "normalizer.precompiled_charsmap: expected a character map"},
      {with("pre_tokenizer", R"({"type": "Jieba"})"), "pre_tokenizer.type: expected a pre-tokenizer (Bert"},
      {with("pre_tokenizer", R"({"type": "Split", "pattern": {"String": " "}, "behavior": "Eaten"})"),
       "pre_tokenizer.behavior: expected Removed, Isolated"},
      {with("pre_tokenizer", R"({"type": "Metaspace", "replacement": "__"})"),
       "pre_tokenizer.replacement: expected one character"},
      {with("pre_tokenizer", R"({"type": "Metaspace", "prepend_scheme": "last"})"),
       "expected first, always or never"},
      {with("pre_tokenizer", R"({"type": "FixedLength", "length": 0})"),
       "pre_tokenizer.length: expected an integer from 1"},
      {with("pre_tokenizer", R"({"type": "CharDelimiterSplit"})"), "pre_tokenizer.delimiter: not found"},
      {with("post_processor", R"({"type": "Luck"})"), "post_processor.type: expected a post-processor"},
      {with("post_processor", R"({"type": "BertProcessing", "cls": ["a"], "sep": ["b", 2]})"),
       "post_processor.cls: expected an array of a token and its id"},
      {with("post_processor",
            R"({"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A"}}], "pair": []})"),
       "post_processor.pair: expected a template with both A and B"},
      {with("post_processor",
            R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x"}}], "pair": []})"),
       "post_processor.single.0.SpecialToken.id: expected one of special_tokens, got \"x\""},
      {with("post_processor",
            R"({"type": "TemplateProcessing", "single": [{"Sequence": {"id": "B"}}], "pair": []})"),
       "post_processor.single.0.Sequence.id: expected A, got \"B\""},
      {with("decoder", R"({"type": "Morse"})"), "decoder.type: expected a decoder"},
      {with("decoder", R"({"type": "Strip", "content": " ", "start": -1, "stop": 0})"),
       "decoder.start: expected an integer"},
      {with("added_tokens", "{}"), "added_tokens: expected an array"},
      {with("added_tokens", R"([{"content": "x"}])"), "added_tokens.0.id: not found"},
      {with("added_tokens", R"([{"id": -5, "content": "x"}])"),
       "added_tokens.0.id: expected an integer from 0"},
      {with("added_tokens", R"([{"id": 3, "content": 4}])"),
       "added_tokens.0.content: expected a string, got 4"},
      {with("truncation", R"({"max_length": -1})"), "truncation.max_length: expected an integer from 0"},
      {with("truncation", R"({"max_length": 4, "strategy": "All"})"),
       "truncation.strategy: expected LongestFirst"},
      {with("padding", R"({"strategy": {"Fixed": 99999999999}})"),
       "padding.strategy.Fixed: expected an integer from 0"},
      {with("padding", R"({"strategy": "BatchLongest", "direction": "Up"})"),
       "padding.direction: expected Left or Right"},
  };
  const TemporaryFolder directory;
  for (const auto& item : cases) {
    spill(directory / "tokenizer.json", item.first);
    EXPECT_THAT(load_error(directory), AllOf(HasSubstr("tokenizer.json: "), HasSubstr(item.second)))
        << item.first.substr(0, 200);
  }
}

// A text of one kind of unknown character between known ones: every other token is spelled in three bytes.
TEST(TokenizerJson, UnknownTextOfAUnigramModelIsSpelledInBytes) {
  Json vocabulary = Json::array({{"<unk>", 0.0}, {"a", -1.0}});
  for (int byte = 0; byte < 256; ++byte) vocabulary.push_back({fmt::format("<0x{:02X}>", byte), -10.0});
  const Json file = {
      {"model", {{"type", "Unigram"}, {"unk_id", 0}, {"byte_fallback", true}, {"vocab", vocabulary}}}};
  const TemporaryFolder directory;
  spill(directory / "tokenizer.json", file.dump());
  const auto tokenizer = load_tokenizer(directory);
  constexpr std::size_t kTimes = 300000;  // minutes, were each to move those behind it
  std::string text;
  for (std::size_t i = 0; i < kTimes; ++i) text += "a\u2603";
  const Ids ids = tokenizer->encode(text, false).ids;
  ASSERT_EQ(ids.size(), 4 * kTimes);
  for (std::size_t i = 0; i < ids.size(); i += 4)
    ASSERT_EQ(
        Ids(ids.begin() + static_cast<std::ptrdiff_t>(i), ids.begin() + static_cast<std::ptrdiff_t>(i + 4)),
        (Ids{1, 2 + 0xE2, 2 + 0x98, 2 + 0x83}));
}

// A template may repeat a text, but a small file must not make a long text of a short one.
TEST(TokenizerJson, PostProcessorsRepeatATextAtMost64Times) {
  const auto repeating = [](int times) {
    Json single = Json::array();
    for (int i = 0; i < times; ++i) single.push_back({{"Sequence", {{"id", "A"}}}});
    const Json pair = {{{"Sequence", {{"id", "A"}}}}, {{"Sequence", {{"id", "B"}}}}};
    return Json{{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}};
  };
  const TemporaryFolder directory;
  const auto put = [&](const Json& processor) {
    spill(directory / "tokenizer.json", with("post_processor", processor.dump()));
  };
  put(repeating(64));
  EXPECT_EQ(load_tokenizer(directory)->encode("a").ids, Ids(64, 1));
  put(repeating(65));
  EXPECT_THAT(load_error(directory),
              HasSubstr("post_processor: expected a template that repeats a text at most 64"));
  put({{"type", "Sequence"}, {"processors", {repeating(8), repeating(9)}}});
  EXPECT_THAT(load_error(directory),
              HasSubstr("post_processor.processors.1: expected processors that repeat a text at most 64"));
}

// Which file transformers 5.12.1 reads each role from.
TEST(TokenizerJson, RolesComeFromTheMapUnlessTheConfigurationHasTheTokens) {
  const TemporaryFolder directory;
  spill(directory / "tokenizer.json", R"({"model": {"type": "WordLevel", "unk_token": "u",
      "vocab": {"u": 0, "a": 1, "b": 2, "c": 3}}})");
  spill(directory / "special_tokens_map.json", R"({"bos_token": "b", "eos_token": {"content": "b"}})");
  spill(directory / "tokenizer_config.json", R"({"bos_token": "a", "mask_token": "c"})");
  auto tokenizer = load_tokenizer(directory);
  EXPECT_EQ(tokenizer->bos_id(), 2);
  EXPECT_EQ(tokenizer->eos_id(), 2);
  EXPECT_EQ(tokenizer->mask_id(), 3);
  spill(directory / "tokenizer_config.json", R"({"bos_token": "a", "added_tokens_decoder": {}})");
  tokenizer = load_tokenizer(directory);
  EXPECT_EQ(tokenizer->bos_id(), 1);
  EXPECT_EQ(tokenizer->eos_id(), std::nullopt);
}

// What a user writes is never read as an added token; the template's own tokens are.
TEST(TokenizerJson, ReadsNoAddedTokensInDataOfChats) {
  const TemporaryFolder directory;
  spill(directory / "tokenizer.json", R"({"normalizer": {"type": "Lowercase"},
      "pre_tokenizer": {"type": "FixedLength", "length": 1},
      "added_tokens": [{"id": 5, "content": "<a>", "special": true, "normalized": false},
                       {"id": 6, "content": "<b>", "special": false, "normalized": true},
                       {"id": 7, "content": "<a", "special": true, "normalized": false, "rstrip": true}],
      "model": {"type": "WordLevel", "unk_token": "u", "vocab": {"u": 0, "<": 1, ">": 2, "a": 3, "b": 4}}})");
  const auto tokenizer = load_tokenizer(directory);
  const auto ids = [&](std::string_view text, std::vector<TextSpan> data) {
    return tokenizer->encode_chat(text, data).ids;
  };
  EXPECT_EQ(ids("<a><B>", {}), (Ids{5, 6}));
  EXPECT_EQ(ids("<a><B>", {}), tokenizer->encode("<a><B>", false).ids);
  EXPECT_EQ(ids("<a><B>", {{0, 6}}), (Ids{1, 3, 2, 1, 4, 2}));
  EXPECT_EQ(ids("<a><a><b><b>", {{3, 9}}), (Ids{5, 1, 3, 2, 1, 4, 2, 6}));
  EXPECT_EQ(ids("<a><b>", {{1, 2}, {4, 5}}), (Ids{1, 3, 2, 1, 4, 2}));  // a token of which a part is data
  EXPECT_EQ(ids("b<a>b", {{0, 1}, {4, 5}}), (Ids{4, 5, 4}));
  EXPECT_ERROR(tokenizer->encode_chat("\xFF", {}), "encode_chat: expected UTF-8");
}

// A damaged file is rejected, or loads and does not crash.
TEST(TokenizerJson, SurvivesDamage) {
  const Json cases = read_json<Json>(tokenizer_fixtures() / "whole.json")["cases"];
  const TemporaryFolder directory;
  std::mt19937 random(11);
  int refused = 0;
  for (const Json& item : cases) {
    if (item["tokenizer"].dump().size() > 20000) continue;
    for (int round = 0; round < 40; ++round) {
      std::string damaged = item["tokenizer"].dump();
      for (int flips = 1 + static_cast<int>(random() % 4); flips > 0; --flips) {
        const std::size_t at =
            random() % std::min<std::size_t>(damaged.size(), round % 2 == 0 ? 1500 : damaged.size());
        const char* const parts[] = {"0", "-1", "\"\"", "[]", "{}", "null", "1e99", "9", ",", "a"};
        damaged.replace(at, 1 + random() % 3, parts[random() % 10]);
      }
      spill(directory / "tokenizer.json", damaged);
      try {
        const auto tokenizer = load_tokenizer(directory);
        const std::string text = "Some \xC3\xA9t\xC3\xA9 [MASK] \xF0\x9F\x98\x80 \xEF\xAC\x81xt\n";
        for (const auto& offset : tokenizer->encode_pair(text, text).offsets) EXPECT_LE(offset.second, 22);
        tokenizer->decode(tokenizer->encode(text).ids);
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 20);
}

TEST(TokenizerJson, EndsExpressionsThatTakeTooLong) {
  const TemporaryFolder directory;
  spill(directory / "tokenizer.json",
        with("pre_tokenizer", R"({"type": "Split", "pattern": {"Regex": "(a|aa|a*)*(x|(a*)*)*y"},
      "behavior": "Isolated", "invert": false})"));
  const auto tokenizer = load_tokenizer(directory);
  EXPECT_ERROR(tokenizer->encode(std::string(300, 'a')), "(a|aa|a*)*(x|(a*)*)*y: the search took too much");
  EXPECT_EQ(tokenizer->encode("a").ids, Ids{1});
}

// Compares each scanner with ICU's execution of the same expression.
TEST(TokenizerJson, ScannersMatchTheirExpressions) {
  const std::string tail = R"([\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const std::string expressions[] = {
      std::string(kGpt2Expression),
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+)" + tail,
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+)" + tail,
      " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"};
  const char* const parts[] = {
      " ",          "  ",      "\n",     "\r\n",   "\t",     "\u00a0", "\u2003", "'s",     "'S",
      "'\u017f",    "'re",     "'LL",    "'",      "a",      "Word",   "\u00e9", "\u4e2d", "1",
      "22",         "4444",    "\u0663", "\u00b2", ".",      "!?",     "\u3002", "(",      "|",
      "\U0001F600", "e\u0301", "\u200d", "\u0085", "\u1c89", "-_",     "\u2028", "'v",     "'t"};
  const Json nothing;
  std::mt19937 random(5);
  for (const std::string& expression : expressions) {
    ASSERT_NE(known_scanner(expression), nullptr) << expression;
    const auto scanner = Pattern::regex(expression, JsonField(nothing, "scanner"))->search();
    const auto pattern = Pattern::regex(expression, JsonField(nothing, "ICU"), false);
    const auto regex = pattern->search();
    for (int round = 0; round < 4000; ++round) {
      std::string text;
      for (std::size_t i = random() % 9; i > 0; --i) text += parts[random() % std::size(parts)];
      std::vector<std::pair<std::size_t, std::size_t>> fast, slow;
      scanner->find(text, [&](std::size_t begin, std::size_t end) { fast.emplace_back(begin, end); });
      regex->find(text, [&](std::size_t begin, std::size_t end) { slow.emplace_back(begin, end); });
      ASSERT_EQ(fast, slow) << Json(text).dump(-1, ' ', true) << " by " << expression;
    }
  }
}

TEST(LegacyFiles, VocabTxtIsBert) {
  const TemporaryFolder directory;
  spill(directory / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\nworld\n##s\n,\r\nHello\n");
  const auto tokenizer = load_tokenizer(directory);
  const Encoding encoding = tokenizer->encode_pair("Hello, w\xC3\xB6rlds", "[MASK]");
  EXPECT_THAT(encoding.tokens,
              ElementsAre("[CLS]", "hello", ",", "world", "##s", "[SEP]", "[MASK]", "[SEP]"));
  EXPECT_THAT(encoding.type_ids, ElementsAre(0, 0, 0, 0, 0, 0, 1, 1));
  EXPECT_EQ(tokenizer->decode(encoding.ids), "hello, worlds");
  EXPECT_EQ(tokenizer->mask_id(), 4);
  EXPECT_EQ(tokenizer->pad_id(), 0);
  spill(directory / "tokenizer_config.json", R"({"do_lower_case": false, "model_max_length": 512})");
  const auto cased = load_tokenizer(directory);
  EXPECT_THAT(cased->encode("Hello", false).ids, ElementsAre(9));
  EXPECT_EQ(cased->model_max_length(), 512);
  cased->save(directory / "again");
  EXPECT_THAT(load_tokenizer(directory / "again")->encode("Hello", false).ids, ElementsAre(9));
  spill(directory / "vocab.txt", "[PAD]\nhello\n");
  EXPECT_THAT(load_error(directory), HasSubstr("vocab.txt: token [CLS] not found"));
  spill(directory / "vocab.txt", "\xFF\n");
  EXPECT_THAT(load_error(directory), HasSubstr("vocab.txt: expected UTF-8"));
}

TEST(LegacyFiles, VocabJsonAndMergesAreGpt2OrRoberta) {
  const TemporaryFolder directory;
  spill(directory / "merges.txt", "#version: 0.2\nl o\nlo w\n");
  spill(directory / "vocab.json",
        R"({"l": 0, "o": 1, "w": 2, "lo": 3, "low": 4, "\u0120": 5, "<|endoftext|>": 6})");
  const auto gpt2 = load_tokenizer(directory);
  EXPECT_THAT(gpt2->encode("low low<|endoftext|>lo").ids, ElementsAre(4, 5, 4, 6, 3));
  EXPECT_EQ(gpt2->eos_id(), 6);
  EXPECT_EQ(gpt2->decode(Ids{4, 5, 4, 6}), "low low");
  spill(directory / "vocab.json",
        R"({"<s>": 0, "</s>": 1, "<mask>": 2, "l": 3, "o": 4, "w": 5, "lo": 6, "low": 7,
      "\u0120": 8, "<pad>": 9, "<unk>": 10})");
  const auto roberta = load_tokenizer(directory);
  EXPECT_THAT(roberta->encode_pair("low", "lo <mask>").ids, ElementsAre(0, 7, 1, 1, 6, 2, 1));
  EXPECT_EQ(roberta->mask_id(), 2);
  spill(directory / "merges.txt", "l x\n");
  EXPECT_THAT(load_error(directory),
              HasSubstr("vocab.json: model.merges.0: expected two tokens of the vocab"));
}

TEST(LegacyFiles, SentencePieceModels) {
  const TemporaryFolder directory;
  std::filesystem::copy_file(text_fixtures() / "marian" / "target.spm", directory / "tokenizer.model");
  const auto plain = load_tokenizer(directory);
  const Encoding text = plain->encode("</s> the", false);
  EXPECT_NE(text.tokens[0], "</s>");
  EXPECT_EQ(plain->decode(text.ids), "</s> the");
  spill(directory / "tokenizer_config.json",
        R"({"eos_token": "</s>", "unk_token": "<unk>", "add_eos_token": true})");
  const auto configured = load_tokenizer(directory);
  EXPECT_EQ(configured->encode("</s> the").tokens[0], "</s>");
  EXPECT_EQ(configured->encode("the").tokens.back(), "</s>");
  EXPECT_EQ(configured->eos_id(), configured->token_to_id("</s>"));
  spill(directory / "tokenizer.model", "none");
  EXPECT_THAT(load_error(directory), HasSubstr("tokenizer.model: expected a SentencePiece model"));
}

TEST(TokenizerConfigFile, NamesAddsAndSaves) {
  const TemporaryFolder directory;
  const std::string document = with("padding", "null");
  spill(directory / "tokenizer.json", document);
  spill(directory / "tokenizer_config.json",
        R"({"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "add_bos_token": true,
      "eos_token": {"content": "b"}, "model_max_length": 1e30, "clean_up_tokenization_spaces": true,
      "added_tokens_decoder": {"3": {"content": "<x>", "special": false, "rstrip": true}}})");
  const auto tokenizer = load_tokenizer(directory);
  EXPECT_EQ(tokenizer->token_to_id("<x>"), 3);
  EXPECT_EQ(tokenizer->bos_id(), 4);
  EXPECT_EQ(tokenizer->eos_id(), 2);
  EXPECT_EQ(tokenizer->vocab_size(), 5);
  EXPECT_EQ(tokenizer->model_max_length(), std::nullopt);
  EXPECT_THAT(tokenizer->encode("a<x>  b").ids, ElementsAre(4, 1, 3, 2));
  EXPECT_EQ(tokenizer->decode(Ids{4, 1, 2, 3}), "a <x>");
  EXPECT_EQ(clean_up_spaces("it 's a test , is n't it ?"), "it's a test, isn't it?");
  tokenizer->save(directory / "again");
  EXPECT_EQ(slurp(directory / "again" / "tokenizer.json"), document);
  EXPECT_THAT(load_tokenizer(directory / "again")->encode("a<x>  b").ids, ElementsAre(4, 1, 3, 2));
  const std::pair<const char*, const char*> wrong[] = {
      {R"({"bos_token": 3})", "bos_token: expected a string, got 3"},
      {R"({"added_tokens_decoder": {"x": {"content": "y"}}})",
       "added_tokens_decoder.x: expected an id as its name"},
      {R"({"model_max_length": 0})", "model_max_length: expected a number from 1"},
      {R"({"additional_special_tokens": "x"})", "additional_special_tokens: expected an array"}};
  for (const auto& item : wrong) {
    spill(directory / "tokenizer_config.json", item.first);
    EXPECT_THAT(load_error(directory), AllOf(HasSubstr("tokenizer_config.json: "), HasSubstr(item.second)));
  }
}

// The class, or Gemma's with the type of the model, as transformers 5.24 decides it.
TEST(TokenizerConfigFile, TextsOfSiglip2AreInSmallLetters) {
  const TemporaryFolder directory;
  spill(directory / "tokenizer.json",
        with("normalizer", R"({"type": "Replace", "pattern": {"String": "z"}, "content": "b"})"));
  const auto ids = [&](const char* name, const char* type) {
    spill(directory / "tokenizer_config.json", std::string(R"({"tokenizer_class": ")") + name + "\"}");
    spill(directory / "config.json", std::string(R"({"model_type": ")") + type + "\"}");
    return load_tokenizer(directory)->encode("Z").ids;
  };
  EXPECT_THAT(ids("Siglip2Tokenizer", "siglip"), ElementsAre(2));
  EXPECT_THAT(ids("GemmaTokenizer", "siglip2"), ElementsAre(2));
  EXPECT_THAT(ids("GemmaTokenizerFast", "siglip2"), ElementsAre(2));
  EXPECT_THAT(ids("GemmaTokenizer", "gemma2"), ElementsAre(0));
  EXPECT_THAT(ids("RobertaTokenizer", "siglip2"), ElementsAre(0));
}

}  // namespace
}  // namespace heed
