// What is particular to decoders: documents in one row, prompts of different lengths, padding on the left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "heed/autograd.h"
#include "heed/models/registry.h"
#include "heed/ops.h"
#include "models/family_fixtures.h"
#include "reference/error.h"
#include "reference/tensors.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

// Positions [begin, end) of rows [B, T, ...].
Tensor span_of(const Tensor& rows, std::int64_t begin, std::int64_t end) {
  return slice(rows, 1, begin, end).contiguous();
}

class DecoderTest : public testing::TestWithParam<FamilyFixture> {
 protected:
  std::unique_ptr<DecoderModel> model = load_as<DecoderModel>(GetParam().path());
  std::string name = fs::path(GetParam().folder).filename();
  TensorMap inputs = read_tensors(GetParam().path() / "inputs.safetensors");
  Context context;

  Tensor logits_of(const TensorMap& named) const {
    const NoGradients guard;
    Context plain;
    return model->forward(named, {}, plain).at("logits");
  }
};
INSTANTIATE_TEST_SUITE_P(All, DecoderTest, testing::ValuesIn(family_fixtures([](const FamilyFixture& f) {
                           return f.is_in("decoders");
                         })),
                         [](const auto& info) { return as_test_name(info.param.folder); });

// Rows of documents that are kept apart give the hidden states, the loss and the gradients of each document
// in a row of its own.
TEST_P(DecoderTest, PackedDocumentsEqualDocumentsAlone) {
  const Tensor ids = inputs.at("input_ids");
  const std::int64_t time = ids.size(1);
  const std::vector<std::vector<std::int64_t>> ends{{3, 4, time / 2 + 1, time}, {time / 2, time - 1, time}};
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
  taps.listen("decoder.layers.*.out", [&](const std::string& tap, Tensor& value) {
    if (tap.find(".experts.") == std::string::npos) states.push_back(value.detach());
  });
  context.taps = &taps;
  if (name == "transformer-strided" || name == "transformer-fixed" || name == "transformer-linear") {
    EXPECT_ERROR(
        model->loss({.ids = ids}, labels, options, context, starts),
        name == "transformer-linear" ? "linear attention: expected one" : "sparse attention: expected one");
    return;
  }
  const Tensor packed_loss = model->loss({.ids = ids}, labels, options, context, starts);
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
      const Tensor loss =
          model->loss({.ids = part(ids, begin, end)}, part(labels, begin, end), options, context);
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
    if (name == "transformer-window" && p.name.ends_with("k_proj.bias")) continue;
    EXPECT_LE(relative_error(gradients[i], p.tensor.grad()), 2e-5) << p.name;
  }
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
  EXPECT_ERROR(
      together->step_ragged(Tensor::from(padded, {3, 7}), std::vector<std::int64_t>{7, 0, 4}, context),
      "decoding: expected for each of 3 rows at least one of the ids");
}

TEST_P(DecoderTest, PaddingOnTheLeftChangesNothing) {
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
    EXPECT_ERROR(logits_of({{"input_ids", padded["input_ids"]}, {"position_ids", places}}),
                 "got position_ids");
  } else {
    padded["position_ids"] = places;
  }
  EXPECT_LE(relative_error(span_of(logits_of(padded), 2, 7), want), 1e-5);
}

TEST_P(DecoderTest, RefusesLabelsAndRowsThatDoNotFit) {
  const auto refuses = [](const auto& run, const char* message) { EXPECT_ERROR(run(), message); };
  inputs["labels"] =
      Tensor::full(inputs.at("input_ids").shape(), static_cast<double>(model->vocab_size()), DType::i64);
  refuses([&] { model->forward(inputs, {}, context); }, "target");
  refuses([&] { model->decode(0); }, "decoding: expected at least 1 row, got 0");
}

}  // namespace
}  // namespace heed
