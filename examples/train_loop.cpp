// A training loop: a transformer of one encoder and one decoder layer learns to reverse six digits. Each step
// makes a batch, computes the loss, runs the backward pass and updates the weights by AdamW with gradient
// clipping. Afterward the model decodes two sequences.
#include <cstdio>
#include <vector>

#include "heed/heed.h"
#include "heed/models/model.h"
#include "heed/models/registry.h"
#include "heed/train/adamw.h"
#include "heed/train/schedule.h"

namespace {

constexpr std::int64_t kDigits = 6, kBatch = 64, kSteps = 400;
constexpr std::int64_t kEnd = 10, kPad = 11;  // after the digits 0 to 9; kPad also starts the decoder

struct Pairs {
  heed::ModelInput source;  // digits and kEnd
  heed::Tensor labels;      // the reversed digits and kEnd
};

Pairs random_pairs(std::int64_t count, heed::RandomStream random) {
  const heed::Shape shape{count, kDigits + 1};
  std::vector<std::int64_t> source, labels;
  for (std::int64_t row = 0; row < count; ++row) {
    std::vector<std::int64_t> digits;
    for (std::int64_t i = 0; i < kDigits; ++i) {
      digits.push_back(random.word(static_cast<std::uint64_t>(row * kDigits + i)) % 10);
    }
    source.insert(source.end(), digits.begin(), digits.end());
    source.push_back(kEnd);
    labels.insert(labels.end(), digits.rbegin(), digits.rend());
    labels.push_back(kEnd);
  }
  const std::vector<std::int64_t> all_tokens(source.size(), 1);  // every row has the same length: no padding
  return {{heed::Tensor::from(source, shape), heed::Tensor::from(all_tokens, shape)},
          heed::Tensor::from(labels, shape)};
}

// The config.json of a small model: tokens 0 to 9, the end token 10, padding 11.
const char* const kConfig = R"({
  "model_type": "marian",
  "vocab_size": 12,
  "d_model": 64,
  "encoder_layers": 1,
  "decoder_layers": 1,
  "encoder_attention_heads": 4,
  "decoder_attention_heads": 4,
  "encoder_ffn_dim": 128,
  "decoder_ffn_dim": 128,
  "max_position_embeddings": 16,
  "activation_function": "relu",
  "dropout": 0.0,
  "scale_embedding": true,
  "eos_token_id": 10,
  "pad_token_id": 11,
  "decoder_start_token_id": 11
})";

void decode(const heed::EncoderDecoderModel& model, const std::vector<std::int64_t>& digits) {
  std::vector<std::int64_t> source = digits;
  source.push_back(kEnd);
  heed::GenerationOptions options;
  options.max_new_tokens = kDigits + 1;
  options.eos_token_id = {kEnd};
  options.pad_token_id = options.decoder_start_token_id = kPad;
  const std::vector<std::vector<std::int64_t>> sources{source};
  const auto found = heed::search_sources(model, sources, options, 4096);
  for (const std::int64_t digit : digits) std::printf("%d ", static_cast<int>(digit));
  std::printf("->");
  for (const std::int64_t id : found[0][0].ids)
    id == kEnd ? (void)std::puts("") : (void)std::printf(" %d", static_cast<int>(id));
}

}  // namespace

int main() {
  heed::Generator generator(1);  // the seed of weights and data
  const auto model =
      heed::make_as<heed::EncoderDecoderModel>(heed::Config::parse(kConfig, "kConfig"), generator);
  heed::AdamWOptions adamw;
  adamw.beta2 = 0.98;
  heed::AdamW optimizer(model->parameters(), adamw);
  const heed::Schedule schedule{heed::ScheduleKind::cosine, 5e-3, 0.0, 50, kSteps};
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    const Pairs pairs = random_pairs(kBatch, generator.next());
    heed::Context context;  // the default: no dropout, no taps
    const heed::Tensor loss = model->loss(pairs.source, pairs.labels, {}, context);
    loss.backward();
    const double norm = heed::gradient_norm(model->parameters());
    optimizer.step(schedule.at(step), heed::clip_scale(norm, 1.0));
    optimizer.zero_grad();
    if (step == 1 || step % 50 == 0)
      std::printf("step %3d  loss %.4f\n", static_cast<int>(step), loss.item());
  }
  decode(*model, {3, 1, 4, 1, 5, 9});
  decode(*model, {2, 7, 1, 8, 2, 8});
}
