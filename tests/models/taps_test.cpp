// Taps of every family, over the small models of all fixtures: the documented names and shapes, values that
// agree with each other, parts of values, replacements, and that listening changes no bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "heed/autograd.h"
#include "heed/models/registry.h"
#include "heed/ops.h"
#include "models/taps_fixtures.h"
#include "reference/error.h"
#include "reference/json.h"
#include "reference/tensors.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class FamilyTaps : public testing::TestWithParam<std::string> {
 protected:
  fs::path folder = fs::path(HEED_FIXTURES) / GetParam();
  std::unique_ptr<Model> model = load_model(folder);
  TensorMap inputs = read_tensors(folder / "inputs.safetensors");
  bool recurrent = GetParam().starts_with("recurrent");
  bool linear = read_json(folder / "config.json").value("attention", Json()) == "linear";
  NoGradients guard;

  TensorMap run(Taps* taps) const {
    Context context{.taps = taps};
    return model->forward(inputs, {}, context);
  }
  TensorMap values(const std::string& pattern, const TapSelection& selection = {}) const {
    TensorMap heard;
    Taps taps;
    taps.listen(pattern, selection,
                [&](const std::string& name, Tensor& value) { heard[name] = value.contiguous(); });
    run(&taps);
    taps.require_all_fired();
    return heard;
  }
};
INSTANTIATE_TEST_SUITE_P(All, FamilyTaps, testing::ValuesIn(fixtures_with_inputs()),
                         [](const auto& info) { return as_test_name(info.param); });

// Each row of weights, and softmax of the scores in f64.
void expect_weights(const TensorMap& heard, const std::string& part) {
  const Tensor &weights = heard.at(part + ".weights"), &v = heard.at(part + ".v");
  const Shape shape = weights.shape();
  const Shape read{shape[0], shape[1], shape[2], v.size(3)};
  EXPECT_EQ(heard.at(part + ".heads").shape(), read) << part;
  const auto row = doubles(weights);
  const auto keys = static_cast<std::size_t>(shape[3]);
  for (std::size_t i = 0; i < row.size(); i += keys) {
    double sum = 0;
    for (std::size_t s = 0; s < keys; ++s) sum += row[i + s];
    EXPECT_NEAR(sum, sum == 0 ? 0 : 1, 1e-6) << part;
  }
  if (heard.contains(part + ".scores")) {
    const Tensor scores = heard.at(part + ".scores").to(DType::f64);
    ASSERT_EQ(scores.shape(), shape) << part;
    EXPECT_LE(largest_difference(softmax(scores, -1), weights), 1e-5) << part;
  }
  std::vector<std::int64_t> kv;
  for (std::int64_t h = 0; h < shape[1]; ++h) kv.push_back(h / (shape[1] / v.size(1)));
  const Tensor values = gather(v, 1, Tensor::from(kv, {shape[1]})).to(DType::f64);
  EXPECT_LE(relative_error(heard.at(part + ".heads"), matmul(weights.to(DType::f64), values).to(DType::f32)),
            1e-5)
      << part;
}

TEST_P(FamilyTaps, NamesAndShapesAreThoseOfTheDocs) {
  const TensorMap silent = run(nullptr);
  TensorMap heard, outputs;
  Taps taps;
  taps.listen("*", [&](const std::string& name, Tensor& value) { heard[name] = value.contiguous(); });
  outputs = run(&taps);
  ASSERT_EQ(silent.size(), outputs.size());
  const TensorMap expected = read_tensors(folder / "expected.safetensors");
  for (const auto& [name, value] : silent) {
    EXPECT_EQ(largest_difference(value, outputs.at(name)), 0) << name;
    if (!expected.contains(name)) continue;
    EXPECT_LE(relative_error(value, expected.at(name)), 1e-4) << name;
  }
  if (outputs.contains("logits")) {
    EXPECT_EQ(largest_difference(heard.at("logits"), outputs.at("logits")), 0);
  }
  int layers = 0;
  for (const std::string stack : {"encoder", "decoder", "text_encoder", "image_encoder"}) {
    if (!heard.contains(stack + ".embed")) continue;
    Tensor stream = heard.at(stack + ".embed");
    const Shape tokens = stream.shape();
    for (int i = 0; heard.contains(stack + ".layers." + std::to_string(i) + ".out"); ++i, ++layers) {
      const std::string layer = stack + ".layers." + std::to_string(i) + ".";
      if (recurrent) continue;
      EXPECT_EQ(largest_difference(heard.at(layer + "in"), stream), 0);
      stream = heard.at(layer + "out");
      EXPECT_EQ(stream.shape(), tokens);
      const bool crosses = heard.contains(layer + "cross_attn.out");
      const bool parallel = GetParam() == "decoders/gpt-neox";
      EXPECT_EQ(heard.contains(layer + "mid"), !parallel);
      const bool convolves = i == 0 && GetParam() == "encoders/deberta-v2-convolution";
      EXPECT_EQ(heard.contains(layer + "convolution.added"), convolves);
      EXPECT_EQ(heard.contains(layer + "mid2"), crosses || convolves);
      EXPECT_EQ(crosses, stack == "decoder" && heard.contains("encoder.embed"));
      for (const std::string part : {"self_attn", "cross_attn"}) {
        if (part == "cross_attn" && !crosses) continue;
        EXPECT_EQ(heard.at(layer + part + ".out").shape(), tokens);
        EXPECT_EQ(heard.contains(layer + part + ".scores"), !linear || part == "cross_attn");
        expect_weights(heard, layer + part);
      }
      EXPECT_EQ(heard.at(layer + "feed_forward.out").shape(), tokens);
      if (!heard.contains(layer + "feed_forward.router_logits")) {
        EXPECT_EQ(heard.at(layer + "feed_forward.inner").shape().rank(), 3);
      }
    }
  }
  EXPECT_GT(layers, 0);
}

// Embeddings of tokens, types and positions leave the bias of a norm or a projection, which all tokens share.
TEST_P(FamilyTaps, EmbeddingsAddUpToTheFirstStream) {
  for (const std::string stack : {"encoder", "decoder", "text_encoder"}) {
    const TensorMap heard = values("*");
    if (!heard.contains(stack + ".embed.tokens")) continue;
    Tensor rest = heard.at(stack + ".embed");
    for (const char* part : {"tokens", "types", "positions"}) {
      const auto found = heard.find(stack + ".embed." + part);
      if (found == heard.end()) continue;
      ASSERT_EQ(found->second.shape(), rest.shape()) << part;
      rest = rest - found->second;
    }
    const Tensor first = slice(slice(rest, 0, 0, 1), 1, 0, 1);
    const Tensor embed = heard.at(stack + ".embed");
    const Tensor unpadded = slice(rest, 0, 0, 1);  // padding may be cleared
    EXPECT_LE(largest_difference(unpadded, broadcast_to(first, unpadded.shape())),
              1e-5 * std::max(1.0, largest_difference(embed, embed * 0.0)))
        << stack;
  }
}

// One rotation of each pair of dims, whose length is that of all pairs.
TEST_P(FamilyTaps, RotationsTurnQueriesAndKeys) {
  TensorMap heard;
  Taps taps;
  taps.listen("*.rotation", [&](const std::string& name, Tensor& value) { heard[name] = value.clone(); });
  run(&taps);
  for (const auto& [name, table] : heard) {
    const std::vector<double> row = doubles(table);
    const auto half = static_cast<std::size_t>(table.size(table.rank() - 1) / 2);
    for (std::size_t i = 0; i < row.size(); i += 2 * half) {
      for (std::size_t pair = 0; pair < half; ++pair)
        EXPECT_NEAR(std::hypot(row[i + pair], row[i + half + pair]), std::hypot(row[i], row[i + half]), 1e-5)
            << name;
    }
  }
}

TEST_P(FamilyTaps, PartsAreThoseOfTheWhole) {
  for (const char* kind : {"weights", "scores"}) {
    const std::string pattern = std::string("*_attn.") + kind;
    if (linear && std::string(kind) == "scores") continue;
    if (GetParam().find("none") != std::string::npos) continue;
    const TensorMap whole = values(pattern);
    const std::int64_t last = recurrent ? 0 : 1;
    const TensorMap parts = values(pattern, {.heads = {last}, .queries = {1, 3}, .keys = {1, {}}});
    ASSERT_EQ(parts.size(), whole.size());
    for (const auto& [name, part] : parts) {
      const Tensor rows = slice(slice(whole.at(name), 1, last, last + 1), 2, 1, 3);
      EXPECT_EQ(largest_difference(part, slice(rows, 3, 1, rows.size(3))), 0) << name;
    }
  }
}

// Values replaced by themselves change no bit of the results, whole or in part.
TEST_P(FamilyTaps, ReplacedValuesFlowOn) {
  const TensorMap silent = run(nullptr);
  const auto same = [](const std::string&, Tensor& value) { value = value.clone(); };
  for (const bool whole : {true, false}) {
    Taps taps;
    if (whole) taps.listen("*", same);
    const bool attends = !recurrent || GetParam().find("none") == std::string::npos;
    if (!whole && attends) taps.listen("*_attn.weights", {.heads = {0}, .queries = {1, 2}}, same);
    if (!whole && !recurrent) taps.listen("*_attn.q", {.heads = {0}, .queries = {1, 2}}, same);
    const TensorMap outputs = run(&taps);
    taps.require_all_fired();
    for (const auto& [name, value] : silent) {
      EXPECT_EQ(largest_difference(outputs.at(name), value), 0) << name << (whole ? "" : " in part");
    }
  }
  Taps taps;
  taps.listen("logits", replace_by_zeros());
  if (!silent.contains("logits")) return;
  EXPECT_EQ(largest_difference(run(&taps).at("logits"), silent.at("logits") * 0.0), 0);
}

// Decoding with a cache, whose rows change places as those of beams do.
TEST_P(FamilyTaps, CachedAndReorderedRowsHaveTheWeightsOfTheWhole) {
  const auto* decoder = dynamic_cast<const DecoderModel*>(model.get());
  const auto* both = dynamic_cast<const EncoderDecoderModel*>(model.get());
  if (decoder == nullptr && both == nullptr) return;
  const Tensor ids = Tensor::from<std::int64_t>({5, 6, 7, 5, 6, 9, 12, 11, 10, 14, 12, 8}, {2, 6});
  TensorMap named{{decoder != nullptr ? "input_ids" : "decoder_input_ids", ids}};
  ModelInput source;
  if (both != nullptr) {
    const InputSpec first = model->input();
    for (const char* name : {first.name, "attention_mask"})
      if (inputs.contains(name)) named[name] = slice(inputs.at(name), 0, 0, 2).contiguous();
    (first.kind == InputKind::tokens ? source.ids : source.values) = named.at(first.name);
    if (named.contains("attention_mask")) source.mask = named.at("attention_mask");
  }
  TensorMap heard;
  Taps taps;
  for (const char* pattern : {"decoder.*_attn.weights", "decoder.*_attn.v", "decoder.*_attn.heads"})
    taps.listen(pattern, [&](const std::string& name, Tensor& value) { heard[name] = value.contiguous(); });
  Context context{.taps = &taps};
  model->forward(named, {}, context);
  const TensorMap whole = heard;
  const auto decoding = decoder != nullptr ? decoder->decode(2) : both->decode(source, context);
  decoding->step(slice(ids, 1, 0, 5), context);
  decoding->reorder(std::vector<std::int64_t>{1, 0});
  const Tensor last = slice(ids, 1, 5, 6);
  decoding->step(gather(last, 0, Tensor::from<std::int64_t>({1, 0}, {2})), context);
  for (const auto& [name, value] : whole) {
    if (name.ends_with(".v")) continue;
    const Tensor query = gather(slice(value, 2, 5, 6), 0, Tensor::from<std::int64_t>({1, 0}, {2}));
    EXPECT_LE(largest_difference(heard.at(name), query), name.ends_with("weights") ? 1e-5 : 1e-4) << name;
    if (name.ends_with("weights") && !linear && !recurrent)
      expect_weights(heard, name.substr(0, name.size() - 8));
  }
}

TEST_P(FamilyTaps, WhatDoesNotExistIsAnError) {
  EXPECT_ERROR(values("*.layers.9.out"), "no value of the model matches *.layers.9.out");
  if (recurrent) return;
  EXPECT_ERROR(values("*self_attn.weights", {.heads = {99}}), "in increasing order, got 99");
  EXPECT_ERROR(values("*self_attn.weights", {.queries = {0, 999}}), "there are, got 0:999");
  EXPECT_ERROR(values("*.layers.0.out", {.heads = {0}}), "expected a value with heads to select");
}

// One head made zero: the others, and other queries, stay as they are.
TEST(Taps, AnAblatedHeadChangesOnlyWhatItReads) {
  const NoGradients guard;
  const fs::path folder = fs::path(HEED_FIXTURES) / "decoders/llama";
  const auto model = load_model(folder);
  const TensorMap inputs = read_tensors(folder / "inputs.safetensors");
  const auto heads_of = [&](Listener ablation) {
    Tensor heads;
    Taps taps;
    taps.listen("decoder.layers.0.self_attn.weights", {.heads = {1}, .queries = {2, 4}}, std::move(ablation));
    taps.listen("decoder.layers.0.self_attn.heads",
                [&](const std::string&, Tensor& value) { heads = value.contiguous(); });
    Context context{.taps = &taps};
    model->forward(inputs, {}, context);
    taps.require_all_fired();
    return heads;
  };
  const Tensor before = heads_of([](const std::string&, Tensor&) {}), after = heads_of(replace_by_zeros());
  Tensor expected = before.clone();
  const Tensor ablated = slice(slice(expected, 1, 1, 2), 2, 2, 4);
  ablated.copy_from(Tensor::zeros(ablated.shape()));
  EXPECT_EQ(largest_difference(after, expected), 0);
  const Tensor half = heads_of(replace_by_scaled(0.5));
  ablated.copy_from(slice(slice(before, 1, 1, 2), 2, 2, 4) * 0.5);
  EXPECT_LE(largest_difference(half, expected), 1e-6);
}

}  // namespace
}  // namespace heed
