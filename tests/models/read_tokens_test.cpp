// Passes of which one token of each row is read give the bits of passes of which all are.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "heed/autograd.h"
#include "heed/models/registry.h"
#include "heed/nn/part.h"
#include "models/family_fixtures.h"

namespace heed {
namespace {

constexpr std::int64_t kRows = 3, kTokens = 9;
const std::vector<std::int64_t> kLengths{9, 1, 6};

Tensor ids(std::int64_t rows, std::int64_t tokens, std::uint64_t seed, std::int64_t vocabulary) {
  const RandomStream numbers{seed, 1};
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < rows * tokens; ++i)
    values.push_back(1 + static_cast<std::int64_t>(numbers.uniform(static_cast<std::uint64_t>(i)) *
                                                   static_cast<double>(vocabulary - 2)));
  return Tensor::from(values, {rows, tokens});
}

Tensor mask_of(const std::vector<std::int64_t>& lengths, std::int64_t tokens) {
  const Tensor mask = Tensor::zeros({std::ssize(lengths), tokens}, DType::i64);
  for (std::size_t row = 0; row < lengths.size(); ++row)
    std::fill_n(mask.data<std::int64_t>() + static_cast<std::int64_t>(row) * tokens, lengths[row], 1);
  return mask;
}

// Rows of what the model reads, of different lengths where it reads tokens.
ModelInput input_of(const Model& model) {
  const InputSpec spec = model.input();
  if (spec.kind == InputKind::tokens)
    return {.ids = ids(kRows, kTokens, 5, model.vocab_size()), .mask = mask_of(kLengths, kTokens)};
  std::vector<std::int64_t> sizes{kRows};
  for (int axis = 0; axis < spec.fitting().rank(); ++axis) {
    const std::int64_t size = spec.fitting()[axis];
    sizes.push_back(size >= 0 ? size : std::max<std::int64_t>(64, spec.least + 5 * spec.hop));
  }
  Shape shape(sizes);
  Tensor values = Tensor::empty(shape);
  const RandomStream numbers{7, 1};
  for (std::int64_t i = 0; i < values.numel(); ++i)
    values.data<float>()[i] = static_cast<float>(numbers.uniform(static_cast<std::uint64_t>(i))) - 0.5F;
  return {.values = values};
}

struct ReadTokens : testing::TestWithParam<FamilyFixture> {
  std::unique_ptr<Model> model = load_model(GetParam().path());
  const NoGradients guard;
};

using Encode = std::function<Tensor(const ModelInput& input)>;

Encode encoder_of(const Model& model) {
  const auto with = [](const auto& kind) {
    return [&kind](const ModelInput& input) {
      Context context;
      return kind.encode(input, context);
    };
  };
  if (const auto* encoder = dynamic_cast<const EncoderModel*>(&model)) return with(*encoder);
  if (const auto* decoder = dynamic_cast<const DecoderModel*>(&model)) return with(*decoder);
  return with(dynamic_cast<const EncoderDecoderModel&>(model));
}

TEST_P(ReadTokens, StatesHaveTheBitsOfAllTokens) {
  const InputSpec spec = model->input();
  const Encode encode = encoder_of(*model);
  ModelInput input = input_of(*model);
  if (dynamic_cast<const DecoderModel*>(model.get()) != nullptr) input.mask = {};
  const Tensor all = encode(input);
  std::vector<std::int64_t> last;
  for (const std::int64_t length : kLengths)
    last.push_back(spec.kind == InputKind::tokens ? length - 1 : all.size(1) - 1);
  for (const std::vector<std::int64_t>& read : {std::vector<std::int64_t>(kRows, 0), last}) {
    input.read = read;
    const Tensor some = encode(input);
    EXPECT_EQ(some.shape(), (Shape{kRows, 1, all.size(2)}));
    EXPECT_EQ(some.to_vector<float>(), tokens_at(all, read).to_vector<float>());
  }
}

TEST_P(ReadTokens, HeadsGiveTheBitsOfAllTokens) {
  const auto* encoder = dynamic_cast<const EncoderModel*>(model.get());
  if (encoder == nullptr || encoder->head() != EncoderHead::sequence) GTEST_SKIP() << "no such head";
  const ModelInput input = input_of(*model);
  Context context;
  const Tensor all = encoder->encode(input, context), some = encoder->encode_for_head(input, context);
  EXPECT_EQ(some.size(1) == 1, encoder->head_reads_first_token());
  EXPECT_EQ(encoder->predict(some, input.mask, context).to_vector<float>(),
            encoder->predict(all, input.mask, context).to_vector<float>());
  TensorMap named;
  if (input.ids.defined()) named = {{"input_ids", input.ids}, {"attention_mask", input.mask}};
  if (input.values.defined()) named = {{model->input().name, input.values}};
  EXPECT_EQ(encoder->forward(named).at("logits").to_vector<float>(),
            encoder->forward(named, {.hidden_states = true}).at("logits").to_vector<float>());
}

// A decoding whose taps listen computes all tokens of its last layer.
TEST_P(ReadTokens, DecodingGivesTheBitsOfAllTokens) {
  const auto* decoder = dynamic_cast<const DecoderModel*>(model.get());
  const auto* both = dynamic_cast<const EncoderDecoderModel*>(model.get());
  if (decoder == nullptr && both == nullptr) GTEST_SKIP() << "no decoding";
  const std::int64_t vocabulary = model->vocab_size();
  for (const CacheDType stored : {CacheDType::f32, CacheDType::bf16}) {
    Taps taps;
    taps.listen("decoder.embed", [](const std::string&, Tensor&) {});
    Context heard{.taps = &taps, .cache_dtype = stored}, alone{.cache_dtype = stored};
    const auto begin = [&](Context& context) {
      return decoder != nullptr ? decoder->decode(kRows) : both->decode(input_of(*model), context);
    };
    const auto whole = begin(heard), some = begin(alone);
    const auto same = [&](const Tensor& ids, const std::vector<std::int64_t>& lengths) {
      const auto logits = [&](Decoding& decoding, Context& context) {
        return (lengths.empty() ? decoding.step(ids, context) : decoding.step_ragged(ids, lengths, context))
            .to_vector<float>();
      };
      EXPECT_EQ(logits(*some, alone), logits(*whole, heard)) << ids.str();
    };
    same(ids(kRows, 5, 1, vocabulary), {});
    same(ids(kRows, 3, 2, vocabulary), {});
    if (whole->chunk_size() > 0) same(ids(kRows, 4, 3, vocabulary), {2, 4, 1});
    same(ids(kRows, 1, 4, vocabulary), {});
    same(ids(kRows, 2, 6, vocabulary), {});
  }
}

// All but towers of two and images of any proportions, whose input has other tensors.
std::vector<FamilyFixture> fixtures() {
  std::vector<FamilyFixture> fixtures;
  for (const FamilyFixture& f : kFamilyFixtures) {
    if (f.kind != ModelKind::dual_encoder && !std::string(f.folder).ends_with("siglip2-vision"))
      fixtures.push_back(f);
  }
  return fixtures;
}

INSTANTIATE_TEST_SUITE_P(All, ReadTokens, testing::ValuesIn(fixtures()),
                         [](const auto& info) { return as_test_name(info.param.folder); });

}  // namespace
}  // namespace heed
