// Batches of texts without padding: each token has the bits of the padded batch and of the text alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "heed/autograd.h"
#include "heed/models/registry.h"
#include "heed/nn/tap.h"
#include "heed/ops/shape.h"
#include "heed/threads.h"
#include "models/family_fixtures.h"

namespace heed {
namespace {

// A batch of texts of these lengths, padded to `time`.
ModelInput batch_of(const std::vector<std::int64_t>& lengths, std::int64_t time, std::int64_t vocabulary,
                    std::int64_t types) {
  const Shape shape{std::ssize(lengths), time};
  ModelInput batch{.ids = Tensor::zeros(shape, DType::i64),
                   .mask = Tensor::zeros(shape, DType::i64),
                   .skips_padding = true};
  if (types > 1) batch.type_ids = Tensor::zeros(shape, DType::i64);
  const RandomStream random{7, 3};
  for (std::int64_t b = 0; b < shape[0]; ++b) {
    for (std::int64_t t = 0; t < lengths[static_cast<std::size_t>(b)]; ++t) {
      const std::int64_t at = b * time + t;
      const double number = random.uniform(static_cast<std::uint64_t>(at));
      // Every id, so also that of the padding, which RoBERTa's positions pass over.
      batch.ids.data<std::int64_t>()[at] =
          static_cast<std::int64_t>(number * static_cast<double>(vocabulary));
      batch.mask.data<std::int64_t>()[at] = 1;
      if (types > 1) batch.type_ids.data<std::int64_t>()[at] = t > 3;
    }
  }
  return batch;
}

// The hidden states [B, T, D] of an encoder or an encoder-decoder.
Tensor encode(const Model& model, const ModelInput& batch, Taps* taps = nullptr) {
  const NoGradients guard;
  Context context{.taps = taps};
  if (const auto* encoder = dynamic_cast<const EncoderModel*>(&model)) return encoder->encode(batch, context);
  return dynamic_cast<const EncoderDecoderModel&>(model).encode(batch, context);
}

std::int64_t token_types(const Model& model) {
  const auto* encoder = dynamic_cast<const EncoderModel*>(&model);
  return encoder != nullptr ? encoder->type_vocab_size() : 0;
}

std::vector<float> tokens_of(const Tensor& hidden, std::int64_t row, std::int64_t begin, std::int64_t end) {
  return slice(slice(hidden, 0, row, row + 1), 1, begin, end).to(DType::f32).to_vector<float>();
}

// The rows of a batch equal those of the padded way, and some of them those of the text alone. Returns
// whether padding is 0, which it is when the batch was packed.
bool expect_rows(const Model& model, const std::vector<std::int64_t>& lengths, std::int64_t time,
                 std::int64_t alone) {
  const ModelInput batch = batch_of(lengths, time, model.vocab_size(), token_types(model));
  Taps taps;  // with which batches stay as they are
  const Tensor packed = encode(model, batch), padded = encode(model, batch, &taps);
  bool zeros = true;
  for (std::int64_t row = 0; row < std::ssize(lengths); ++row) {
    const std::int64_t length = lengths[static_cast<std::size_t>(row)];
    EXPECT_EQ(tokens_of(packed, row, 0, length), tokens_of(padded, row, 0, length)) << "row " << row;
    const std::vector<float> rest = tokens_of(packed, row, length, time);
    zeros = zeros && std::all_of(rest.begin(), rest.end(), [](float x) { return x == 0; });
    if (row % alone != 0) continue;
    const auto own = [&](const Tensor& x) {
      return x.defined() ? slice(slice(x, 0, row, row + 1), 1, 0, length) : x;
    };
    const Tensor by_itself = encode(model, {.ids = own(batch.ids), .type_ids = own(batch.type_ids)});
    EXPECT_EQ(tokens_of(packed, row, 0, length), tokens_of(by_itself, 0, 0, length)) << "alone, row " << row;
  }
  return zeros;
}

std::vector<FamilyFixture> text_fixtures() {
  return family_fixtures([](const FamilyFixture& f) {
    return f.kind == ModelKind::encoder_decoder || (f.kind == ModelKind::encoder && !f.is_in("variants"));
  });
}

struct PackedRows : testing::TestWithParam<FamilyFixture> {};

TEST_P(PackedRows, HaveTheBitsOfPaddedOnesAndOfEachAlone) {
  const auto probe = load_model(GetParam().path());
  if (probe->input().kind != InputKind::tokens) GTEST_SKIP() << "reads no tokens";
  const std::int64_t longest = std::min<std::int64_t>(probe->max_positions().value_or(40), 40);
  const std::vector<std::int64_t> lengths{3, longest - 1, 1, longest / 2, 2, 5};
  // Of disentangled and linear attention.
  const bool padded = std::string(GetParam().family) == "deberta-v2" ||
                      std::string(GetParam().folder).ends_with("transformer-encoder") ||
                      std::string(GetParam().folder).ends_with("transformer-seq2seq");
  for (const DType dtype : {DType::f32, DType::bf16}) {
    SCOPED_TRACE(name_of(dtype));
    const auto model = load_model(GetParam().path(), dtype);
    EXPECT_EQ(expect_rows(*model, lengths, longest, 1), !padded);
  }
}

INSTANTIATE_TEST_SUITE_P(All, PackedRows, testing::ValuesIn(text_fixtures()),
                         [](const auto& info) { return as_test_name(info.param.folder); });

// A new model of a fixture's family, wide enough for every kernel and with many positions.
std::unique_ptr<Model> wide_model(const char* fixture, const std::string& changes) {
  Generator generator(5);
  return make_model(
      Config::load(std::filesystem::path(HEED_FIXTURES) / fixture / "config.json").with(changes), generator);
}

TEST(PackedBatch, OfManyLengths) {
  const std::string bert = R"({"max_position_embeddings": 320, "hidden_size": 64, "intermediate_size": 96,)"
                           R"( "num_attention_heads": 2})";
  const std::map<const char*, std::string> configs{
      {"encoders/bert", bert},
      {"encoders/xlm-roberta", bert},
      {"encoders/mpnet-mlm", bert},       // a bias by distance
      {"encoders/modernbert-mlm", bert},  // rotary positions and a window
      {"encoders/transformer-encoder",
       R"({"attention": "full", "position_embedding_type": "alibi", "hidden_size": 64, "intermediate_size": 96})"},
      {"t5", R"({"d_model": 64, "d_kv": 16, "d_ff": 96})"},
  };
  std::vector<std::int64_t> lengths{300};
  for (std::int64_t n = 1; n < 300; n += 1 + n / 4) lengths.push_back(n);
  const int before = threads();
  for (const auto& [fixture, config] : configs) {
    for (const bool quantized : {false, true}) {
      SCOPED_TRACE(std::string(fixture) + (quantized ? ", quantized" : ""));
      const auto model = wide_model(fixture, config);
      if (quantized) {
        model->quantize({.bits = 8, .group = 32});
        EXPECT_GT(model->use_activations(Activations::int8), 0);
      }
      for (const int count : {1, 4}) {
        set_threads(count);
        EXPECT_TRUE(expect_rows(*model, lengths, 301, 3));
      }
    }
  }
  set_threads(before);
}

TEST(PackedBatch, OfTokensThatAreRead) {
  const auto model = wide_model("encoders/bert", R"({"max_position_embeddings": 320, "hidden_size": 64})");
  const std::vector<std::vector<std::int64_t>> batches{
      {3, 40, 1, 200, 150, 90, 90, 90, 7},
      std::vector<std::int64_t>(12 * static_cast<std::size_t>(threads()), 100)};
  for (const std::vector<std::int64_t>& lengths : batches) {
    ModelInput batch = batch_of(lengths, *std::max_element(lengths.begin(), lengths.end()),
                                model->vocab_size(), token_types(*model));
    const Tensor all = encode(*model, batch);
    for (const std::int64_t length : lengths) batch.read.push_back(length / 2);
    const Tensor read = encode(*model, batch);
    ASSERT_EQ(read.shape(), (Shape{std::ssize(lengths), 1, 64}));
    for (std::int64_t row = 0; row < std::ssize(lengths); ++row) {
      const std::int64_t place = batch.read[static_cast<std::size_t>(row)];
      EXPECT_EQ(tokens_of(read, row, 0, 1), tokens_of(all, row, place, place + 1)) << "row " << row;
    }
  }
}

TEST(PackedBatch, OnlyWithoutGradientsAndWithPaddingAtTheEnd) {
  const auto model = load_as<EncoderModel>(std::filesystem::path(HEED_FIXTURES) / "encoders/bert");
  const ModelInput batch = batch_of({3, 9}, 9, model->vocab_size(), model->type_vocab_size());
  const auto padding = [&](const ModelInput& input) {
    Context context;
    const std::vector<float> rest = tokens_of(model->encode(input, context), 0, 3, 9);
    return std::all_of(rest.begin(), rest.end(), [](float x) { return x == 0; });
  };
  EXPECT_FALSE(padding(batch));
  const NoGradients guard;
  EXPECT_TRUE(padding(batch));
  ModelInput holed = batch;
  holed.mask = batch.mask.clone();
  holed.mask.data<std::int64_t>()[9 + 4] = 0;
  EXPECT_FALSE(padding(holed));
  holed.mask = batch.mask.clone();
  holed.mask.data<std::int64_t>()[0] = 0;  // at the front
  EXPECT_FALSE(padding(holed));
  holed.mask = batch.mask.clone();
  std::fill_n(holed.mask.data<std::int64_t>(), 9, 0);  // a row without a token
  EXPECT_FALSE(padding(holed));
  ModelInput whole = batch;
  whole.skips_padding = false;
  EXPECT_FALSE(padding(whole));
}

}  // namespace
}  // namespace heed
