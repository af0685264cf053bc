// Opens or creates the model that is measured, counts its minimum work, and makes the work.
#include "bench/model.h"

#include <unistd.h>

#include <algorithm>

#include "core/strings.h"
#include "heed/autograd.h"
#include "heed/generate/search.h"
#include "heed/models/kind.h"
#include "heed/models/registry.h"
#include "heed/random.h"
#include "heed/train/adamw.h"
#include "kernels/machine.h"
#include "tensor/impl.h"
#include "tensor/quantized_matrix.h"

namespace heed::bench {
namespace {

namespace fs = std::filesystem;

struct NamedShape {
  const char* name;
  const char* config;
};

// Sizes of common models, as in their config.json.
constexpr NamedShape kShapes[] = {
    {"gpt2",
     R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 50257, "n_positions": 1024,
      "n_embd": 768, "n_layer": 12, "n_head": 12, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0})"},
    {"bert-base",
     R"({"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 30522, "hidden_size": 768,
      "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072})"},
    {"marian",
     R"({"model_type": "marian", "architectures": ["MarianMTModel"], "vocab_size": 58101, "d_model": 512,
      "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 8, "decoder_attention_heads": 8,
      "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048, "dropout": 0.0, "pad_token_id": 58100,
      "decoder_start_token_id": 58100, "eos_token_id": 0})"},
    {"vit-base",
     R"({"model_type": "vit", "architectures": ["ViTModel"], "hidden_size": 768, "num_hidden_layers": 12,
      "num_attention_heads": 12, "intermediate_size": 3072, "image_size": 224, "patch_size": 16})"},
    {"whisper-base",
     R"({"model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"], "vocab_size": 51865,
      "d_model": 512, "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 8,
      "decoder_attention_heads": 8, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048, "num_mel_bins": 80,
      "max_source_positions": 1500, "max_target_positions": 448})"},
};

/// A directory that is removed by the destructor.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (fs::temp_directory_path() / "heed-bench-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      throw Error(name + ": cannot be created (set TMPDIR to a folder that can be written to)");
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// Returns true for embedding tables of tokens, positions and token types, under the names of any family.
bool is_lookup(const Parameter& parameter) {
  if (contains(parameter.name, "embed_out")) return false;  // an output layer
  for (const char* part : {"embeddings.", "embed_", "embed.", "wte.", "wpe.", "shared."}) {
    if (contains(parameter.name, part)) return true;
  }
  return false;
}

std::int64_t first_of(const Config& config, std::initializer_list<const char*> names,
                      std::int64_t default_value) {
  for (const char* name : names) {
    if (config.has(name)) return config.positive_integer(name, default_value);
  }
  return default_value;
}

// Bytes of the keys and values of one position.
double cache_bytes(const Config& config, CacheDType dtype) {
  const std::int64_t width = first_of(config, {"hidden_size", "n_embd", "d_model"}, 1);
  const std::int64_t heads = first_of(
      config, {"decoder_attention_heads", "num_attention_heads", "n_head", "n_heads", "num_heads"}, 1);
  const std::int64_t kv_heads = first_of(config, {"num_key_value_heads"}, heads);
  const std::int64_t head_dim = first_of(config, {"head_dim", "d_kv"}, width / heads);
  const std::int64_t layers =
      first_of(config, {"decoder_layers", "num_hidden_layers", "n_layer", "n_layers", "num_layers"}, 1);
  return 2.0 * static_cast<double>(layers * kv_heads * heed::cache_bytes(dtype, head_dim));
}

/// The minimum cost of a token, computed from the sizes of the tensors alone.
struct ModelCost {
  double encoder_weights = 0;  // weights multiplied by each source token (of an encoder: each token)
  double decoder_weights = 0;  // the same for a decoder, including the output layer
  double weight_bytes = 0;     // average storage of one weight
  double cache_bytes = 0;      // that one position adds to a decoder's caches
};

double stored_bytes(const Tensor& weight) {
  if (const auto quantized = quantized_of(weight)) return static_cast<double>(quantized->bytes());
  const Tensor narrow = unwidened(weight);
  const DType stored = narrow.defined() ? narrow.dtype() : weight.dtype();
  return static_cast<double>(weight.numel()) * static_cast<double>(heed::size_of(stored));
}

ModelCost cost_of_token(const BenchModel& bench, CacheDType cache_dtype = CacheDType::f32) {
  const ModelTraits traits = traits_of(bench.model());
  const bool two_sides = traits.is(ModelKind::encoder_decoder);
  const bool makes_logits =
      two_sides || traits.is(ModelKind::decoder) || traits.is_encoder(EncoderHead::masked_lm);
  ModelCost size;
  double bytes = 0, multiplied = 0, output_table = 0, output_bytes = 0;
  bool has_output_layer = false;
  double uses = 1;  // uses of each weight: layers that share weights run one after another
  if (bench.config.has("num_hidden_groups")) {
    uses = static_cast<double>(first_of(bench.config, {"num_hidden_layers"}, 1)) /
           static_cast<double>(first_of(bench.config, {"num_hidden_groups"}, 1));
  }
  for (const Parameter& parameter : bench.model().parameters()) {
    const double count = static_cast<double>(parameter.tensor.numel());
    if (parameter.tensor.rank() != 2) continue;
    if (is_lookup(parameter)) {  // the largest is the output layer if there is no separate one
      if (count > output_table) output_bytes = stored_bytes(parameter.tensor);
      output_table = std::max(output_table, count);
      continue;
    }
    has_output_layer =
        has_output_layer || contains(parameter.name, "lm_head") || contains(parameter.name, "embed_out");
    bytes += uses * stored_bytes(parameter.tensor);
    multiplied += uses * count;
    const bool decoder = two_sides ? !contains(parameter.name, "encoder.") : makes_logits;
    (decoder ? size.decoder_weights : size.encoder_weights) += uses * count;
  }
  if (makes_logits && !has_output_layer) {
    size.decoder_weights += output_table;
    bytes += output_bytes;
    multiplied += output_table;
  }
  size.weight_bytes = multiplied > 0 ? bytes / multiplied : 0;
  size.cache_bytes = cache_bytes(bench.config, cache_dtype);
  return size;
}

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

/// An image, a spectrogram or a waveform of random numbers in each row.
ModelInput random_values(const InputSpec& spec, std::int64_t batch) {
  constexpr std::int64_t kSamples = 160000;  // of waveforms: 10 s
  std::vector<std::int64_t> sizes{batch};
  for (const std::int64_t size : spec.fitting()) sizes.push_back(size == -1 ? kSamples : size);
  ModelInput input{.values = Tensor::empty(Shape(sizes))};
  const RandomStream random{7, 3};
  for (std::int64_t i = 0; i < input.values.numel(); ++i)
    input.values.data<float>()[i] = random.normal(static_cast<std::uint64_t>(i));
  if (spec.kind == InputKind::patches) {
    input.grids = Tensor::full({batch, 2}, 1, DType::i64);
    for (std::int64_t b = 0; b < batch; ++b) input.grids.data<std::int64_t>()[2 * b + 1] = sizes[1];
  }
  return input;
}

/// The positions that an encoder makes of its input.
template <class Encodes>
std::int64_t positions_of(const Encodes& model, const ModelInput& input) {
  const NoGradients guard;
  Context context;
  return model.encode(input, context).size(1);
}

template <class Kind>
const Kind& of_kind(const BenchModel& bench, const char* expected) {
  const auto* model = as<Kind>(bench.model());
  if (model == nullptr)
    throw Error(bench.name + ": expected " + expected + ", got " + bench.model().family() +
                " (heed bench --help lists what else is measured)");
  return *model;
}

Work model_work(const char* kind, const BenchModel& bench, const ModelSizes& sizes) {
  Work work;
  work.kind = kind;
  std::int64_t parameters = 0;
  for (const Parameter& parameter : bench.model().parameters()) parameters += parameter.tensor.numel();
  work.shape = {{"model", bench.name},      {"family", bench.model().family()},
                {"parameters", parameters}, {"dtype", std::string(name_of(bench.options.dtype))},
                {"batch", sizes.batch},     {"length", sizes.length}};
  if (bench.model().takes_int8()) {
    work.int8 = true;
    work.shape.emplace_back("int8", std::string(kernels::int8_instruction()));
  }
  return work;
}

// Every row generates all its tokens: no id ends it.
GenerationOptions full_length(const ModelSizes& sizes) {
  GenerationOptions options;
  options.max_new_tokens = options.min_new_tokens = sizes.new_tokens;
  options.num_beams = sizes.beams;
  options.cache_dtype = sizes.cache_dtype;
  return options;
}

// A step multiplies every row's token by every weight, and reads all weights and the whole caches, which have
// half of their final length on average.
void count_decoding(Work& work, const ModelSizes& sizes, const ModelCost& cost, std::int64_t prompt) {
  const double steps = static_cast<double>(sizes.new_tokens),
               rows = static_cast<double>(sizes.batch * sizes.beams);
  const double positions = static_cast<double>(prompt) + steps / 2;
  work.operations += 2 * cost.decoder_weights * rows * steps;
  work.bytes += steps * (cost.decoder_weights * cost.weight_bytes + rows * positions * cost.cache_bytes);
  work.items = {{"tokens", static_cast<double>(sizes.batch) * steps},
                {"sequences", static_cast<double>(sizes.batch)}};
  work.shape.emplace_back("new_tokens", sizes.new_tokens);
  work.shape.emplace_back("num_beams", sizes.beams);
  work.shape.emplace_back("cache_dtype", std::string(name_of(sizes.cache_dtype)));
  work.shape.emplace_back(
      "cache_bytes",
      static_cast<std::int64_t>(rows * (static_cast<double>(prompt) + steps) * cost.cache_bytes));
}

/// Returns the mean loss of one batch of random tokens. For an encoder-decoder, sources have the same length.
std::function<Tensor(Context&)> training_loss(const BenchModel& bench, const ModelSizes& sizes) {
  const Model& model = bench.model();
  const Tensor ids = random_ids(model, sizes.batch, sizes.length, 0),
               labels = random_ids(model, sizes.batch, sizes.length, 1);
  if (const auto* decoder = as<DecoderModel>(model))
    return [=](Context& context) { return decoder->loss({.ids = ids}, labels, {}, context); };
  const ModelInput source{random_ids(model, sizes.batch, sizes.length, 2),
                          Tensor::full({sizes.batch, sizes.length}, 1, DType::i64)};
  const auto& encoder_decoder = of_kind<EncoderDecoderModel>(bench, "a decoder or an encoder-decoder");
  return
      [=, &encoder_decoder](Context& context) { return encoder_decoder.loss(source, labels, {}, context); };
}

}  // namespace

std::vector<std::string> known_shapes() {
  std::vector<std::string> names;
  for (const NamedShape& known : kShapes) names.emplace_back(known.name);
  return names;
}

Config known_shape(const std::string& name) {
  for (const NamedShape& known : kShapes) {
    if (name == known.name) return Config::parse(known.config, "shape " + name);
  }
  throw Error("shape: expected one of " + joined(kShapes, ", ", &NamedShape::name) + ", got " + name);
}

namespace {

// With its head, which is measured too.
std::shared_ptr<const BenchModel> opened_model(const std::string& name, const std::string& path,
                                               LoadOptions options) {
  options.head = true;
  LoadedModel opened = load(path, options);
  return std::make_shared<BenchModel>(BenchModel{name, options, load_model_config(opened.files()), opened});
}

}  // namespace

std::shared_ptr<const BenchModel> named_model(const std::string& name, LoadOptions options) {
  return opened_model(name, name, std::move(options));
}

std::shared_ptr<const BenchModel> random_model(const std::string& name, const Config& config,
                                               LoadOptions options) {
  Generator generator(7);
  // The model is saved and loaded as a user's would be: its weights may have 16 bits and be packed for matrix
  // products.
  const TemporaryDirectory directory;
  make_model(config, generator)->save(directory.path(), options.dtype);
  return opened_model(name, directory.path(), std::move(options));
}

Work encode_work(const std::shared_ptr<const BenchModel>& bench, const ModelSizes& given) {
  const Model& model = bench->model();
  ModelSizes sizes = given;
  ModelInput values;
  if (model.input().kind != InputKind::tokens) {
    const auto& encoder = of_kind<EncoderModel>(*bench, "one encoder");
    values = random_values(model.input(), sizes.batch);
    sizes.length = positions_of(encoder, values);
  }
  Work work = model_work("encode", *bench, sizes);
  const ModelCost cost = cost_of_token(*bench);
  const double tokens = static_cast<double>(sizes.batch * sizes.length);
  const double weights = cost.encoder_weights + cost.decoder_weights;
  work.operations = 2 * weights * tokens;
  work.bytes = weights * cost.weight_bytes;
  work.items = {{"tokens", tokens}, {"sequences", static_cast<double>(sizes.batch)}};
  TensorMap inputs;
  if (values.values.defined()) {
    inputs[model.input().name] = values.values;
    if (values.grids.defined()) inputs["spatial_shapes"] = values.grids;
  } else {
    inputs = {{"input_ids", random_ids(model, sizes.batch, sizes.length, 0)},
              {"attention_mask", Tensor::full({sizes.batch, sizes.length}, 1, DType::i64)}};
  }
  work.run = [bench, inputs](std::int64_t) {
    const NoGradients guard;
    Context context;
    bench->model().forward(inputs, {}, context);
  };
  return work;
}

Work generate_work(const std::shared_ptr<const BenchModel>& bench, const ModelSizes& sizes) {
  const auto& model = of_kind<DecoderModel>(*bench, "a decoder");
  Work work = model_work("generate", *bench, sizes);
  const ModelCost cost = cost_of_token(*bench, sizes.cache_dtype);
  count_decoding(work, sizes, cost, sizes.length);
  work.operations += 2 * cost.decoder_weights * static_cast<double>(sizes.batch * (sizes.length - 1));
  const Tensor prompt = random_ids(model, sizes.batch, sizes.length, 0);
  work.run = [bench, &model, prompt, options = full_length(sizes)](std::int64_t) {
    Context context;
    const auto decoding = model.decode(prompt.size(0));
    search(*decoding, prompt, options, {}, context);
  };
  return work;
}

Work translate_work(const std::shared_ptr<const BenchModel>& bench, const ModelSizes& given) {
  const auto& model = of_kind<EncoderDecoderModel>(*bench, "an encoder-decoder");
  const bool reads_tokens = model.input().kind == InputKind::tokens;
  ModelSizes sizes = given;
  ModelInput values;
  if (!reads_tokens) {
    values = random_values(model.input(), sizes.batch);
    sizes.length = positions_of(model, values);
  }
  Work work = model_work("translate", *bench, sizes);
  const ModelCost cost = cost_of_token(*bench, sizes.cache_dtype);
  work.operations = 2 * cost.encoder_weights * static_cast<double>(sizes.batch * sizes.length);
  work.bytes = cost.encoder_weights * cost.weight_bytes;
  count_decoding(work, sizes, cost, sizes.length);  // also the caches of the source, which has this length
  GenerationOptions options = full_length(sizes);
  options.decoder_start_token_id = model.decoder_start_id();
  options.pad_token_id = model.pad_id();
  if (!reads_tokens) {
    work.run = [bench, &model, values = values.values, options](std::int64_t) {
      search_features(model, values, {}, options, values.numel());
    };
    return work;
  }
  const std::vector<std::int64_t> ids =
      random_ids(model, sizes.batch, sizes.length, 0).to_vector<std::int64_t>();
  std::vector<std::vector<std::int64_t>> sources;
  for (std::int64_t i = 0; i < sizes.batch; ++i)
    sources.emplace_back(ids.begin() + i * sizes.length, ids.begin() + (i + 1) * sizes.length);
  work.run = [bench, &model, sources, options, sizes](std::int64_t) {
    search_sources(model, sources, options, sizes.batch * sizes.length * sizes.beams);
  };
  return work;
}

Work train_work(const std::shared_ptr<const BenchModel>& bench, const ModelSizes& sizes) {
  Work work = model_work("train", *bench, sizes);
  // The usual count: 2 operations per parameter and token in the forward pass, twice as many in the backward
  // pass.
  const auto parameters = static_cast<double>(std::get<std::int64_t>(work.shape[2].second));
  work.items = {{"tokens", static_cast<double>(sizes.batch * sizes.length)}, {"steps", 1}};
  work.operations = 6 * parameters * work.items[0].second;
  work.bytes =
      parameters * 7 * sizeof(float);  // the optimizer reads weight, gradient and moments, and writes three
  const auto loss = training_loss(*bench, sizes);
  for (const Parameter& parameter : bench->model().parameters()) Tensor(parameter.tensor).set_requires_grad();
  const auto optimizer = std::make_shared<AdamW>(bench->model().parameters(), AdamWOptions{});
  const auto context = std::make_shared<Context>();
  work.run = [bench, loss, optimizer, context](std::int64_t) {
    loss(*context).backward();
    optimizer->step(1e-4, clip_scale(gradient_norm(bench->model().parameters()), 1));
    optimizer->zero_grad();
  };
  return work;
}

}  // namespace heed::bench
