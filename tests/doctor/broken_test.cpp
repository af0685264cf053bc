// Every kind of broken model is caught by the check that is meant for it, which the sound model passes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "doctor/copy.h"
#include "doctor/tampered.h"
#include "heed/doctor.h"
#include "heed/io/safetensors.h"
#include "heed/models/registry.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "heed/threads.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const fs::path kFixtures = HEED_FIXTURES;

// The finding about a decoder's fixture with this damage.
Finding damaged(const char* fixture, Damage damage, const std::string& check) {
  const TamperedDecoder model(load_as<DecoderModel>(kFixtures / fixture), std::move(damage));
  return found({.model = &model}, check);
}

void expect_caught(const Finding& finding, const std::string& words) {
  EXPECT_EQ(finding.status, CheckStatus::failed) << finding.measurement;
  EXPECT_THAT(finding.measurement, HasSubstr(words));
  EXPECT_NE(finding.advice, "");
}

std::vector<float*> rows_of(const Model& model, const std::string& name, std::int64_t begin,
                            std::int64_t end) {
  for (const Parameter& p : model.parameters()) {
    if (p.name != name) continue;
    std::vector<float*> rows;
    for (std::int64_t r = begin; r < (end < 0 ? p.tensor.size(0) : end); ++r)
      rows.push_back(p.tensor.data<float>() + r * p.tensor.size(1));
    return rows;
  }
  ADD_FAILURE() << "no parameter " << name;
  return {};
}

void clear(const Model& model, const std::string& name, std::int64_t columns, std::int64_t begin = 0,
           std::int64_t end = -1) {
  for (float* row : rows_of(model, name, begin, end)) std::fill_n(row, columns, 0.0f);
}

TEST(Broken, MaskLeftOut) {
  expect_caught(damaged("decoders/gpt2", attends({.sees_ahead = 1000}), "causality"),
                "12 of 12 earlier outputs change");
  EXPECT_EQ(damaged("decoders/gpt2", attends({}), "causality").status, CheckStatus::ok);
}

TEST(Broken, MaskOffByOne) {
  const Finding finding = damaged("decoders/gpt2", attends({.sees_ahead = 1}), "causality");
  expect_caught(finding, "of 12 earlier outputs change");
  // Two layers that each see one token too far reach two tokens.
  EXPECT_THAT(finding.measurement, HasSubstr("the first at position 10"));
}

TEST(Broken, EncoderWithACausalMask) {
  const TamperedEncoder sound(load_as<EncoderModel>(kFixtures / "encoders/bert"), {}, true);
  EXPECT_EQ(found({.model = &sound}, "causality").status, CheckStatus::ok);
  const TamperedEncoder causal(load_as<EncoderModel>(kFixtures / "encoders/bert"), attends({}), true);
  expect_caught(found({.model = &causal}, "causality"), "0 of 12 earlier outputs follow later tokens");
}

TEST(Broken, SoftmaxOverTheWrongAxis) {
  expect_caught(damaged("decoders/gpt2", attends({.over_queries = true}), "attention rows"),
                "misses the sum 1 by");
  EXPECT_EQ(damaged("decoders/gpt2", attends({}), "attention rows").status, CheckStatus::ok);
}

TEST(Broken, PositionsMissing) {
  const auto encoder = load_as<EncoderModel>(kFixtures / "encoders/bert");
  EXPECT_EQ(found({.model = encoder.get()}, "order").status, CheckStatus::ok);
  clear(*encoder, "embeddings.position_embeddings.weight", 48);
  expect_caught(found({.model = encoder.get()}, "order"), "blind to order");

  const auto decoder = load_as<DecoderModel>(kFixtures / "decoders/gpt2");
  EXPECT_EQ(found({.model = decoder.get()}, "order").status, CheckStatus::ok);
  clear(*decoder, "transformer.wpe.weight", 48);
  expect_caught(found({.model = decoder.get()}, "order"), "no layer depends on positions");
}

TEST(Broken, ScaleMissing) {
  expect_caught(damaged("decoders/gpt2", attends({.scaled = false}), "scores"), "has scale 1");
  EXPECT_NE(damaged("decoders/gpt2", attends({}), "scores").status, CheckStatus::failed);
}

TEST(Broken, HeadDead) {
  const auto model = load_as<DecoderModel>(kFixtures / "decoders/gpt2");
  EXPECT_EQ(found({.model = model.get()}, "heads").status, CheckStatus::ok);
  clear(*model, "transformer.h.1.attn.c_proj.weight", 48, 24, 36);  // what head 2 of 4 goes through
  const Finding finding = found({.model = model.get()}, "heads");
  EXPECT_EQ(finding.status, CheckStatus::warning);  // a sound model may have one, after pruning
  EXPECT_THAT(finding.measurement, HasSubstr("1 dead, 0 pairs alike: decoder.layers.1.self_attn head 2"));
}

TEST(Broken, PaddingAttended) {
  expect_caught(
      damaged("decoders/gpt2", {.change = [](TensorMap& inputs) { inputs.erase("attention_mask"); }},
              "padding left"),
      "the content of the padding");
  EXPECT_EQ(damaged("decoders/gpt2", {}, "padding left").status, CheckStatus::ok);
  const TamperedEncoder encoder(load_as<EncoderModel>(kFixtures / "encoders/bert"), {}, false);
  expect_caught(found({.model = &encoder}, "padding right"), "the content of the padding");
}

// Rotates keys [B, K, S, d] of the first `count` positions back.
Tensor without_rotation(const Tensor& keys, std::int64_t count, double theta) {
  const Tensor k = keys.contiguous().clone();
  const std::int64_t S = k.size(2), d = k.size(3), heads = k.size(0) * k.size(1);
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t s = 0; s < count; ++s) {
      float* key = k.data<float>() + (h * S + s) * d;
      for (std::int64_t i = 0; i < d / 2; ++i) {
        const double angle =
            static_cast<double>(s) * std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(d));
        const double a = key[i], b = key[i + d / 2], c = std::cos(angle), z = -std::sin(angle);
        key[i] = static_cast<float>(a * c - b * z);
        key[i + d / 2] = static_cast<float>(b * c + a * z);
      }
    }
  }
  return k;
}

TEST(Broken, CacheWithoutRotation) {
  const Damage damage{.listen = [](Taps& taps) {
    const auto time = std::make_shared<std::int64_t>(0);
    taps.listen("*.self_attn.q", [time](const std::string&, Tensor& value) { *time = value.size(2); });
    taps.listen("*.self_attn.k", [time](const std::string&, Tensor& value) {
      if (value.size(2) > *time) value = without_rotation(value, value.size(2) - *time, 10000);
    });
  }};
  expect_caught(damaged("decoders/llama", damage, "cache"), ", at step");
  EXPECT_EQ(damaged("decoders/llama", {}, "cache").status, CheckStatus::ok);
}

// Adds to every attention's result what `change` makes of it.
Damage adds_to_results(std::function<Tensor(const Tensor&)> change) {
  return {.listen = [change](Taps& taps) {
    taps.listen("*.self_attn.out",
                [change](const std::string&, Tensor& value) { value = value + change(value); });
  }};
}

TEST(Broken, RowsSeeEachOther) {
  const auto mean_of_rows = [](const Tensor& out) { return broadcast_to(mean(out, 0, true), out.shape()); };
  expect_caught(damaged("decoders/gpt2", adds_to_results(mean_of_rows), "batch"),
                "3 rows alone and together: differ by");
  EXPECT_EQ(damaged("decoders/gpt2", {}, "batch").status, CheckStatus::ok);
}

TEST(Broken, SumsFollowTheThreads) {
  const auto rounding = [](const Tensor& out) { return out * (1e-6 * threads()); };
  const int before = threads();
  expect_caught(damaged("decoders/gpt2", adds_to_results(rounding), "threads"),
                "1, 2 and 3 threads: differ by");
  EXPECT_EQ(threads(), before);
  EXPECT_EQ(damaged("decoders/gpt2", {}, "threads").status, CheckStatus::ok);
}

TEST(Broken, BeamsNotReordered) {
  for (const char* fixture : {"decoders/gpt2", "decoders/llama"}) {
    expect_caught(damaged(fixture, {.keeps_rows = true}, "beams"), "reordered rows differ");
    EXPECT_EQ(damaged(fixture, {}, "beams").status, CheckStatus::ok);
  }
}

TEST(Broken, HeadsAlike) {
  const auto model = load_as<DecoderModel>(kFixtures / "decoders/gpt2");
  for (const std::int64_t first : {0, 48}) {  // queries and keys: columns of 4 heads of 12
    for (float* row : rows_of(*model, "transformer.h.0.attn.c_attn.weight", 0, -1))
      std::copy_n(row + first, 12, row + first + 36);
    for (const Parameter& p : model->parameters()) {
      if (p.name == "transformer.h.0.attn.c_attn.bias")
        std::copy_n(p.tensor.data<float>() + first, 12, p.tensor.data<float>() + first + 36);
    }
  }
  const Finding finding = found({.model = model.get()}, "heads");
  EXPECT_EQ(finding.status, CheckStatus::warning);
  EXPECT_THAT(finding.measurement,
              HasSubstr("0 dead, 1 pairs alike: decoder.layers.0.self_attn heads 0 and 3"));
}

// Every id of a tokenizer.json one higher; the last token gets id 0.
void shift(nlohmann::json& tokenizer) {
  auto& vocabulary = tokenizer["model"]["vocab"];
  const auto count = static_cast<std::int64_t>(vocabulary.size());
  for (auto& id : vocabulary) id = (id.get<std::int64_t>() + 1) % count;
  for (auto& token : tokenizer["added_tokens"]) token["id"] = (token["id"].get<std::int64_t>() + 1) % count;
  if (!tokenizer["post_processor"].contains("special_tokens")) return;
  for (auto& token : tokenizer["post_processor"]["special_tokens"]) {
    for (auto& id : token["ids"]) id = (id.get<std::int64_t>() + 1) % count;
  }
}

TEST(Broken, TokenizerShifted) {
  for (const char* fixture : {"encoders/bert-mlm", "encoders/roberta-mlm"}) {
    const Copy copy(fixture);
    EXPECT_EQ(copy.finding("special ids").status, CheckStatus::ok) << copy.finding("special ids").measurement;
    nlohmann::json tokenizer = copy.json("tokenizer.json");
    shift(tokenizer);
    copy.write("tokenizer.json", tokenizer);
    expect_caught(copy.finding("special ids"), "tokenizer");
  }
}

TEST(Broken, TiedWeightsUntied) {
  const Copy copy("decoders/gpt2");
  EXPECT_EQ(copy.finding("tied weights").status, CheckStatus::ok);
  const fs::path file = copy.path() / "model.safetensors";
  std::vector<NamedTensor> tensors;
  {
    const SafetensorsFile open = SafetensorsFile::open(file);
    for (const TensorInfo& info : open.tensors()) tensors.push_back({info.name, open.get(info.name).clone()});
  }
  const auto embedding = std::find_if(tensors.begin(), tensors.end(), [](const NamedTensor& t) {
    return t.name == "transformer.wte.weight";
  });
  ASSERT_NE(embedding, tensors.end());
  const Tensor output = embedding->tensor.clone();
  output.data<float>()[7] += 0.5f;
  tensors.push_back({"lm_head.weight", output});
  save_safetensors(file, tensors);
  expect_caught(copy.finding("tied weights"), "but tie_word_embeddings is true");
}

}  // namespace
}  // namespace heed
