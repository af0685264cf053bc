// heed bench encode, generate, translate and train: whole models on random tokens.
#include <algorithm>
#include <optional>

#include "cli/bench.h"
#include "cli/bench_model.h"
#include "cli/model_commands.h"
#include "cli/option_values.h"
#include "heed/autograd.h"
#include "heed/generate/search.h"
#include "heed/train/adamw.h"

namespace heed::cli {
namespace {

struct ModelArguments {
  BenchModelOptions model;
  BenchOptions options;
  std::int64_t batch = 1, length = 1, new_tokens = 1, beams = 1;
};

/// Returns token ids i64 [batch, length] from the model's vocabulary. The first ids are often special tokens;
/// they are excluded if there are others.
Tensor random_ids(const Model& model, std::int64_t batch, std::int64_t length, std::uint64_t stream) {
  const RandomStream random{7, stream};
  const std::int64_t first = std::min<std::int64_t>(10, model.vocab_size() - 1);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(batch * length));
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = first + static_cast<std::int64_t>(random.word(i)) % (model.vocab_size() - first);
  return Tensor::from(ids, {batch, length});
}

template <class Kind>
const Kind& of_kind(const BenchModel& bench, const char* task) {
  const auto* model = dynamic_cast<const Kind*>(bench.model.get());
  if (model == nullptr)
    throw Error(bench.name + ": " + kind_of(*bench.model) + " cannot " + task +
                " (heed bench --help lists all)");
  return *model;
}

BenchWork model_work(const char* kind, const BenchModel& bench, const ModelArguments& a) {
  BenchWork work;
  work.kind = kind;
  std::int64_t parameters = 0;
  for (const Parameter& parameter : bench.model->parameters()) parameters += parameter.tensor.numel();
  work.shape = {{"model", bench.name},      {"family", bench.model->family()},
                {"parameters", parameters}, {"dtype", a.model.dtype},
                {"batch", a.batch},         {"length", a.length}};
  return work;
}

void bench_encode(const ModelArguments& a, const Globals& globals) {
  const BenchModel bench_model = open_bench_model(a.model);
  if (bench_model.model->vocab_size() == 0) {
    throw Error(bench_model.name + ": " + kind_of(*bench_model.model) +
                " takes no token ids (heed bench gemm and attention take any sizes)");
  }
  BenchWork work = model_work("encode", bench_model, a);
  const ModelSize size = size_of_model(bench_model);
  const double tokens = static_cast<double>(a.batch * a.length);
  const double weights = size.encoder_weights + size.decoder_weights;
  work.operations = 2 * weights * tokens;
  work.bytes = weights * size.weight_bytes;
  work.items = {{"tokens", tokens}, {"sequences", static_cast<double>(a.batch)}};
  const TensorMap inputs{{"input_ids", random_ids(*bench_model.model, a.batch, a.length, 0)},
                         {"attention_mask", Tensor::full({a.batch, a.length}, 1, DType::i64)}};
  const NoGradients guard;
  Context context;
  work.run = [&](std::int64_t) { bench_model.model->forward(inputs, {}, context); };
  bench(work, a.options, globals);
}

// Every row generates all its tokens: no id ends it.
GenerationOptions full_length(const ModelArguments& a) {
  GenerationOptions options;
  options.max_new_tokens = options.min_new_tokens = a.new_tokens;
  options.num_beams = a.beams;
  return options;
}

// A step multiplies every row's token by every weight, and reads all weights and the whole caches, which have
// half of their final length on average.
void count_decoding(BenchWork& work, const ModelArguments& a, const ModelSize& size, std::int64_t prompt) {
  const double steps = static_cast<double>(a.new_tokens), rows = static_cast<double>(a.batch * a.beams);
  const double positions = static_cast<double>(prompt) + steps / 2;
  work.operations += 2 * size.decoder_weights * rows * steps;
  work.bytes += steps * (size.decoder_weights * size.weight_bytes +
                         rows * positions * size.cache_numbers * sizeof(float));
  work.items = {{"tokens", static_cast<double>(a.batch) * steps},
                {"sequences", static_cast<double>(a.batch)}};
  work.shape.emplace_back("new_tokens", a.new_tokens);
  work.shape.emplace_back("num_beams", a.beams);
}

void bench_generate(const ModelArguments& a, const Globals& globals) {
  const BenchModel bench_model = open_bench_model(a.model);
  const auto& model = of_kind<DecoderModel>(bench_model, "continue text");
  BenchWork work = model_work("generate", bench_model, a);
  const ModelSize size = size_of_model(bench_model);
  count_decoding(work, a, size, a.length);
  work.operations += 2 * size.decoder_weights * static_cast<double>(a.batch * (a.length - 1));
  const Tensor prompt = random_ids(model, a.batch, a.length, 0);
  const GenerationOptions options = full_length(a);
  Context context;
  work.run = [&](std::int64_t) {
    const auto decoding = model.decode(a.batch);
    search(*decoding, prompt, options, {}, context);
  };
  bench(work, a.options, globals);
}

void bench_translate(const ModelArguments& a, const Globals& globals) {
  const BenchModel bench_model = open_bench_model(a.model);
  const auto& model = of_kind<EncoderDecoderModel>(bench_model, "translate");
  BenchWork work = model_work("translate", bench_model, a);
  const ModelSize size = size_of_model(bench_model);
  work.operations = 2 * size.encoder_weights * static_cast<double>(a.batch * a.length);
  work.bytes = size.encoder_weights * size.weight_bytes;
  count_decoding(work, a, size, a.length);  // also the caches of the source, which has this length
  const std::vector<std::int64_t> ids = random_ids(model, a.batch, a.length, 0).to_vector<std::int64_t>();
  std::vector<std::vector<std::int64_t>> sources;
  for (std::int64_t i = 0; i < a.batch; ++i)
    sources.emplace_back(ids.begin() + i * a.length, ids.begin() + (i + 1) * a.length);
  GenerationOptions options = full_length(a);
  options.decoder_start_token_id = model.decoder_start_id();
  options.pad_token_id = model.pad_id();
  work.run = [&](std::int64_t) { search_sources(model, sources, options, a.batch * a.length * a.beams); };
  bench(work, a.options, globals);
}

/// Returns the mean loss of one batch of random tokens. For an encoder-decoder, sources have the same length.
std::function<Tensor()> training_loss(const BenchModel& bench, const ModelArguments& a, Context& context) {
  const Model& model = *bench.model;
  const Tensor ids = random_ids(model, a.batch, a.length, 0),
               labels = random_ids(model, a.batch, a.length, 1);
  if (const auto* decoder = dynamic_cast<const DecoderModel*>(&model))
    return [=, &context] { return decoder->loss(ids, labels, {}, context); };
  const SourceBatch source{random_ids(model, a.batch, a.length, 2),
                           Tensor::full({a.batch, a.length}, 1, DType::i64)};
  const auto& encoder_decoder = of_kind<EncoderDecoderModel>(bench, "be trained here");
  return [=, &encoder_decoder, &context] { return encoder_decoder.loss(source, labels, {}, context); };
}

void bench_train(const ModelArguments& a, const Globals& globals) {
  const BenchModel bench_model = open_bench_model(a.model);
  BenchWork work = model_work("train", bench_model, a);
  // The usual count: 2 operations per parameter and token in the forward pass, twice as many in the backward
  // pass.
  const auto parameters = static_cast<double>(std::get<std::int64_t>(work.shape[2].second));
  work.items = {{"tokens", static_cast<double>(a.batch * a.length)}, {"steps", 1}};
  work.operations = 6 * parameters * work.items[0].second;
  work.bytes =
      parameters * 7 * sizeof(float);  // the optimizer reads weight, gradient and moments, and writes three
  Context context;
  const auto loss = training_loss(bench_model, a, context);
  for (const Parameter& parameter : bench_model.model->parameters())
    Tensor(parameter.tensor).set_requires_grad();
  AdamW optimizer(bench_model.model->parameters(), {});
  work.run = [&](std::int64_t) {
    loss().backward();
    optimizer.step(1e-4, clip_scale(gradient_norm(bench_model.model->parameters()), 1));
    optimizer.zero_grad();
  };
  bench(work, a.options, globals);
}

using RunModel = void (*)(const ModelArguments&, const Globals&);

CLI::App* add_model_bench(CLI::App& bench, const char* kind, const char* text, const char* shape,
                          RunModel run, const std::shared_ptr<ModelArguments>& a, const Globals& globals) {
  CLI::App* command = bench.add_subcommand(kind, text);
  a->model.add_to(*command, shape);
  command->add_option("--batch", a->batch, "Sequences in the batch")
      ->transform(whole_number(1))
      ->capture_default_str()
      ->type_name("N")
      ->group("Shape");
  command->add_option("--length", a->length, "Tokens of each sequence (prompt or source)")
      ->transform(whole_number(1))
      ->capture_default_str()
      ->type_name("N")
      ->group("Shape");
  add_bench_options(*command, a->options);
  command->callback([a, run, &globals] { run(*a, globals); });
  return command;
}

void add_decoding_options(CLI::App& command, ModelArguments& a) {
  command.add_option("--new-tokens", a.new_tokens, "Tokens to generate for each sequence")
      ->transform(whole_number(1))
      ->capture_default_str()
      ->type_name("N")
      ->group("Shape");
  command.add_option("--num-beams", a.beams, "Number of beams; 1 is greedy search")
      ->transform(whole_number(1))
      ->capture_default_str()
      ->type_name("N")
      ->group("Shape");
}

std::shared_ptr<ModelArguments> sizes(std::int64_t batch, std::int64_t length, std::int64_t new_tokens = 0) {
  auto a = std::make_shared<ModelArguments>();
  a->batch = batch;
  a->length = length;
  a->new_tokens = new_tokens;
  return a;
}

}  // namespace

void add_bench_models(CLI::App& bench, const Globals& globals) {
  add_model_bench(bench, "encode", "Time one pass of an encoder", "bert-base", bench_encode, sizes(1, 128),
                  globals)
      ->footer("Examples:\n  heed bench encode --shape bert-base --batch 8 --length 128 --json");
  const auto to_generate = sizes(1, 8, 32), to_translate = sizes(8, 24, 24);
  CLI::App* generate = add_model_bench(bench, "generate", "Time generation with a decoder", "gpt2",
                                       bench_generate, to_generate, globals);
  add_decoding_options(*generate, *to_generate);
  generate->footer("Examples:\n  heed bench generate --shape gpt2 --dtype bf16 --new-tokens 64");
  CLI::App* translate = add_model_bench(bench, "translate", "Time translation with an encoder-decoder",
                                        "marian", bench_translate, to_translate, globals);
  add_decoding_options(*translate, *to_translate);
  translate->footer("Examples:\n  heed bench translate --model en-fr --batch 8 --length 24 --num-beams 4");
  add_model_bench(bench, "train", "Time training steps with AdamW", "gpt2", bench_train, sizes(4, 256),
                  globals)
      ->footer("Examples:\n  heed bench train --config config.json --batch 4 --length 256");
}

}  // namespace heed::cli
