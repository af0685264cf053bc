// What all tasks over texts have in common: refused texts do not affect others, a flag cancels between
// batches, and token vectors are the last hidden state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/models/registry.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "heed/tasks/answer.h"
#include "heed/tasks/embed.h"
#include "heed/tasks/fill.h"
#include "heed/text/tokenizer.h"
#include "reference/error.h"
#include "reference/tensors.h"

namespace heed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::filesystem::path encoder(const char* name) {
  return std::filesystem::path(HEED_FIXTURES) / "encoders" / name;
}

// A model that counts its forward passes and sets a flag in one of them.
class Counting final : public EncoderModel {
 public:
  Counting(const EncoderModel& inner, std::atomic<bool>& stop, int at)
      : inner_(inner), stop_(stop), at_(at) {}
  mutable int passes = 0;

  Tensor encode(const ModelInput& batch, Context& context) const override {
    if (++passes == at_) stop_ = true;
    return inner_.encode(batch, context);
  }
  std::string family() const override { return inner_.family(); }
  const std::vector<Parameter>& parameters() const override { return inner_.parameters(); }
  TensorMap forward(const TensorMap& inputs, const ForwardOptions& options, Context& context) const override {
    return inner_.forward(inputs, options, context);
  }
  void save(const std::filesystem::path& directory, DType dtype) const override {
    inner_.save(directory, dtype);
  }
  std::optional<std::int64_t> max_positions() const override { return inner_.max_positions(); }
  std::int64_t vocab_size() const override { return inner_.vocab_size(); }
  EncoderHead head() const override { return inner_.head(); }
  const std::vector<std::string>& labels() const override { return inner_.labels(); }
  std::optional<LabelProblem> problem() const override { return inner_.problem(); }
  std::int64_t hidden_size() const override { return inner_.hidden_size(); }
  std::int64_t type_vocab_size() const override { return inner_.type_vocab_size(); }
  std::int64_t pad_id() const override { return inner_.pad_id(); }
  Tensor predict(const Tensor& hidden, const Tensor& mask, Context& context) const override {
    return inner_.predict(hidden, mask, context);
  }
  Tensor loss(const ModelInput& batch, const Tensor& labels, const CrossEntropyOptions& options,
              Context& context) const override {
    return inner_.loss(batch, labels, options, context);
  }

 private:
  const EncoderModel& inner_;
  std::atomic<bool>& stop_;
  int at_;
};

// Their batches compute one token of each text in the last layer.
TEST(Texts, PoolingsOfOneTokenGiveTheBitsOfThatToken) {
  const auto model = load_as<EncoderModel>(encoder("bert"));
  const auto tokenizer = load_tokenizer(encoder("bert"));
  const std::vector<std::string> texts{"the", "the cat sat on the mat", "", "a cat"};
  for (const char* prompt : {"", "query: "}) {
    EmbeddingRecipe recipe;
    recipe.prompt = prompt;
    recipe.pool_prompt = false;
    const std::vector<TokenEmbeddings> all = embed_tokens(*model, *tokenizer, texts, recipe, {});
    const auto skipped = *prompt == '\0' ? 0 : tokenizer->encode(prompt).size() - 1;
    for (const Pooling pooling : {Pooling::cls, Pooling::last}) {
      recipe.poolings = {pooling};
      const Tensor vectors = embed(*model, *tokenizer, texts, recipe, {});
      for (std::size_t i = 0; i < texts.size(); ++i) {
        const Tensor& tokens = all[i].vectors;
        const std::int64_t token = pooling == Pooling::cls ? skipped : tokens.size(0) - 1;
        const auto row = static_cast<std::int64_t>(i);
        EXPECT_EQ(slice(vectors, 0, row, row + 1).to_vector<float>(),
                  slice(tokens, 0, token, token + 1).to_vector<float>())
            << prompt << texts[i];
      }
    }
  }
}

TEST(Texts, AFlagCancelsBetweenBatchesAndWithinThem) {
  const auto model = load_as<EncoderModel>(encoder("bert-mlm"));
  const auto tokenizer = load_tokenizer(encoder("bert-mlm"));
  const std::vector<std::string> texts(4, "the [MASK]");
  std::atomic<bool> stop{false};
  TaskOptions options;
  options.batch_tokens = 1;  // one batch per text
  options.stop = &stop;
  const Counting whole(*model, stop, -1);
  EXPECT_EQ(fill_masks(whole, *tokenizer, texts, 1, options).size(), 4u);
  EXPECT_EQ(whole.passes, 4);
  const Counting counting(*model, stop, 2);
  EXPECT_THROW(fill_masks(counting, *tokenizer, texts, 1, options), Canceled);
  EXPECT_EQ(counting.passes, 2);
  stop = false;
  const auto bare = load_as<EncoderModel>(encoder("bert"));
  const Counting embedding(*bare, stop, 3);
  EmbeddingRecipe recipe;
  recipe.poolings = {Pooling::mean};
  EXPECT_THROW(embed(embedding, *load_tokenizer(encoder("bert")), texts, recipe, options), Canceled);
  EXPECT_EQ(embedding.passes, 3);
}

// Excluded from the mean: [CLS] and the words of the prompt, but not the [SEP] that ends the prompt alone.
TEST(Texts, AMeanWithoutThePromptIsOverAllTokensAfterIt) {
  const auto model = load_as<EncoderModel>(encoder("bert"));
  const auto tokenizer = load_tokenizer(encoder("bert"));
  EmbeddingRecipe recipe;
  recipe.poolings = {Pooling::mean};
  recipe.prompt = "the cat: ";
  recipe.pool_prompt = false;
  const std::vector<std::string> texts{"a river ran past the town"};
  const std::int64_t prompt = tokenizer->encode(recipe.prompt, false).size() + 1;
  const NoGradients guard;
  const Encoding whole = tokenizer->encode(recipe.prompt + texts[0]);
  Context context;
  const Tensor hidden =
      model->encode({.ids = Tensor::from(whole.ids, {1, whole.size()})}, context);  // [1, T, D]
  const Tensor want = mean(slice(hidden, 1, prompt, whole.size()), 1, false);
  EXPECT_LE(relative_error(embed(*model, *tokenizer, texts, recipe), want), 1e-6);
}

TEST(Texts, ThoseThatAreRefusedLeaveTheOthersAsTheyAre) {
  const auto model = load_as<EncoderModel>(encoder("bert-mlm"));
  const auto tokenizer = load_tokenizer(encoder("bert-mlm"));
  const std::vector<std::string> good{"the [MASK]", "a [MASK] sat"}, texts{good[0], "no mask", good[1]};
  EXPECT_ERROR(fill_masks(*model, *tokenizer, texts, 2), "no [MASK] in the text");
  std::vector<std::string> refused;
  TaskOptions options;
  options.first_index = 10;
  options.on_error = [&](std::size_t line, const std::string& message) {
    refused.push_back(std::to_string(line) + ": " + message);
  };
  const auto filled = fill_masks(*model, *tokenizer, texts, 2, options),
             alone = fill_masks(*model, *tokenizer, good, 2);
  EXPECT_THAT(refused, ElementsAre(HasSubstr("11: no [MASK] in the text")));
  ASSERT_EQ(filled.size(), 3u);
  EXPECT_TRUE(filled[1].empty());
  for (const auto& [at, want] : {std::pair{0u, 0u}, {2u, 1u}}) {
    ASSERT_EQ(filled[at].size(), 1u);
    EXPECT_EQ(filled[at][0][0].id, alone[want][0][0].id);
    EXPECT_EQ(filled[at][0][0].probability, alone[want][0][0].probability);
  }
  refused.clear();
  const auto squad = load_as<EncoderModel>(encoder("bert-qa"));
  const std::vector<Question> questions{{"who?", "Ada wrote it."}, {" ", "Ada wrote it."}};
  AnswerOptions answering;
  answering.task = options;
  const auto answers = answer(*squad, *load_tokenizer(encoder("bert-qa")), questions, answering);
  EXPECT_THAT(refused, ElementsAre(HasSubstr("11: expected a question, got an empty one")));
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].size(), 1u);
  EXPECT_TRUE(answers[1].empty());
}

TEST(Answers, HaveNoMoreTokensThanTheLimit) {
  const auto model = load_as<EncoderModel>(encoder("bert-qa"));
  const auto tokenizer = load_tokenizer(encoder("bert-qa"));
  const std::vector<Question> questions{{"Who sat?", "the cat sat on the mat"}};
  const auto found = answer(*model, *tokenizer, questions, {.top_k = 100, .max_answer_tokens = 1}).front();
  EXPECT_GE(found.size(), 5u);
  for (const Answer& each : found) EXPECT_EQ(each.text.find(' '), std::string::npos) << each.text;
}

TEST(Embed, ManyTextsAreThoseOfEachAlone) {
  const auto model = load_as<EncoderModel>(encoder("bert"));
  const auto tokenizer = load_tokenizer(encoder("bert"));
  const EmbeddingRecipe recipe = load_embedding_recipe(encoder("bert"), *model);
  std::vector<std::string> texts(5000, "tea");  // more than whose tokens are in memory at once
  texts[4095] = "the cat";
  texts[4096] = "the mat";
  texts[4999] = "the cat sat on the mat";
  std::vector<std::size_t> warned;
  TaskOptions options{.first_index = 10};
  options.on_warning = [&](std::size_t index, const std::string&) { warned.push_back(index); };
  std::string longer;
  for (int i = 0; i < 2000; ++i) longer += "tea ";
  texts[4500] = longer;
  const Tensor vectors = embed(*model, *tokenizer, texts, recipe, options);
  ASSERT_EQ(vectors.size(0), 5000);
  for (const std::size_t i : {0, 4095, 4096, 4500, 4999}) {
    const auto row = static_cast<std::int64_t>(i);
    EXPECT_EQ(slice(vectors, 0, row, row + 1).contiguous().to_vector<float>(),
              embed(*model, *tokenizer, {&texts[i], 1}, recipe).to_vector<float>())
        << i;
  }
  EXPECT_THAT(warned, ElementsAre(4510));
}

TEST(EmbedTokens, GivesTheLastHiddenState) {
  const auto model = load_as<EncoderModel>(encoder("bert"));
  const auto tokenizer = load_tokenizer(encoder("bert"));
  const std::vector<std::string> texts{"the cat sat on the mat", "tea"};
  const auto found = embed_tokens(*model, *tokenizer, texts, {});
  ASSERT_EQ(found.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const Encoding encoding = tokenizer->encode(texts[i]);
    EXPECT_EQ(found[i].tokens, encoding.tokens);
    const NoGradients guard;
    Context context;
    const Tensor ids = Tensor::from(encoding.ids, {1, encoding.size()});
    const Tensor hidden = model->forward({{"input_ids", ids}}, {}, context).at("last_hidden_state");
    ASSERT_EQ(found[i].vectors.shape(), (Shape{encoding.size(), hidden.size(2)}));
    EXPECT_EQ(found[i].vectors.to_vector<float>(), hidden.to_vector<float>());
  }
}

}  // namespace
}  // namespace heed
