#include "heed/generate/translate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "generate/translation_sources.h"
#include "heed/error.h"
#include "heed/models/model.h"
#include "heed/nn/context.h"
#include "heed/ops/loss.h"
#include "heed/text/unicode.h"
#include "reference/error.h"

namespace heed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kEnd = 0;
constexpr std::int64_t kPad = 1;
constexpr std::int64_t kVocabulary = 130;

/// One token per character: its code, or 127 if it is not ASCII. Appends an end token.
class CharacterTokenizer final : public Tokenizer {
 public:
  std::string decode(std::span<const std::int64_t> ids, bool) const override {
    std::string text;
    for (const std::int64_t id : ids) {
      if (id > kPad) text += static_cast<char>(id);
    }
    return text;
  }
  std::int64_t vocab_size() const override { return kVocabulary; }
  std::string token(std::int64_t id) const override {
    return id == kEnd ? "</s>" : std::string(1, static_cast<char>(id));
  }
  std::optional<std::int64_t> token_to_id(std::string_view) const override { return std::nullopt; }
  bool is_special(std::int64_t id) const override { return id <= kPad; }
  std::optional<std::int64_t> eos_id() const override { return kEnd; }
  void save(const std::filesystem::path&) const override {}

 protected:
  Encoding tokenize(std::string_view text) const override {
    Encoding encoding;
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if ((byte & 0xC0) == 0x80) continue;
      const auto place = static_cast<std::int64_t>(encoding.ids.size());
      const std::int64_t id = byte < 127 ? byte : 127;
      encoding.push(id, token(id), {place, place + 1});
    }
    return encoding;
  }
  Encoding post_process(Encoding first, std::optional<Encoding>, bool add_special_tokens) const override {
    if (add_special_tokens) first.push_special(kEnd, "</s>");
    return first;
  }
};

/// Repeats the source in capitals and attends to the character that it repeats. Rows contain their source, as
/// a cache would.
class EchoDecoding final : public Decoding {
 public:
  explicit EchoDecoding(const ModelInput& source) {
    width_ = source.ids.size(1);
    for (std::int64_t b = 0; b < source.ids.size(0); ++b) {
      const auto* ids = source.ids.data<std::int64_t>() + b * width_;
      const auto* mask = source.mask.data<std::int64_t>() + b * width_;
      sources_.emplace_back(ids, ids + std::count(mask, mask + width_, 1));
    }
  }
  Tensor step(const Tensor& ids, Context& context) override {
    Tensor logits = Tensor::zeros({rows(), kVocabulary});
    Tensor attention = Tensor::zeros({rows(), 1, 1, width_});
    for (std::int64_t r = 0; r < rows(); ++r) {
      const auto& source = sources_[static_cast<std::size_t>(r)];
      const std::size_t at = std::min(static_cast<std::size_t>(length_), source.size() - 1);
      const std::int64_t lower = source[at];
      const std::int64_t token = lower >= 'a' && lower <= 'z' ? lower - 32 : lower;
      logits.data<float>()[r * kVocabulary + token] = 20;
      logits.data<float>()[r * kVocabulary + '#'] = 10;  // the second-best token
      attention.data<float>()[r * width_ + static_cast<std::int64_t>(at)] = 1;
    }
    length_ += ids.size(1);
    if (context.wants("decoder.layers.0.cross_attn.weights")) {
      context.taps->emit("decoder.layers.0.cross_attn.weights", attention);
    }
    return logits;
  }
  void reorder(std::span<const std::int64_t> rows) override {
    std::vector<std::vector<std::int64_t>> sources;
    for (const std::int64_t row : rows) sources.push_back(sources_.at(static_cast<std::size_t>(row)));
    sources_ = std::move(sources);
  }
  std::int64_t rows() const override { return static_cast<std::int64_t>(sources_.size()); }
  std::int64_t length() const override { return length_; }

 private:
  std::vector<std::vector<std::int64_t>> sources_;
  std::int64_t width_ = 0;
  std::int64_t length_ = 0;
};

class EchoModel final : public EncoderDecoderModel {
 public:
  explicit EchoModel(std::optional<std::int64_t> positions) : positions_(positions) {}
  std::string family() const override { return "echo"; }
  const std::vector<Parameter>& parameters() const override { return parameters_; }
  TensorMap forward(const TensorMap&, const ForwardOptions&, Context&) const override { return {}; }
  void save(const std::filesystem::path&, DType) const override {}
  std::optional<std::int64_t> max_positions() const override { return positions_; }
  std::int64_t vocab_size() const override { return kVocabulary; }
  std::int64_t decoder_start_id() const override { return kPad; }
  std::int64_t pad_id() const override { return kPad; }
  std::int64_t eos_id() const override { return kEnd; }
  Tensor decoder_inputs(const Tensor&, std::int64_t) const override { return {}; }
  Tensor loss(const ModelInput&, const Tensor&, const CrossEntropyOptions&, Context&) const override {
    return {};
  }
  Tensor encode(const ModelInput&, Context&) const override { return {}; }
  std::unique_ptr<Decoding> decode(const ModelInput& source, Context&) const override {
    largest_batch = std::max(largest_batch, source.ids.numel());
    return std::make_unique<EchoDecoding>(source);
  }
  mutable std::int64_t largest_batch = 0;

 private:
  std::vector<Parameter> parameters_;
  std::optional<std::int64_t> positions_;
};

std::vector<std::string> texts_of(const std::vector<Translation>& translations) {
  std::vector<std::string> texts;
  for (const Translation& translation : translations) texts.push_back(translation.text());
  return texts;
}

TEST(Translate, KeepsOrderAndNumberOfLinesWhateverTheBatches) {
  const EchoModel model(100);
  const CharacterTokenizer tokenizer;
  const std::vector<std::string> texts{"one", "",    "a longer line of text", "x",
                                       "",    "two", "middle sized",          "three"};
  for (const std::int64_t beams : {1, 3}) {
    for (const std::int64_t batch_tokens : {1, 30, 100, 10000}) {
      const auto translations =
          translate(model, tokenizer, texts,
                    {.task = {.batch_tokens = batch_tokens}, .generation = {.num_beams = beams}});
      EXPECT_THAT(texts_of(translations),
                  ElementsAre("ONE", "", "A LONGER LINE OF TEXT", "X", "", "TWO", "MIDDLE SIZED", "THREE"));
    }
  }
  EXPECT_TRUE(translate(model, tokenizer, {}, {}).empty());
}

TEST(Translate, BatchesStayWithinTheTokens) {
  const EchoModel model(100);
  const std::vector<std::string> texts(20, "123456789");
  translate(model, CharacterTokenizer(), texts, {.task = {.batch_tokens = 45}});
  EXPECT_EQ(model.largest_batch, 40);
  EXPECT_ERROR(translate(model, CharacterTokenizer(), texts, {.task = {.batch_tokens = 0}}),
               "batch_tokens of at least 1, got 0");
}

TEST(Translate, GivesCandidatesScoresAndTokens) {
  const EchoModel model(100);
  const std::vector<std::string> texts{"ab", ""};
  const auto translations = translate(model, CharacterTokenizer(), texts,
                                      {.generation = {.num_beams = 2, .num_return_sequences = 2}});
  ASSERT_EQ(translations[0].candidates.size(), 2u);
  const TranslationCandidate& best = translations[0].candidates[0];
  EXPECT_THAT(best.hypothesis.ids, ElementsAre('A', 'B', kEnd));
  EXPECT_THAT(best.tokens, ElementsAre("A", "B", "</s>"));
  EXPECT_THAT(translations[0].source_tokens, ElementsAre("a", "b", "</s>"));
  // Each token has probability e^20 / (e^20 + e^10 + 128).
  const double log_probability = -std::log1p((std::exp(10.0) + 128) / std::exp(20.0));
  EXPECT_NEAR(best.hypothesis.score, 3 * log_probability, 1e-5);
  EXPECT_NEAR(best.hypothesis.beam_score, log_probability, 1e-5);
  EXPECT_EQ(translations[1].candidates.size(), 2u);
}

TEST(Translate, CapturesAttention) {
  const EchoModel model(100);
  const std::vector<std::string> texts{"abc", "a much longer line"};
  const auto translations =
      translate(model, CharacterTokenizer(), texts,
                {.generation = {.num_beams = 2}, .capture = {"decoder.layers.*.cross_attn.weights"}});
  const Tensor attention =
      translations[0].candidates[0].hypothesis.captured.at("decoder.layers.0.cross_attn.weights");
  ASSERT_EQ(attention.shape(), (Shape{1, 4, 4}));
  EXPECT_THAT(attention.to_vector<float>(), ElementsAre(1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1));
}

TEST(Translate, ReplacesInvalidUtf8AndTells) {
  std::map<std::size_t, std::string> warnings;
  const std::vector<std::string> texts{"good",
                                       "b\xFF"
                                       "d\xC0"};
  TranslateOptions options;
  options.task.on_warning = [&](std::size_t line, const std::string& message) { warnings[line] = message; };
  const auto translations = translate(EchoModel(100), CharacterTokenizer(), texts, options);
  EXPECT_EQ(translations[0].text(), "GOOD");
  EXPECT_EQ(translations[1].text(),
            "B\x7F"
            "D\x7F");
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[1], HasSubstr("2 invalid UTF-8"));
}

TEST(Translate, LongLinesAreCutSplitOrRefused) {
  const EchoModel model(11);  // ten characters and the end token
  const CharacterTokenizer tokenizer;
  const std::vector<std::string> texts{"short", "Hello. How are you? Fine."};
  std::map<std::size_t, std::string> warnings;
  TranslateOptions options;
  options.task.on_warning = [&](std::size_t line, const std::string& message) {
    warnings[line] += message + "\n";
  };
  EXPECT_THAT(texts_of(translate(model, tokenizer, texts, options)), ElementsAre("SHORT", "HELLO. HOW"));
  EXPECT_THAT(warnings[1], HasSubstr("more than the model's 11 positions: the rest is ignored"));
  EXPECT_EQ(warnings.count(0), 0u);
  options.long_lines = LongLines::split;
  const auto split = translate(model, tokenizer, texts, options);
  EXPECT_THAT(texts_of(split), ElementsAre("SHORT", "HELLO. HOW ARE YOU? FINE."));
  EXPECT_EQ(split[1].candidates[0].hypothesis.ids.size(), split[1].candidates[0].tokens.size());
  EXPECT_THAT(warnings[1], HasSubstr("3 parts"));
  options.capture = {"*"};
  EXPECT_ERROR(translate(model, tokenizer, texts, options),
               "expected either long lines to be split or attention to be captured, got both");
  options.capture.clear();
  options.long_lines = LongLines::error;
  EXPECT_ERROR(translate(model, tokenizer, texts, options),
               "translate: text 2: expected at most 11 tokens, got 26");
  std::map<std::size_t, std::string> refused;
  options.task.on_error = [&](std::size_t line, const std::string& message) { refused[line] = message; };
  options.task.first_index = 7;
  EXPECT_THAT(texts_of(translate(model, tokenizer, texts, options)), ElementsAre("SHORT", ""));
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_THAT(refused[8], HasSubstr("expected at most 11 tokens, got 26"));
}

TEST(Translate, PutsThePrefixBeforeEveryTextThatIsNotBlank) {
  const EchoModel model(11);
  TranslateOptions options;
  options.prefix = "to: ";
  const std::vector<std::string> texts{"one", "", "two three six"};
  EXPECT_THAT(texts_of(translate(model, CharacterTokenizer(), texts, options)),
              ElementsAre("TO: ONE", "", "TO: TWO TH"));
  options.long_lines = LongLines::split;
  EXPECT_THAT(texts_of(translate(model, CharacterTokenizer(), texts, options)),
              ElementsAre("TO: ONE", "", "TO: TWO TO: THREE TO: SIX"));
  options.prefix = "eleven long";
  EXPECT_ERROR(translate(model, CharacterTokenizer(), texts, options),
               "expected a model with more than 12 positions");
}

TEST(Translate, StopsAtThePositionsOfTheModel) {
  const EchoModel model(6);
  const std::vector<std::string> texts{"abcde"};
  const auto translations = translate(model, CharacterTokenizer(), texts,
                                      {.generation = {.max_new_tokens = 1000, .min_new_tokens = 3}});
  EXPECT_EQ(translations[0].text(), "ABCDE");
  const GenerationOptions no_end{.max_new_tokens = 1000, .eos_token_id = {'?'}};
  EXPECT_EQ(translate(model, CharacterTokenizer(), texts, {.generation = no_end})[0]
                .candidates[0]
                .hypothesis.ids.size(),
            6u);
}

TEST(SearchSources, RefusesWhatTheModelCannotTake) {
  const EchoModel model(4);
  EXPECT_ERROR(search_sources(model, std::vector<std::vector<std::int64_t>>{{}}, {}, 100),
               "source 0 has no tokens");
  EXPECT_ERROR(search_sources(model, std::vector<std::vector<std::int64_t>>{{5, 5, 5, 5, 0}}, {}, 100),
               "expected sources of at most 4 tokens, got 5 in source 0");
  EXPECT_ERROR(
      search_sources(model, std::vector<std::vector<std::int64_t>>{{5}}, {.forced_eos_token_id = {500}}, 100),
      "forced_eos_token_id: expected token ids below the vocabulary's size 130, got 500");
}

TEST(SplitText, CutsAtSentencesThenSpacesThenAnywhere) {
  const CharacterTokenizer tokenizer;
  const auto split = [&](std::string_view text, std::int64_t size) {
    return generate::split_text(text, tokenizer, size);
  };
  EXPECT_THAT(split("  fits  ", 10), ElementsAre("fits"));
  EXPECT_THAT(split("A b. C d! E f", 10), ElementsAre("A b. C d!", "E f"));
  EXPECT_THAT(split("He said \"No.\" Then left.", 16), ElementsAre("He said \"No.\"", "Then left."));
  EXPECT_THAT(split("one two three four", 9), ElementsAre("one two", "three", "four"));
  EXPECT_THAT(split("abcdefghij", 4), ElementsAre("abcd", "efgh", "ij"));
  EXPECT_THAT(split("\u00e9\u00e9\u00e9\u00e9\u00e9", 2),
              ElementsAre("\u00e9\u00e9", "\u00e9\u00e9", "\u00e9"));
  EXPECT_THAT(split("   ", 3), ElementsAre());
}

TEST(SplitText, LosesNothingOfALongText) {
  std::string text, joined;
  for (int i = 0; i < 3000; ++i) {
    if (i > 0) text += ' ';
    text.append("word").append(std::to_string(i)).append(i % 13 == 0 ? "." : "");
  }
  for (const std::string& part : generate::split_text(text, CharacterTokenizer(), 64)) {
    EXPECT_LE(part.size(), 64u);
    if (!joined.empty()) joined += ' ';
    joined += part;
  }
  EXPECT_EQ(joined, text);
}

}  // namespace
}  // namespace heed
