// New models of the families with each kind of tokenizer: those without a padding token, byte BPE under
// encoders, and the encoder of heed_transformer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heed/models/registry.h"
#include "tasks_fixture.h"

namespace heed {
namespace {

using ::testing::HasSubstr;

class FamiliesTest : public TasksTest {
 protected:
  // A recipe with byte BPE for the family and sizes, of one step.
  static Recipe with_bytes(Recipe r, const std::string& family,
                           const std::map<std::string, std::string>& settings) {
    r.model.family = family;
    r.model.settings = settings;
    r.tokenizer.type = "byte_bpe";
    r.tokenizer.vocab_size = 290;
    r.eval.every = 0;
    r.eval.metric = "loss";
    return r;
  }
};

TEST_F(FamiliesTest, DecodersHaveNoPaddingUnlessTheTokenizerHas) {
  std::map<std::string, std::string> llama{{"hidden_size", "16"},
                                           {"num_hidden_layers", "1"},
                                           {"num_attention_heads", "2"},
                                           {"num_key_value_heads", "2"},
                                           {"intermediate_size", "32"}};
  const auto with = [&](const std::map<std::string, std::string>& more) {
    std::map<std::string, std::string> settings = more;
    settings.insert(llama.begin(), llama.end());
    return settings;
  };
  const std::map<std::string, std::map<std::string, std::string>> families{
      {"bloom", {{"hidden_size", "16"}, {"n_layer", "1"}, {"n_head", "2"}}},
      {"gemma2", with({{"head_dim", "8"}})},
      {"gemma3_text", with({{"head_dim", "8"}})},
      {"gpt2", {{"n_embd", "16"}, {"n_layer", "1"}, {"n_head", "2"}}},
      {"gpt_neox",
       {{"hidden_size", "16"},
        {"num_hidden_layers", "1"},
        {"num_attention_heads", "2"},
        {"intermediate_size", "32"}}},
      {"granite", llama},
      {"llama", llama},
      {"mistral", llama},
      {"mixtral", with({{"num_local_experts", "2"}})},
      {"mpt", {{"d_model", "16"}, {"n_layers", "1"}, {"n_heads", "2"}}},
      {"olmo2", llama},
      {"phi3", llama},
      {"qwen2", llama},
      {"qwen3", with({{"head_dim", "8"}})},
      {"qwen3_moe", with({{"head_dim", "8"},
                          {"num_experts", "2"},
                          {"num_experts_per_tok", "1"},
                          {"moe_intermediate_size", "16"}})},
      {"smollm3", llama},
      {"heed_transformer",
       {{"hidden_size", "16"}, {"num_hidden_layers", "1"}, {"num_attention_heads", "2"}}}};
  for (const auto& [family, settings] : families) {
    const std::filesystem::path run = folder_ / family;
    ASSERT_NO_THROW(train(with_bytes(causal(1), family, settings), {.output = run})) << family;
    EXPECT_THAT(read_file(run / "config.json"), HasSubstr("\"pad_token_id\": null")) << family;
    const auto model = load_as<DecoderModel>(run);
    const Tensor& embedding = model->parameters().front().tensor;
    const std::vector<float> values = embedding.to_vector<float>();
    for (std::int64_t row = 0; row < embedding.size(0); ++row) {
      const auto begin = values.begin() + row * embedding.size(1);
      EXPECT_TRUE(std::any_of(begin, begin + embedding.size(1), [](float x) { return x != 0; }))
          << family << ": row " << row << " is zeros";
    }
  }
}

TEST_F(FamiliesTest, EncodersLearnBytes) {
  Recipe small = masked(1);
  small.task.context = 32;
  add_bert(small);
  std::map<std::string, std::string> settings = small.model.settings;
  for (const char* family : {"roberta", "mpnet"}) {
    const std::filesystem::path run = folder_ / family;
    train(with_bytes(small, family, settings), {.output = run});
    EXPECT_EQ(load_as<EncoderModel>(run)->pad_id(), 1);
    const auto tokenizer = load_tokenizer(run);
    const std::vector<std::int64_t> ids = tokenizer->encode("one").ids;
    EXPECT_EQ(ids.front(), tokenizer->bos_id());
    EXPECT_EQ(ids.back(), tokenizer->eos_id());
    train(with_bytes(classification(1), family, settings), {.output = folder_ / (std::string(family) + "2")});
  }
}

TEST_F(FamiliesTest, TheEncoderOfHeedTransformerHasEveryHead) {
  const auto small = [](Recipe r, std::int64_t vocab_size) {
    r.model.family = "heed_transformer";
    r.model.settings = {{"hidden_size", "32"},
                        {"num_hidden_layers", "1"},
                        {"num_attention_heads", "2"},
                        {"attention", "\"linear\""},
                        {"position_embedding_type", "\"learned\""},
                        {"architecture", "\"encoder\""}};
    r.tokenizer.vocab_size = vocab_size;
    return r;
  };
  const TrainResult masks = train(small(masked(200), 40), {.output = folder_ / "masks"});
  EXPECT_GT(masks.evaluation->metric("accuracy").value(), 90.0);
  EXPECT_EQ(load_as<EncoderModel>(folder_ / "masks")->head(), EncoderHead::masked_lm);
  Recipe tuned = classification(80);
  tuned.model.settings.clear();
  EXPECT_EQ(train(tuned, {.output = folder_ / "tuned", .init = folder_ / "masks"})
                .evaluation->metric("accuracy")
                .value(),
            100.0);
  EXPECT_EQ(train(small(tagging(80), 200), {.output = folder_ / "tags"}).evaluation->metric("f1").value(),
            100.0);
  train(small(answers(2), 200), {.output = folder_ / "spans"});
  EXPECT_EQ(load_as<EncoderModel>(folder_ / "spans")->head(), EncoderHead::span);
  Recipe decoder = small(classification(1), 200);
  decoder.model.settings["architecture"] = "\"decoder\"";
  EXPECT_THAT(refusal_of(decoder), HasSubstr("expected an encoder model, got heed_transformer"));
}

}  // namespace
}  // namespace heed
