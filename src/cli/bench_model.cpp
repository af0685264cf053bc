// Finds or creates the model of a benchmark, and counts its minimum work.
#include "cli/bench_model.h"

#include <unistd.h>

#include <algorithm>

#include "cli/cli.h"
#include "cli/models.h"
#include "cli/task_arguments.h"
#include "heed/models/registry.h"
#include "heed/random.h"

namespace heed::cli {
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
};

const char* config_of(const std::string& shape) {
  std::string names;
  for (const NamedShape& known : kShapes) {
    if (shape == known.name) return known.config;
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  }
  throw UsageError("--shape: expected one of " + names + ", got " + shape);
}

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

std::unique_ptr<Model> random_model(const Config& config, DType dtype) {
  Generator generator(7);
  // The model is saved and loaded as a user's would be: its weights may have 16 bits and be packed for matrix
  // products.
  const TemporaryDirectory directory;
  make_model(config, generator)->save(directory.path(), dtype);
  return load_model(directory.path(), dtype);
}

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

double cache_numbers(const Config& config) {
  const std::int64_t width = first_of(config, {"hidden_size", "n_embd", "d_model"}, 1);
  const std::int64_t heads = first_of(
      config, {"decoder_attention_heads", "num_attention_heads", "n_head", "n_heads", "num_heads"}, 1);
  const std::int64_t kv_heads = first_of(config, {"num_key_value_heads"}, heads);
  const std::int64_t head_dim = first_of(config, {"head_dim", "d_kv"}, width / heads);
  const std::int64_t layers =
      first_of(config, {"decoder_layers", "num_hidden_layers", "n_layer", "n_layers", "num_layers"}, 1);
  return 2.0 * static_cast<double>(layers * kv_heads * head_dim);
}

}  // namespace

void BenchModelOptions::add_to(CLI::App& command, const std::string& suitable_shape) {
  auto* by_model = add_model_option(command, model);
  auto* by_config =
      command.add_option("--config", config, "A config.json: random weights of its family and sizes")
          ->type_name("FILE")
          ->group("Model");
  auto* by_shape =
      command
          .add_option("--shape", shape, "Random weights of a known model (default: " + suitable_shape + ")")
          ->type_name("gpt2|bert-base|marian")
          ->group("Model");
  by_model->excludes(by_config)->excludes(by_shape);
  by_config->excludes(by_shape);
  add_dtype_option(command, dtype);
  shape = suitable_shape;
}

BenchModel open_bench_model(const BenchModelOptions& options) {
  const DType dtype = weights_dtype(options.dtype);
  if (!options.model.name.empty()) {
    const LocatedModel located = locate_model(options.model);
    return {options.model.name, load_model_config(located.directory),
            load_model(located.directory, dtype, located.adapters)};
  }
  if (!options.config.empty()) {
    const Config config = Config::load(options.config);
    return {options.config.string(), config, random_model(config, dtype)};
  }
  const Config config = Config::parse(config_of(options.shape), "shape " + options.shape);
  return {options.shape, config, random_model(config, dtype)};
}

ModelSize size_of_model(const BenchModel& bench) {
  const bool two_sides = dynamic_cast<const EncoderDecoderModel*>(bench.model.get()) != nullptr;
  const Model* model = bench.model.get();
  const auto* encoder = dynamic_cast<const EncoderModel*>(model);
  const bool makes_logits = two_sides || dynamic_cast<const DecoderModel*>(model) != nullptr ||
                            (encoder != nullptr && encoder->head() == EncoderHead::masked_lm);
  ModelSize size;
  double bytes = 0, output_table = 0;
  bool has_output_layer = false;
  double uses = 1;  // uses of each weight: layers that share weights run one after another
  if (bench.config.has("num_hidden_groups")) {
    uses = static_cast<double>(first_of(bench.config, {"num_hidden_layers"}, 1)) /
           static_cast<double>(first_of(bench.config, {"num_hidden_groups"}, 1));
  }
  for (const Parameter& parameter : bench.model->parameters()) {
    const double count = static_cast<double>(parameter.tensor.numel());
    if (parameter.tensor.rank() != 2) continue;
    if (is_lookup(parameter)) {  // the largest is the output layer if there is no separate one
      output_table = std::max(output_table, count);
      continue;
    }
    has_output_layer =
        has_output_layer || contains(parameter.name, "lm_head") || contains(parameter.name, "embed_out");
    bytes = std::max(bytes, static_cast<double>(heed::size_of(parameter.tensor.dtype())));
    const bool decoder = two_sides ? !contains(parameter.name, "encoder.") : makes_logits;
    (decoder ? size.decoder_weights : size.encoder_weights) += uses * count;
  }
  if (makes_logits && !has_output_layer) size.decoder_weights += output_table;
  size.weight_bytes = bytes;
  size.cache_numbers = cache_numbers(bench.config);
  return size;
}

}  // namespace heed::cli
