// Decoding with keys and values in 16 and 8 bits: the same bits in any batch, any cut of the prompt, and with
// listeners. tests/generate/decoder_test.cpp compares it with transformers.
#include <gtest/gtest.h>

#include <filesystem>

#include "heed/autograd.h"
#include "heed/models/registry.h"
#include "heed/ops.h"
#include "heed/threads.h"
#include "models/family_fixtures.h"
#include "reference/error.h"
#include "reference/tensors.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

constexpr CacheDType kSmall[] = {CacheDType::bf16, CacheDType::f16, CacheDType::int8};

Tensor ids_of(const std::vector<std::int64_t>& ids) { return Tensor::from(ids, {1, std::ssize(ids)}); }

class CachedFamilies : public testing::TestWithParam<FamilyFixture> {
 protected:
  std::unique_ptr<Model> model = load_model(GetParam().path());
  const DecoderModel* decoder = dynamic_cast<const DecoderModel*>(model.get());
  const EncoderDecoderModel* both = dynamic_cast<const EncoderDecoderModel*>(model.get());
  std::string family = fs::path(GetParam().folder).filename();
  bool recurrent = GetParam().is_in("recurrent");
  // Linear attention keeps sums over the keys, which depend on how the tokens are cut, beside what a softmax
  // remembers of the source.
  bool sums = recurrent || family == "transformer-linear" || family == "transformer-seq2seq";
  bool stores = !recurrent && family != "transformer-linear";
  NoGradients guard;
  int threads_ = threads();

  void TearDown() override { set_threads(threads_); }

  // Rows [first, last) of the fixture's source.
  std::unique_ptr<Decoding> decode(std::int64_t first, std::int64_t last, Context& context) const {
    if (decoder != nullptr) return decoder->decode(last - first);
    const TensorMap inputs = read_tensors(GetParam().path() / "inputs.safetensors");
    const InputSpec input = model->input();
    const auto rows = [&](const char* name) {
      return inputs.contains(name) ? slice(inputs.at(name), 0, first, last).contiguous() : Tensor();
    };
    ModelInput source;
    (input.kind == InputKind::tokens ? source.ids : source.values) = rows(input.name);
    source.mask = rows("attention_mask");
    return both->decode(source, context);
  }
};
INSTANTIATE_TEST_SUITE_P(All, CachedFamilies, testing::ValuesIn(family_fixtures([](const FamilyFixture& f) {
                           return f.kind == ModelKind::decoder || f.kind == ModelKind::encoder_decoder;
                         })),
                         [](const auto& info) { return as_test_name(info.param.folder); });

TEST_P(CachedFamilies, EachRowGivesWhatItGivesAloneHoweverItIsCut) {
  const std::vector<std::vector<std::int64_t>> tokens = {{5, 6, 7, 8, 9, 10, 11, 4},
                                                         {12, 13, 14, 15, 16, 17, 18, 19}};
  Context exact;
  const auto plain = decode(0, 1, exact);
  plain->step(slice(ids_of(tokens[0]), 1, 0, 7), exact);
  const Tensor unrounded = plain->step(slice(ids_of(tokens[0]), 1, 7, 8), exact);
  for (const CacheDType dtype : kSmall) {
    SCOPED_TRACE(name_of(dtype));
    Context context{.cache_dtype = dtype};
    set_threads(3);
    const auto together = decode(0, 2, context);
    together->step(concat({slice(ids_of(tokens[0]), 1, 0, 7), slice(ids_of(tokens[1]), 1, 0, 7)}, 0),
                   context);
    together->reorder(std::vector<std::int64_t>{1, 0, 1});
    together->reorder(std::vector<std::int64_t>{0, 1});
    const Tensor batch = together->step(
        concat({slice(ids_of(tokens[1]), 1, 7, 8), slice(ids_of(tokens[0]), 1, 7, 8)}, 0), context);
    set_threads(1);
    for (const std::int64_t row : {0, 1}) {
      for (const bool listens : {false, true}) {
        Taps taps;
        bool fired = false;
        taps.listen("decoder.*",
                    [&](const std::string& name, Tensor&) { fired = fired || name.ends_with(".k"); });
        Context own{.taps = listens ? &taps : nullptr, .cache_dtype = dtype};
        const auto alone = decode(row, row + 1, own);
        Tensor last;
        std::int64_t at = 0;
        for (const std::int64_t size : {1, 4, 1, 1, 1}) {
          last = alone->step(slice(ids_of(tokens[static_cast<std::size_t>(row)]), 1, at, at + size), own);
          at += size;
        }
        const double difference = relative_error(last, slice(batch, 0, 1 - row, 2 - row));
        EXPECT_LE(difference, sums ? 1e-6 : 0) << row << " " << listens;
        EXPECT_EQ(fired, listens && !recurrent);
      }
    }
    const double change = relative_error(slice(batch, 0, 1, 2), unrounded);
    EXPECT_EQ(change > 0, stores);
    EXPECT_LT(change, 0.1);
    if (!stores) continue;
    Context other{.cache_dtype = dtype == CacheDType::bf16 ? CacheDType::f16 : CacheDType::bf16};
    EXPECT_ERROR(together->step(Tensor::full({2, 1}, 5, DType::i64), other),
                 "key-value cache: expected cache_dtype " + std::string(name_of(dtype)));
  }
}

TEST_P(CachedFamilies, TheLossIsThatOfTheSteps) {
  if (decoder == nullptr) return;
  const std::vector<std::int64_t> ids{5, 6, 7, 8, 9, 10, 11, 4, 12};
  for (const CacheDType dtype : kSmall) {
    Context context{.cache_dtype = dtype};
    const auto decoding = decoder->decode(1);
    double nats = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i)
      nats += cross_entropy(decoding->step(ids_of({ids[i]}), context),
                            Tensor::from<std::int64_t>({ids[i + 1]}, {1}))
                  .item();
    const std::vector<std::int64_t> labels(ids.begin() + 1, ids.end()), fed(ids.begin(), ids.end() - 1);
    const double loss =
        decoder->loss({.ids = ids_of(fed)}, ids_of(labels), {.reduction = Reduction::sum}, context).item();
    EXPECT_NEAR(loss, nats, 1e-5 * nats) << name_of(dtype);
  }
}

}  // namespace
}  // namespace heed
