// Sparse autoencoders and transcoders: against SAELens on what forward hooks of transformers hear
// (tests/fixtures/features.py), and what is refused.
#include "heed/inspect/features.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <numeric>

#include "heed/autograd.h"
#include "heed/files/file.h"
#include "heed/io/safetensors.h"
#include "heed/models/registry.h"
#include "heed/ops.h"
#include "reference/error.h"
#include "reference/near.h"
#include "reference/temporary_folder.h"
#include "reference/tensors.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
const fs::path kCoders = fs::path(HEED_FIXTURES) / "features";

std::unique_ptr<Model> gpt2() { return load_model(fs::path(HEED_FIXTURES) / "decoders/gpt2"); }

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return most;
}

TEST(Features, EqualThoseOfSaelensAndSparsify) {
  const auto model = gpt2();
  const TensorMap expected = read_tensors(kCoders / "values.safetensors");
  const TensorMap inputs{{"input_ids", expected.at("ids")}};
  const NoGradients guard;
  EXPECT_LT(largest_difference(model->forward(inputs).at("logits").to_vector<float>(),
                               expected.at("logits").to_vector<float>()),
            1e-4);
  for (const std::string name : {"standard", "rescale", "layer-norm", "jumprelu", "gated", "topk",
                                 "skip-transcoder", "jumprelu-transcoder", "layers.1"}) {
    const SparseCoder coder = SparseCoder::load(kCoders / name);
    EXPECT_EQ(coder.features(), 40);
    const FeatureSites sites = feature_sites(*model, coder);
    EXPECT_EQ(coder.is_transcoder(), name.ends_with("transcoder"));
    EXPECT_EQ(sites.reads == sites.writes, !coder.is_transcoder()) << name;
    const FeatureActivations found = feature_activations(*model, inputs, coder, sites);
    const Tensor& features = expected.at(name + ".features");
    EXPECT_LT(largest_difference(found.values.to_vector<float>(), features.to_vector<float>()), 1e-4) << name;
    EXPECT_NEAR(found.explained, expected.at(name + ".explained").to_vector<float>()[0],
                1e-4 * std::max(1.0, std::abs(found.explained)))
        << name;
    const std::vector<float> all = features.to_vector<float>();
    EXPECT_NEAR(found.active_features,
                static_cast<double>(std::count_if(all.begin(), all.end(), [](float x) { return x > 0; })) / 8,
                1e-9);

    Taps taps;
    scale_features(taps, coder, sites,
                   {{expected.at(name + ".strongest").to_vector<std::int64_t>()[0], 0.0}});
    Context context{.taps = &taps};
    const Tensor ablated = model->forward(inputs, {}, context).at("logits");
    taps.require_all_fired();
    EXPECT_LT(
        largest_difference(ablated.to_vector<float>(), expected.at(name + ".ablated").to_vector<float>()),
        1e-4)
        << name;
  }
}

// The tokens of a direction: those whose rows of the output map it agrees with, by the gain of the norm.
TEST(Features, SpeakForTokens) {
  const auto model = gpt2();
  const SparseCoder coder = SparseCoder::load(kCoders / "standard");
  const std::vector<double> logits = feature_logits(*model, coder, 3);
  std::vector<float> row = coder.direction(3).to_vector<float>();
  const float middle = std::accumulate(row.begin(), row.end(), 0.0F) / 48;
  const ReadOut read_out = *model->read_out();
  const std::vector<float> gain = read_out.norm->weight.to_vector<float>(),
                           map = read_out.output.weight.dequantized().to_vector<float>();
  ASSERT_EQ(logits.size(), 512u);
  for (std::size_t id = 0; id < logits.size(); ++id) {
    double sum = 0;
    for (std::size_t i = 0; i < row.size(); ++i)
      sum += static_cast<double>((row[i] - middle) * gain[i] * map[id * 48 + i]);
    ASSERT_NEAR(logits[id], sum, 1e-5) << id;
  }
  EXPECT_ERROR(feature_logits(*model, coder, 40), "feature: expected a position below 40, got 40");
  EXPECT_ERROR(feature_logits(*load_model(fs::path(HEED_FIXTURES) / "encoders/bert"), coder, 0),
               "predicts the next token");
}

TEST(Features, OfATapThatIsNamed) {
  const auto model = gpt2();
  const SparseCoder coder = SparseCoder::load(kCoders / "standard");
  const TensorMap inputs{{"input_ids", Tensor::from(std::vector<std::int64_t>{1, 2}, {1, 2})}};
  const FeatureSites elsewhere{"decoder.layers.0.out", "decoder.layers.0.out"};
  EXPECT_EQ(feature_activations(*model, inputs, coder, elsewhere).values.to_vector<float>(),
            feature_activations(*model, inputs, coder, {"decoder.layers.1.in", "decoder.layers.1.in"})
                .values.to_vector<float>());
  EXPECT_ERROR(feature_activations(*model, inputs, coder,
                                   {"decoder.layers.0.feed_forward.inner", "decoder.layers.0.out"}),
               "expected a coder for decoder.layers.0.feed_forward.inner [1, 2, 192], got one of 48 numbers");
  EXPECT_ERROR(feature_activations(*model, inputs, coder, {"decoder.layers.7.out", "decoder.layers.7.out"}),
               "decoder.layers.7.out");
}

TEST(Features, RefuseWhatIsWrong) {
  const TemporaryFolder folder;
  const auto with = [&](const std::string& from, const std::string& find, const std::string& replacement) {
    std::error_code ignored;
    fs::remove_all(folder / "sae", ignored);
    fs::copy(kCoders / from, folder / "sae");
    std::string text = read_file(folder / "sae" / "cfg.json");
    const std::size_t at = text.find(find);
    EXPECT_NE(at, std::string::npos) << find;
    text.replace(at, find.size(), replacement);
    write_file(folder / "sae" / "cfg.json", text);
    return folder / "sae";
  };
  EXPECT_ERROR(SparseCoder::load(folder.path()), "cfg.json");
  EXPECT_ERROR(SparseCoder::load(with("standard", "\"d_sae\": 40", "\"d_sae\": 41")),
               "sae_weights.safetensors: W_enc: expected floating numbers [48, 41], got f32[48, 40]");
  EXPECT_ERROR(
      SparseCoder::load(with("standard", "\"architecture\": \"standard\"", "\"architecture\": \"gated\"")),
      "b_mag: expected a tensor of that name, got none");
  EXPECT_ERROR(
      SparseCoder::load(with("standard", "\"architecture\": \"standard\"", "\"architecture\": \"temporal\"")),
      "cfg.json: architecture: expected standard, jumprelu");
  EXPECT_ERROR(SparseCoder::load(with("standard", "\"normalize_activations\": \"none\"",
                                      "\"normalize_activations\": \"expected_average_only_in\"")),
               "normalize_activations: expected none");
  EXPECT_ERROR(
      SparseCoder::load(with("layers.1", "\"activation\": \"topk\"", "\"activation\": \"groupmax\"")),
      "activation: expected topk");
  EXPECT_ERROR(feature_sites(*gpt2(), SparseCoder::load(
                                          with("standard", "blocks.1.hook_resid_pre", "blocks.1.hook_q"))),
               "got \"blocks.1.hook_q\"");
}

}  // namespace
}  // namespace heed
