// Checks each component of tokenizer.json against the tokenizers library, and families of SentencePiece
// models against transformers (see fixtures/tokenizers/README.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "fixtures.h"
#include "heed/error.h"
#include "heed/text/tokenizer.h"
#include "reference/error.h"
#include "reference/json.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

using Json = nlohmann::ordered_json;
using Ids = std::vector<std::int64_t>;
using Tokens = std::vector<std::string>;
using Offsets = std::vector<std::pair<std::int64_t, std::int64_t>>;

template <class T>
std::vector<T> list(const Json& json) {
  return json.get<std::vector<T>>();
}

std::string shown(const Json& json) { return json.dump(-1, ' ', true, Json::error_handler_t::replace); }

void check_texts(const Tokenizer& tokenizer, const Json& item) {
  for (const Json& expected : item["texts"]) {
    const std::string label = item["name"].get<std::string>() + " on " + shown(expected[0]);
    const Encoding encoding = tokenizer.encode(expected[0].get<std::string>());
    EXPECT_EQ(encoding.ids, list<std::int64_t>(expected[1])) << label;
    EXPECT_EQ(shown(encoding.tokens), shown(expected[2])) << label;
    EXPECT_EQ(encoding.offsets, expected[3].get<Offsets>()) << label;
    if (expected.size() > 4) {
      const Ids plain = tokenizer.encode(expected[0].get<std::string>(), false).ids;
      EXPECT_EQ(plain, list<std::int64_t>(expected[4])) << label;
    }
  }
}

void check_pairs(const Tokenizer& tokenizer, const Json& item) {
  for (const Json& expected : item["pairs"]) {
    const Encoding encoding = tokenizer.encode_pair(expected[0].get<std::string>(),
                                                    expected[1].get<std::string>(), expected[2].get<bool>());
    const std::string label = item["name"].get<std::string>() + " on " + shown(expected);
    EXPECT_EQ(encoding.ids, list<std::int64_t>(expected[3])) << label;
    EXPECT_EQ(encoding.tokens, list<std::string>(expected[4])) << label;
    EXPECT_EQ(encoding.offsets, expected[5].get<Offsets>()) << label;
    EXPECT_EQ(encoding.type_ids, list<std::int64_t>(expected[6])) << label;
    EXPECT_EQ(encoding.special_tokens_mask, list<std::int8_t>(expected[7])) << label;
    EXPECT_EQ(encoding.sequence_ids, list<std::int8_t>(expected[8])) << label;
  }
}

void check_windows(const Tokenizer& tokenizer, const Json& item) {
  const std::map<std::string, Truncation::Strategy> strategies = {
      {"longest_first", Truncation::Strategy::longest_first},
      {"only_first", Truncation::Strategy::only_first},
      {"only_second", Truncation::Strategy::only_second}};
  for (const Json& expected : item["windows"]) {
    const std::string label = item["name"].get<std::string>() + " on " + shown(expected);
    const auto first = expected[0].get<std::string>();
    const auto second = expected[1].is_null() ? std::string() : expected[1].get<std::string>();
    const auto windows = [&] {
      return tokenizer.encode_windows(
          first, expected[1].is_null() ? std::nullopt : std::optional<std::string_view>(second),
          {expected[2].get<std::int64_t>(), strategies.at(expected[4].get<std::string>()),
           expected[3].get<std::int64_t>(), expected[5].get<std::string>() == "left"});
    };
    if (expected[6].is_null()) {
      EXPECT_ERROR(windows(), "truncation: ") << label;
      continue;
    }
    std::vector<Ids> ids;
    for (const Encoding& window : windows()) ids.push_back(window.ids);
    EXPECT_EQ(shown(ids), shown(expected[6])) << label;
  }
}

void check_decoding(const Tokenizer& tokenizer, const Json& item) {
  for (const Json& expected : item["decode"]) {
    const std::string label = item["name"].get<std::string>() + " on " + shown(expected);
    const Ids ids = list<std::int64_t>(expected[0]);
    EXPECT_EQ(tokenizer.decode(ids, false), expected[1].get<std::string>()) << label;
    EXPECT_EQ(tokenizer.decode(ids, true), expected[2].get<std::string>()) << label;
  }
}

/// The streamed text equals the text of all ids.
void check_streaming(const Tokenizer& tokenizer, const Json& item) {
  for (const Json& expected : item["decode"]) {
    const Ids ids = list<std::int64_t>(expected[0]);
    StreamingDecoder stream(tokenizer);
    std::string joined;
    for (const std::int64_t id : ids) joined += stream.push(id);
    joined += stream.finish();
    EXPECT_EQ(joined, tokenizer.decode_clean(ids)) << item["name"] << " on " << shown(expected[0]);
  }
}

// The continuation of a prompt joins to its text, wherever the ids are split, both as a whole and streamed.
void check_continuations(const Tokenizer& tokenizer, const Json& item) {
  for (const Json& expected : item["decode"]) {
    const Ids ids = list<std::int64_t>(expected[0]);
    for (std::size_t cut = 0; cut <= ids.size(); ++cut) {
      const std::span<const std::int64_t> prompt(ids.data(), cut), rest(ids.data() + cut, ids.size() - cut);
      const std::string where =
          item["name"].get<std::string>() + " on " + shown(expected[0]) + " cut at " + std::to_string(cut);
      const std::string added = tokenizer.decode_continuation(prompt, rest);
      StreamingDecoder stream(tokenizer);
      stream.begin_after(prompt);
      std::string streamed;
      for (const std::int64_t id : rest) streamed += stream.push(id);
      EXPECT_EQ(streamed + stream.finish(), added) << where;
      if (tokenizer.cleans_up_spaces()) continue;  // the text of all is also cleaned up across the split
      std::string before = tokenizer.decode(prompt);
      const std::string all = expected[2];  // as the library decodes it, without special tokens
      // The prompt ends inside a character.
      while (!all.starts_with(before) && before.ends_with("\xEF\xBF\xBD")) before.resize(before.size() - 3);
      // A run of byte tokens that is not valid UTF-8 as a whole changes back to its beginning, which is in
      // the prompt.
      if (!all.starts_with(before)) continue;
      EXPECT_EQ(before + added, all) << where;
    }
  }
}

void check_roles(const Tokenizer& tokenizer, const Json& item) {
  const auto id = [&](const char* role) -> std::optional<std::int64_t> {
    const Json& expected = item["roles"][role];
    return expected.is_null() ? std::nullopt : std::optional(expected.get<std::int64_t>());
  };
  EXPECT_EQ(tokenizer.bos_id(), id("bos")) << item["name"];
  EXPECT_EQ(tokenizer.eos_id(), id("eos")) << item["name"];
  EXPECT_EQ(tokenizer.unk_id(), id("unk")) << item["name"];
  EXPECT_EQ(tokenizer.pad_id(), id("pad")) << item["name"];
  EXPECT_EQ(tokenizer.mask_id(), id("mask")) << item["name"];
  EXPECT_EQ(tokenizer.cls_id(), id("cls")) << item["name"];
  EXPECT_EQ(tokenizer.sep_id(), id("sep")) << item["name"];
  EXPECT_EQ(tokenizer.vocab_size(), item["size"].get<std::int64_t>()) << item["name"];
}

void write_files(const Json& item, const TemporaryFolder& directory) {
  if (item.contains("tokenizer")) return spill(directory / "tokenizer.json", item["tokenizer"].dump());
  for (const auto& [name, content] : item["files"].items()) spill(directory / name, content.dump());
  std::filesystem::copy_file(tokenizer_fixtures() / "families" / item["model"].get<std::string>(),
                             directory / item["file"].get<std::string>());
}

void check_file(const char* name, bool streams) {
  const Json cases = read_json<Json>(tokenizer_fixtures() / name)["cases"];
  EXPECT_GE(cases.size(), 10u);
  for (const Json& item : cases) {
    const TemporaryFolder directory;
    write_files(item, directory);
    const auto tokenizer = load_tokenizer(directory);
    check_texts(*tokenizer, item);
    if (item.contains("roles")) check_roles(*tokenizer, item);
    if (item.contains("pairs")) check_pairs(*tokenizer, item);
    if (item.contains("windows")) check_windows(*tokenizer, item);
    if (item.contains("decode")) check_decoding(*tokenizer, item);
    if (item.contains("decode") && streams) check_streaming(*tokenizer, item);
    if (item.contains("decode") && streams) check_continuations(*tokenizer, item);
  }
}

TEST(TokenizerComponents, MatchTheTokenizersLibrary) { check_file("components.json", false); }

TEST(TokenizersOfSpaces, MatchTheTokenizersLibrary) { check_file("spaces.json", false); }

TEST(Continuations, KeepTheSpaceThatDecodingAloneDrops) {
  const Json cases = read_json<Json>(tokenizer_fixtures() / "whole.json")["cases"];
  for (const Json& item : cases) {
    if (item["name"] != "llama-bpe") continue;
    const TemporaryFolder directory;
    write_files(item, directory);
    const auto tokenizer = load_tokenizer(directory);
    const Ids prompt = tokenizer->encode("the cat").ids, all = tokenizer->encode("the cat sat").ids;
    ASSERT_TRUE(std::equal(prompt.begin(), prompt.end(), all.begin()));
    const Ids rest(all.begin() + static_cast<std::ptrdiff_t>(prompt.size()), all.end());
    EXPECT_EQ(tokenizer->decode(rest), "sat");
    EXPECT_EQ(tokenizer->decode_continuation(prompt, rest), " sat");
    EXPECT_EQ(tokenizer->decode_continuation({}, all), "the cat sat");
    EXPECT_EQ(tokenizer->decode_continuation(Ids{1 << 20}, rest), "sat");  // not an id of the tokenizer
    return;
  }
  ADD_FAILURE() << "no llama-bpe";
}

TEST(WholeTokenizers, MatchTheTokenizersLibrary) { check_file("whole.json", true); }

TEST(SentencePieceFamilies, MatchTransformers) { check_file("families.json", true); }

}  // namespace
}  // namespace heed
