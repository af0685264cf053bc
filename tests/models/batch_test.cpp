// The same sequence gives the same bits alone, among others, behind padding, and with any number of threads.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "heed/autograd.h"
#include "heed/models/registry.h"
#include "heed/threads.h"
#include "models/family_fixtures.h"

namespace heed {
namespace {

constexpr std::int64_t kSource = 7, kTarget = 5;

// Sentence 0 of every batch is the same; the others have up to `length` tokens of their own.
Tensor ids(std::int64_t batch, std::int64_t length, std::int64_t own, std::uint64_t seed,
           std::int64_t vocabulary) {
  const RandomStream same{1, 1}, other{seed, 2};
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < batch * length; ++i) {
    const auto at = static_cast<std::uint64_t>(i);
    const double number = i < own ? same.uniform(at) : other.uniform(at);
    values.push_back(1 + static_cast<std::int64_t>(number * static_cast<double>(vocabulary - 2)));
  }
  return Tensor::from(values, {batch, length});
}

Tensor mask(std::int64_t batch, std::int64_t length, std::int64_t own) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(batch * length), 1);
  for (std::int64_t i = own; i < length; ++i) values[static_cast<std::size_t>(i)] = 0;
  return Tensor::from(values, {batch, length});
}

// A fixture of each family that reads text and predicts tokens.
std::vector<FamilyFixture> first_fixtures() {
  std::set<std::string> families{"moonshine", "vision-encoder-decoder", "whisper"};  // which read no text
  std::vector<FamilyFixture> fixtures;
  for (const FamilyFixture& f : kFamilyFixtures) {
    const bool predicts =
        f.kind != ModelKind::signal && f.kind != ModelKind::dual_encoder && !f.is_in("variants") &&
        (f.kind != ModelKind::encoder || std::string(f.folder).find("mlm") != std::string::npos);
    // All kinds of recurrent attention, and of the Transformers whose attention is a setting.
    const bool settings = std::string(f.family).starts_with("heed_");
    if (predicts && (settings || families.insert(f.family).second)) fixtures.push_back(f);
  }
  return fixtures;
}

// The logits of sentence 0: its own places only.
std::vector<float> first_logits(const Model& model, bool translates, std::int64_t batch, std::int64_t source,
                                std::int64_t target) {
  const std::int64_t v = model.vocab_size();
  const NoGradients inference;
  Context context;
  TensorMap inputs{{"input_ids", ids(batch, source, kSource, 5, v)},
                   {"attention_mask", mask(batch, source, kSource)}};
  if (translates) inputs["decoder_input_ids"] = ids(batch, target, kTarget, 6, v);
  std::vector<float> logits = model.forward(inputs, {}, context).at("logits").to_vector<float>();
  logits.resize(static_cast<std::size_t>((translates ? kTarget : kSource) * v));
  return logits;
}

struct Batch : testing::TestWithParam<FamilyFixture> {};

TEST_P(Batch, NeighborsPaddingAndThreadsChangeNoBit) {
  const int before = threads();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    SCOPED_TRACE(name_of(dtype));
    const auto model = load_model(GetParam().path(), dtype);
    const auto logits = [&](std::int64_t batch, std::int64_t source, std::int64_t target) {
      return first_logits(*model, GetParam().kind == ModelKind::encoder_decoder, batch, source, target);
    };
    set_threads(1);
    const std::vector<float> alone = logits(1, kSource, kTarget);
    for (const int count : {1, 2, 3}) {
      set_threads(count);
      for (const std::int64_t batch : {1, 3, 17}) {
        EXPECT_EQ(alone, logits(batch, kSource, kTarget)) << batch << " on " << count << " threads";
        EXPECT_EQ(alone, logits(batch, 19, 9)) << "padded, " << batch << " on " << count << " threads";
      }
    }
  }
  set_threads(before);
}

INSTANTIATE_TEST_SUITE_P(All, Batch, testing::ValuesIn(first_fixtures()),
                         [](const auto& info) { return as_test_name(info.param.folder); });

}  // namespace
}  // namespace heed
