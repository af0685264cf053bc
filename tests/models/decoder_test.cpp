// Decoders against the numbers of Hugging Face transformers, and of PyTorch for heed_transformer
// (tests/fixtures/decoders, see the case.json of
// each for the versions): outputs, hidden states, attentions, every gradient, training curves, decoding with
// a cache, other layouts of the same files, and what does not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "heed/autograd.h"
#include "heed/models/registry.h"
#include "heed/ops.h"
#include "models/fixture_adamw.h"
#include "reference/tensors.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
const fs::path kDecoders = fs::path(HEED_FIXTURES) / "decoders";

// Positions [begin, end) of rows [B, T, ...].
Tensor span_of(const Tensor& rows, std::int64_t begin, std::int64_t end) {
  return slice(rows, 1, begin, end).contiguous();
}

struct DecoderCase {
  const char* name;
  const char* family;
  int gradients;
  int layers = 2;
  int router_outputs = 0;
};
const DecoderCase kDecoderCases[] = {
    {"gpt2", "gpt2", 28},
    {"gpt2-inverse-layer-scale", "gpt2", 28},
    {"llama", "llama", 21},
    {"llama3", "llama", 20},
    {"mistral", "mistral", 21},
    {"qwen2", "qwen2", 27},
    {"bloom", "bloom", 29},
    {"mpt", "mpt", 14},
    {"gpt-neox", "gpt_neox", 28},
    {"qwen3", "qwen3", 25},
    {"qwen3-tied", "qwen3", 35, 3},
    {"phi3", "phi3", 15},
    {"phi3-longrope", "phi3", 15},
    {"mixtral", "mixtral", 41, 2, 3},
    {"qwen3-moe", "qwen3_moe", 56, 2, 3},
    {"qwen3-moe-mixed", "qwen3_moe", 55, 3, 2},
    {"smollm3", "smollm3", 29, 3},
    {"granite", "granite", 20},
    {"olmo2", "olmo2", 25},
    {"gemma2", "gemma2", 35, 3},
    {"gemma3", "gemma3_text", 54, 4},
    {"transformer-window", "heed_transformer", 35},
    {"transformer-strided", "heed_transformer", 33},
    {"transformer-fixed", "heed_transformer", 37},
    {"transformer-linear", "heed_transformer", 35},
};

class DecoderTest : public testing::TestWithParam<DecoderCase> {
 protected:
  fs::path directory = kDecoders / GetParam().name;
  std::unique_ptr<DecoderModel> model = load_decoder(directory);
  TensorMap inputs = read_tensors(directory / "inputs.safetensors");
  TensorMap expected = read_tensors(directory / "expected.safetensors");
  Context context;

  void expect_gradients() {
    int compared = 0;
    for (const Parameter& p : model->parameters()) {
      const auto want = expected.find("grad." + p.name);
      ASSERT_NE(want, expected.end()) << p.name;
      ASSERT_TRUE(p.tensor.grad().defined()) << p.name;
      EXPECT_LE(relative_error(p.tensor.grad(), want->second), 2e-5) << p.name;
      ++compared;
    }
    EXPECT_EQ(compared, GetParam().gradients);
  }
  Tensor logits_of(const TensorMap& named) const {
    const NoGradients guard;
    Context plain;
    return model->forward(named, {}, plain).at("logits");
  }
};
INSTANTIATE_TEST_SUITE_P(All, DecoderTest, testing::ValuesIn(kDecoderCases), [](const auto& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(DecoderTest, OutputsAndGradientsEqualHuggingFace) {
  EXPECT_EQ(model->family(), GetParam().family);
  const TensorMap outputs = model->forward(inputs, {.hidden_states = true, .attentions = true}, context);
  int compared = 0;
  for (const auto& [name, tensor] : expected) {
    if (name.starts_with("grad.")) continue;
    ASSERT_TRUE(outputs.contains(name)) << name;
    EXPECT_LE(relative_error(outputs.at(name), tensor), 1e-5) << name;
    ++compared;
  }
  // logits, loss, hidden states, attentions
  EXPECT_EQ(compared, 3 + 2 * GetParam().layers + GetParam().router_outputs);
  outputs.at("loss").backward();
  expect_gradients();
}

TEST_P(DecoderTest, TrainingLossEqualsThatOfTheForwardPass) {
  const Tensor& labels = inputs.at("labels");
  const Tensor next =
      concat({slice(labels, 1, 1, labels.size(1)), Tensor::full({2, 1}, -100, DType::i64)}, 1);
  context.training = true;
  const Tensor loss = model->loss(inputs.at("input_ids"), next, {}, context);
  EXPECT_NEAR(loss.item(), expected.at("loss").item(), 1e-5 * expected.at("loss").item());
  loss.backward();
  expect_gradients();
}

// Rows of documents that are kept apart give the hidden states, the loss and the gradients of each document
// in a row of its own.
TEST_P(DecoderTest, PackedDocumentsEqualDocumentsAlone) {
  const Tensor ids = inputs.at("input_ids");
  const std::int64_t time = ids.size(1);
  const std::vector<std::vector<std::int64_t>> ends{{3, 4, time / 2 + 1, time}, {time / 2, time - 1, time}};
  const std::string kind = GetParam().name;
  const CrossEntropyOptions options{.reduction = Reduction::sum};
  Tensor starts = Tensor::zeros(ids.shape(), DType::i64),
         labels = Tensor::full(ids.shape(), -100, DType::i64);
  for (std::int64_t row = 0; row < 2; ++row) {
    std::int64_t begin = 0;
    for (const std::int64_t end : ends[static_cast<std::size_t>(row)]) {
      for (std::int64_t t = begin; t < end; ++t) {
        starts.data<std::int64_t>()[row * time + t] = begin;
        if (t + 1 < end)
          labels.data<std::int64_t>()[row * time + t] = ids.data<std::int64_t>()[row * time + t + 1];
      }
      begin = end;
    }
  }
  std::vector<Tensor> states;
  Taps taps;
  taps.listen("decoder.layers.*.out", [&](const std::string& name, Tensor& value) {
    if (name.find(".experts.") == std::string::npos) states.push_back(value.detach());
  });
  context.taps = &taps;
  if (kind == "transformer-strided" || kind == "transformer-fixed" || kind == "transformer-linear") {
    try {
      model->loss(ids, labels, options, context, starts);
      FAIL();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(),
                  testing::HasSubstr(kind == "transformer-linear" ? "linear attention: expected one"
                                                                  : "sparse attention: expected one"));
    }
    return;
  }
  const Tensor packed_loss = model->loss(ids, labels, options, context, starts);
  packed_loss.backward();
  const std::vector<Tensor> packed = states;
  std::vector<Tensor> gradients;
  for (const Parameter& p : model->parameters()) {
    gradients.push_back(p.tensor.grad().clone());
    p.tensor.zero_grad();
  }
  double sum = 0;
  for (std::int64_t row = 0; row < 2; ++row) {
    const auto part = [&](const Tensor& of, std::int64_t begin, std::int64_t end) {
      return span_of(slice(of, 0, row, row + 1), begin, end);
    };
    std::int64_t begin = 0;
    for (const std::int64_t end : ends[static_cast<std::size_t>(row)]) {
      states.clear();
      const Tensor loss = model->loss(part(ids, begin, end), part(labels, begin, end), options, context);
      loss.backward();
      sum += loss.item();
      ASSERT_EQ(states.size(), packed.size());
      for (std::size_t i = 0; i < states.size(); ++i)
        EXPECT_LE(relative_error(part(packed[i], begin, end), states[i]), 1e-5) << i << " of " << begin;
      begin = end;
    }
  }
  EXPECT_NEAR(packed_loss.item(), sum, 1e-5 * sum);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Parameter& p = model->parameters()[i];
    // Without rotations, a bias of all keys cancels in the softmax: its gradient is rounding.
    if (kind == "transformer-window" && p.name.ends_with("k_proj.bias")) continue;
    EXPECT_LE(relative_error(gradients[i], p.tensor.grad()), 2e-5) << p.name;
  }
}

TEST_P(DecoderTest, CachedStepsEqualTheFullPass) {
  const Tensor& ids = inputs.at("input_ids");
  const auto decoding = model->decode(ids.size(0));
  std::int64_t at = 0;
  for (const std::int64_t size : {1, 3, 1, 1, 2, 1, 4, 100}) {  // several tokens at once must work too
    const std::int64_t count = std::min(size, ids.size(1) - at);
    const Tensor got = decoding->step(span_of(ids, at, at + count), context);
    at += count;
    const Tensor logits = logits_of({{"input_ids", span_of(ids, 0, at)}});
    EXPECT_LE(relative_error(got, reshape(span_of(logits, at - 1, at), got.shape())), 1e-5) << at;
  }
  EXPECT_EQ(decoding->length(), ids.size(1));
}

// Prompts of different lengths, right-padded for the first step.
TEST_P(DecoderTest, RowsOfDifferentLengthsGiveWhatEachGivesAlone) {
  const NoGradients guard;  // the same bits are promised where nothing is trained
  const std::vector<std::vector<std::int64_t>> prompts = {{5, 6, 7, 8, 9, 10, 11}, {12}, {13, 14, 15, 16}};
  const std::vector<std::int64_t> lengths = {7, 1, 4}, second = {20, 21, 22}, third = {30, 31, 32};
  std::vector<std::int64_t> padded;
  for (const auto& prompt : prompts) {
    padded.insert(padded.end(), prompt.begin(), prompt.end());
    padded.resize((padded.size() + 6) / 7 * 7, 3);
  }
  const auto together = model->decode(3);
  std::vector<Tensor> batch = {together->step_ragged(Tensor::from(padded, {3, 7}), lengths, context),
                               together->step(Tensor::from(second, {3, 1}), context)};
  together->reorder(std::vector<std::int64_t>{0, 2, 1});
  batch.push_back(together->step(Tensor::from(third, {3, 1}), context));
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto alone = model->decode(1);
    const std::size_t place = std::vector<std::size_t>{0, 2, 1}[i];
    const std::vector<Tensor> single = {
        alone->step(Tensor::from(prompts[i], {1, lengths[i]}), context),
        alone->step(Tensor::full({1, 1}, static_cast<double>(second[i]), DType::i64), context),
        alone->step(Tensor::full({1, 1}, static_cast<double>(third[place]), DType::i64), context)};
    for (std::size_t step = 0; step < 3; ++step) {
      const auto row = static_cast<std::int64_t>(step < 2 ? i : place);
      EXPECT_EQ(relative_error(slice(batch[step], 0, row, row + 1), single[step]), 0)
          << "prompt " << i << " step " << step;
    }
  }
  EXPECT_THROW(
      together->step_ragged(Tensor::from(padded, {3, 7}), std::vector<std::int64_t>{7, 0, 4}, context),
      Error);
}

TEST_P(DecoderTest, PaddingOnTheLeftChangesNothing) {
  const std::string name = GetParam().name;
  if (name == "transformer-fixed")
    return;  // its blocks are counted from the start of the row, padding included
  const std::vector<std::int64_t> ids = {5, 6, 7, 8, 9};
  const Tensor want = logits_of({{"input_ids", Tensor::from(ids, {1, 5})}});
  TensorMap padded;
  padded["input_ids"] = Tensor::from(std::vector<std::int64_t>{3, 3, 5, 6, 7, 8, 9}, {1, 7});
  padded["attention_mask"] = Tensor::from(std::vector<std::int64_t>{0, 0, 1, 1, 1, 1, 1}, {1, 7});
  const Tensor places = Tensor::from(std::vector<std::int64_t>{1, 1, 0, 1, 2, 3, 4}, {1, 7});
  const std::string family = model->family();
  if (family == "bloom" || family == "mpt" || name == "transformer-window") {  // distances alone count
    EXPECT_THROW(logits_of({{"input_ids", padded["input_ids"]}, {"position_ids", places}}), Error);
  } else {
    padded["position_ids"] = places;
  }
  EXPECT_LE(relative_error(span_of(logits_of(padded), 2, 7), want), 1e-5);
}

TEST_P(DecoderTest, ReorderedRowsContinueWhatTheyTookOver) {
  const auto decoding = model->decode(3);
  const auto column = [](std::vector<std::int64_t> values) {
    return Tensor::from(values, {static_cast<std::int64_t>(values.size()), 1});
  };
  std::vector<std::vector<std::int64_t>> sequences(3);
  Tensor logits;
  const auto feed = [&](const std::vector<std::int64_t>& tokens) {
    logits = decoding->step(column(tokens), context);
    for (std::size_t i = 0; i < tokens.size(); ++i) sequences[i].push_back(tokens[i]);
  };
  const auto reorder = [&](const std::vector<std::int64_t>& rows) {
    decoding->reorder(rows);
    std::vector<std::vector<std::int64_t>> taken;
    for (const std::int64_t row : rows) taken.push_back(sequences[static_cast<std::size_t>(row)]);
    sequences = taken;
  };
  feed({5, 6, 7});
  feed({8, 9, 10});
  reorder({1, 0, 1});
  feed({11, 12, 13});
  reorder({2, 2, 0});
  feed({14, 15, 16});
  reorder({0, 0});
  feed({17, 18});
  reorder({1, 0, 1, 0});
  feed({19, 20, 21, 22});
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const auto length = static_cast<std::int64_t>(sequences[i].size());
    const Tensor full = logits_of({{"input_ids", Tensor::from(sequences[i], {1, length})}});
    const Tensor got = slice(logits, 0, static_cast<std::int64_t>(i), static_cast<std::int64_t>(i) + 1);
    EXPECT_LE(relative_error(got, reshape(span_of(full, length - 1, length), got.shape())), 1e-5) << i;
  }
  EXPECT_THROW(decoding->reorder(std::vector<std::int64_t>{4}), Error);
}

TEST_P(DecoderTest, SavedDirectoryAndOtherLayoutsGiveTheSameNumbers) {
  const auto folder = fs::temp_directory_path() / ("heed_decoder_test_" + std::to_string(::getpid()));
  const auto want = logits_of(inputs).to_vector<float>();
  const auto same = [&](const fs::path& where) {
    const NoGradients guard;
    return load_decoder(where)->forward(inputs, {}, context).at("logits").to_vector<float>() == want;
  };
  fs::create_directories(folder);
  model->save(folder);
  EXPECT_TRUE(same(folder)) << "saved";
  fs::copy_file(directory / "config_hub_style.json", folder / "config.json",
                fs::copy_options::overwrite_existing);
  EXPECT_TRUE(same(folder)) << "hub style";
  model->save(folder, DType::bf16);
  const NoGradients guard;
  const auto narrow = load_decoder(folder, DType::bf16);
  const Tensor rounded = narrow->forward(inputs, {}, context).at("logits");
  EXPECT_EQ(rounded.to_vector<float>(),
            load_decoder(folder)->forward(inputs, {}, context).at("logits").to_vector<float>());
  if (GetParam().router_outputs ==
      0) {  // rounded weights choose other experts for tokens between two of them
    EXPECT_LE(relative_error(rounded, logits_of(inputs)), 0.1);
  }
  fs::remove_all(folder);
  if (fs::exists(directory / "hub_layout")) {
    EXPECT_TRUE(same(directory / "hub_layout"));
  }
}

TEST_P(DecoderTest, RefusesWhatDoesNotFit) {
  const auto refuses = [&](const char* name, const Tensor& tensor, const char* told) {
    TensorMap bad = inputs;
    bad[name] = tensor;
    try {
      model->forward(bad, {}, context);
      ADD_FAILURE() << name << " was accepted";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(told));
    }
  };
  const Shape shape = inputs.at("input_ids").shape();
  refuses("input_ids", Tensor::full(shape, static_cast<double>(model->vocab_size()), DType::i64),
          "forward: input_ids: expected ids in [0, ");
  refuses("attention_mask", Tensor::full({2, 3}, 1, DType::i64), "attention_mask");
  refuses("labels", Tensor::full(shape, static_cast<double>(model->vocab_size()), DType::i64), "target");
  refuses("token_type_ids", Tensor::zeros(shape, DType::i64), "token_type_ids");
  if (const auto positions = model->max_positions()) {
    const Tensor long_ids = Tensor::full({1, *positions + 1}, 3, DType::i64);
    EXPECT_THROW(model->forward({{"input_ids", long_ids}}, {}, context), Error);
    EXPECT_NO_THROW(model->forward({{"input_ids", span_of(long_ids, 0, *positions)}}, {}, context));
  }
  EXPECT_THROW(model->decode(0), Error);
}

class DecoderTraining : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, DecoderTraining,
                         testing::Values("gpt2", "llama", "qwen3", "mixtral", "gemma3", "transformer-linear",
                                         "transformer-strided", "transformer-fixed", "transformer-window"));

TEST_P(DecoderTraining, StepsOfAdamWFollowPyTorch) {
  const fs::path directory = kDecoders / GetParam();
  const auto model = load_decoder(directory);
  const TensorMap inputs = read_tensors(directory / "inputs.safetensors");
  Context context;
  std::ifstream stream(directory / "training.json");
  const auto training = nlohmann::json::parse(stream);
  FixtureAdamW optimizer(*model, training.at("settings"));
  for (std::size_t step = 0; step < 10; ++step) {
    const Tensor loss = model->forward(inputs, {}, context).at("loss");
    const double want = training.at("losses").at(step);
    EXPECT_NEAR(loss.item(), want, 1e-5 * want) << "step " << step;
    loss.backward();
    optimizer.step();
  }
  const double last = model->forward(inputs, {}, context).at("loss").item();
  EXPECT_NEAR(last, training.at("loss_after_last_step").get<double>(), 1e-5 * last);
}

}  // namespace
}  // namespace heed
