// Tokenizers written into GGUF files, as they are read again.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "files/gguf_file.h"
#include "heed/text/tokenizer.h"
#include "reference/error.h"
#include "reference/temporary_folder.h"
#include "text/loading/gguf_tokenizer.h"

namespace heed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A tokenizer.json of byte pairs; `steps`: its pre-tokenizers.
std::string byte_level_json(const std::string& steps, const std::string& more = "") {
  return R"({"version": "1.0", "added_tokens": [
      {"id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
      {"id": 1, "content": "<|x|>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
      {"id": 9, "content": "own", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": false}],
      "pre_tokenizer": {"type": "Sequence", "pretokenizers": [)" +
         steps + R"(]},)" + more + R"( "decoder": {"type": "ByteLevel"},
      "model": {"type": "BPE", "vocab": {"<s>": 0, "<|x|>": 1, "a": 2, "b": 3, "1": 4, "2": 5, "Ġ": 6, "ab": 7, "Ġab": 8},
      "merges": [["a", "b"], ["Ġ", "ab"]]}})";
}

constexpr const char* kBytes =
    R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false})";
constexpr const char* kDigits = R"({"type": "Digits", "individual_digits": true},
    {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true})";

class WrittenGgufTokenizers : public ::testing::Test {
 protected:
  // Writes what the folder has into a file.
  GgufFile write(std::int64_t rows, const std::vector<std::int64_t>& ends = {}) {
    GgufValues values;
    values.text("general.architecture", "llama");
    put_gguf_tokenizer(ModelFiles(folder_.path()), rows, ends, values);
    write_gguf(folder_ / "x.gguf", values, {});
    return GgufFile::open(folder_ / "x.gguf");
  }
  void expect_same(const std::string& text) {
    const auto own = load_tokenizer(folder_.path()), read = load_tokenizer(folder_ / "x.gguf");
    EXPECT_EQ(read->encode(text).ids, own->encode(text).ids) << text;
    const std::vector<std::int64_t> ids = own->encode(text, false).ids;
    EXPECT_EQ(read->decode(ids), own->decode(ids)) << text;
  }
  TemporaryFolder folder_;
};

TEST_F(WrittenGgufTokenizers, OfBytePairsHaveTheNameOfTheirPatterns) {
  spill(folder_ / "tokenizer.json", byte_level_json(kDigits));
  spill(folder_ / "tokenizer_config.json",
        R"({"bos_token": "<s>", "eos_token": "<|x|>", "chat_template": "{{ messages }}"})");
  const GgufFile file = write(12, {1, 2, 3, 4});
  EXPECT_EQ(file.string("tokenizer.ggml.model"), "gpt2");
  EXPECT_EQ(file.string("tokenizer.ggml.pre"), "smollm");
  EXPECT_THAT(file.strings("tokenizer.ggml.tokens"),
              ElementsAre("<s>", "<|x|>", "a", "b", "1", "2", "Ġ", "ab", "Ġab", "own", "[PAD10]", "[PAD11]"));
  EXPECT_THAT(file.integers("tokenizer.ggml.token_type"), ElementsAre(3, 3, 1, 1, 1, 1, 1, 1, 1, 4, 5, 5));
  EXPECT_THAT(file.strings("tokenizer.ggml.merges"), ElementsAre("a b", "Ġ ab"));
  EXPECT_EQ(file.integer("tokenizer.ggml.bos_token_id"), 0);
  EXPECT_EQ(file.integer("tokenizer.ggml.eos_token_id"), 1);
  EXPECT_EQ(file.integer("tokenizer.ggml.eot_token_id"), 2);
  EXPECT_EQ(file.integer("tokenizer.ggml.eom_token_id"), 3);
  EXPECT_EQ(file.boolean("tokenizer.ggml.add_bos_token"), false);
  EXPECT_EQ(file.string("tokenizer.chat_template"), "{{ messages }}");
  EXPECT_FALSE(file.has("tokenizer.chat_templates"));
  for (const char* text : {"ab ab12", "ab<|x|>own b", "", "12ab a"}) expect_same(text);
}

// transformers 5 writes byte_fallback for byte pairs that it has read from a GGUF file.
TEST_F(WrittenGgufTokenizers, OfBytesHaveNoFallbackWhateverTheFlagSays) {
  std::string json = byte_level_json(kDigits);
  const std::string type = R"("type": "BPE",)";
  json.insert(json.find(type) + type.size(), R"( "byte_fallback": true,)");
  spill(folder_ / "tokenizer.json", json);
  EXPECT_EQ(write(12).string("tokenizer.ggml.model"), "gpt2");
  for (const char* text : {"ab ab12", "own<|x|>b"}) expect_same(text);
}

TEST_F(WrittenGgufTokenizers, HaveAllChatTemplates) {
  spill(folder_ / "tokenizer.json", byte_level_json(kDigits));
  spill(
      folder_ / "tokenizer_config.json",
      R"({"chat_template": [{"name": "tool_use", "template": "a"}, {"name": "default", "template": "b"}]})");
  const GgufFile file = write(12);
  EXPECT_EQ(file.string("tokenizer.chat_template"), "b");
  EXPECT_EQ(file.string("tokenizer.chat_template.tool_use"), "a");
  EXPECT_THAT(file.strings("tokenizer.chat_templates"), ElementsAre("tool_use"));
}

TEST_F(WrittenGgufTokenizers, SayWhatIsAddedAroundAText) {
  spill(folder_ / "tokenizer.json",
        byte_level_json(kDigits, R"("post_processor": {"type": "TemplateProcessing",
          "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
          "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
          "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}},)"));
  spill(folder_ / "tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "<|x|>"})");
  EXPECT_EQ(write(12).boolean("tokenizer.ggml.add_bos_token"), true);
  expect_same("ab ab");
  spill(folder_ / "tokenizer_config.json", R"({"bos_token": "<|x|>"})");
  EXPECT_ERROR(write(12), "tokens around a text: expected bos before it and eos after it");
}

TEST_F(WrittenGgufTokenizers, KnowNfcAndIgnoredMerges) {
  const std::string qwen = R"x({"type": "Split", "behavior": "Isolated", "invert": false, "pattern": {"Regex":
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}}, )x" +
                           std::string(kBytes);
  spill(folder_ / "tokenizer.json", byte_level_json(qwen, R"("normalizer": {"type": "NFC"},)"));
  EXPECT_EQ(write(10).string("tokenizer.ggml.pre"), "qwen2");
  spill(folder_ / "tokenizer.json", byte_level_json(qwen));
  EXPECT_EQ(write(10).string("tokenizer.ggml.pre"), "stablelm2");
  EXPECT_ERROR(write(9), "tokenizer: expected at most 9 tokens, as the model's table has, got 10");
}

// A tokenizer.json with a token for every byte behind <unk>, <s> and U+2581, which stands for a space.
std::string byte_fallback_json(const std::string& splits, const std::string& merges) {
  std::string vocab = R"("<unk>": 0, "<s>": 1, "▁": 2, "a": 3, "b": 4, "ab": 5, "▁a": 6, "▁ab": 7, "own": 8)";
  for (int byte = 0; byte < 256; ++byte) vocab += fmt::format(R"(, "<0x{:02X}>": {})", byte, 9 + byte);
  const char* added =
      R"("single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special":)";
  return fmt::format(R"({{"version": "1.0", "added_tokens": [{{"id": 1, "content": "<s>", {0} true}},
      {{"id": 8, "content": "own", {0} false}}], {1}, "model": {{"type": "BPE", "unk_token": "<unk>", "fuse_unk": true,
      "byte_fallback": true, "vocab": {{{2}}}, "merges": [{3}]}},
      "decoder": {{"type": "Sequence", "decoders": [{{"type": "Replace", "pattern": {{"String": "▁"}}, "content": " "}},
      {{"type": "ByteFallback"}}, {{"type": "Fuse"}}]}}}})",
                     added, splits, vocab, merges);
}

constexpr const char* kReplaced =
    R"("pre_tokenizer": null, "normalizer": {"type": "Sequence", "normalizers": [
    {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]})";
constexpr const char* kMerges = R"("a b", "▁ a", "▁a b", "▁ ab")";

TEST_F(WrittenGgufTokenizers, WithBytesForOtherCharactersAreSentencePieceModels) {
  spill(folder_ / "tokenizer.json", byte_fallback_json(kReplaced, kMerges));
  spill(folder_ / "tokenizer_config.json", R"({"bos_token": "<s>", "unk_token": "<unk>"})");
  const GgufFile file = write(266);
  EXPECT_EQ(file.string("tokenizer.ggml.model"), "llama");
  const std::vector<double> scores = file.numbers("tokenizer.ggml.scores");
  EXPECT_THAT(std::vector<double>(scores.begin() + 2, scores.begin() + 8),
              ElementsAre(-3, -3, -3, 0, -1, -2));
  const std::vector<std::int64_t> types = file.integers("tokenizer.ggml.token_type");
  EXPECT_THAT(std::vector<std::int64_t>(types.begin(), types.begin() + 10),
              ElementsAre(2, 3, 1, 1, 1, 1, 1, 1, 4, 6));
  EXPECT_EQ(file.boolean("tokenizer.ggml.add_space_prefix"), true);
  const std::vector<std::string> texts = {"ab ab", "aab  b", "b é", "a<s>own ab"};
  const auto expect_same_ids = [&](const std::string& text) {
    EXPECT_EQ(load_tokenizer(folder_ / "x.gguf")->encode(text).ids,
              load_tokenizer(folder_.path())->encode(text).ids)
        << text;
  };
  for (const std::string& text : texts) expect_same_ids(text);

  spill(folder_ / "tokenizer.json",
        byte_fallback_json(R"("normalizer": null, "pre_tokenizer": {"type": "Metaspace", "replacement": "▁",
                              "prepend_scheme": "never", "split": false})",
                           kMerges));
  EXPECT_EQ(write(265).boolean("tokenizer.ggml.add_space_prefix"), false);
  for (const std::string& text : texts) expect_same_ids(text);
}

TEST_F(WrittenGgufTokenizers, WithBytesRefuseMergesThatScoresCannotSay) {
  const auto error = [&](const std::string& splits, const std::string& merges) {
    spill(folder_ / "tokenizer.json", byte_fallback_json(splits, merges));
    return error_of([&] { write(265); });
  };
  const std::string told = "merges: expected all pairs that make a token, side by side";
  EXPECT_THAT(error(kReplaced, R"("a b", "▁ a", "▁a b")"), HasSubstr(told));
  EXPECT_THAT(error(kReplaced, R"("▁ ab", "a b", "▁a b", "▁ a")"), HasSubstr(told));
  EXPECT_THAT(error(R"("normalizer": null, "pre_tokenizer": {"type": "Metaspace", "replacement": "▁",
                       "prepend_scheme": "always", "split": true})",
                    kMerges),
              HasSubstr("pre_tokenizer: expected Metaspace that does not split"));
  EXPECT_THAT(error(R"("normalizer": {"type": "NFC"}, "pre_tokenizer": null)", kMerges),
              HasSubstr("normalizer: expected U+2581 for spaces"));
}

TEST_F(WrittenGgufTokenizers, RefuseWhatLlamaCppDoesNotHave) {
  const auto error = [&](const std::string& steps, const std::string& more = "") {
    spill(folder_ / "tokenizer.json", byte_level_json(steps, more));
    return error_of([&] { write(12); });
  };
  EXPECT_THAT(error(R"({"type": "Digits", "individual_digits": true},)" + std::string(kBytes)),
              HasSubstr("tokenizer.json: pre_tokenizer: expected patterns for which llama.cpp has a name"));
  EXPECT_THAT(error(kDigits + (", " + std::string(kBytes))),
              HasSubstr("pre_tokenizer: expected ByteLevel once"));
  EXPECT_THAT(error(R"({"type": "Whitespace"})"), HasSubstr("pre_tokenizer: expected Split, Digits"));
  EXPECT_THAT(error(kDigits, R"("normalizer": {"type": "Lowercase"},)"),
              HasSubstr("normalizer: expected none or NFC"));
  std::filesystem::remove(folder_ / "tokenizer.json");
  spill(folder_ / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n");
  EXPECT_ERROR(write(12), "expected a tokenizer.json or a tokenizer.model, got another");
}

}  // namespace
}  // namespace heed
