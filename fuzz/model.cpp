// config.json of every family, with weights to it: a model of few numbers, and what it makes of a few ids.
#include <string>
#include <vector>

#include "heed/autograd.h"
#include "heed/models/registry.h"
#include "reader.h"

namespace {

// Whole numbers of at most two digits make models of seconds at most.
bool is_small(std::string_view config) {
  std::size_t digits = 0;
  for (const char c : config) {
    if (digits > 2 && c != '.' && (c < '0' || c > '9')) return false;
    digits = c >= '0' && c <= '9' ? digits + 1 : 0;
  }
  return true;
}

struct Sizes {
  std::string_view families;
  std::vector<const char*> keys;
};

// What a family takes from a published model where a config does not say it.
const std::vector<Sizes> kSizes = {
    {R"("bert" "roberta" "camembert" "xlm-roberta" "mpnet" "modernbert" "deberta-v2" "albert" "llama" "mistral" "mixtral" "phi3" "qwen2" "qwen3" "qwen3_moe" "smollm3" "granite" "olmo2" "gemma2" "gemma3_text" "gpt_neox" "heed_transformer")",
     {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "max_position_embeddings"}},
    {R"("distilbert")", {"vocab_size", "dim", "hidden_dim", "n_layers", "max_position_embeddings"}},
    {R"("gpt2")", {"vocab_size", "n_embd", "n_layer", "n_positions"}},
    {R"("bloom")", {"vocab_size", "hidden_size", "n_layer"}},
    {R"("mpt")", {"vocab_size", "d_model", "n_layers"}},
    {R"("t5" "mt5")", {"vocab_size", "d_model", "d_kv", "d_ff", "num_layers"}},
    {R"("marian" "bart" "mbart" "m2m_100" "pegasus")",
     {"vocab_size", "d_model", "encoder_layers", "decoder_layers", "encoder_ffn_dim", "decoder_ffn_dim",
      "max_position_embeddings"}},
    {R"("heed_recurrent")", {"vocab_size", "hidden_size"}},
    {R"("vit")", {"hidden_size", "intermediate_size", "num_hidden_layers", "image_size", "patch_size"}},
    {R"("audio-spectrogram-transformer")",
     {"hidden_size", "intermediate_size", "num_hidden_layers", "num_mel_bins", "max_length", "patch_size"}},
    {R"("wav2vec2")",
     {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
      "conv_dim", "conv_kernel", "conv_stride", "num_conv_pos_embeddings", "num_conv_pos_embedding_groups"}},
    {R"("moonshine")",
     {"vocab_size", "hidden_size", "intermediate_size", "encoder_num_hidden_layers",
      "decoder_num_hidden_layers", "encoder_num_attention_heads", "decoder_num_attention_heads"}},
    {R"("whisper")",
     {"vocab_size", "d_model", "encoder_layers", "decoder_layers", "encoder_ffn_dim", "decoder_ffn_dim",
      "num_mel_bins", "max_source_positions", "max_target_positions"}},
};

// The value of a key, up to its closing quote or the next comma; empty where there is none.
std::string_view value_of(std::string_view config, const std::string& key) {
  const std::size_t at = config.find(key);
  if (at == config.npos) return {};
  const std::size_t begin = config.find_first_not_of(" \n\r\t:", at + key.size());
  if (begin == config.npos) return {};
  return config.substr(begin, config.find_first_of(",\"}", begin + 1) + 1 - begin);
}

// The config with small sizes where it names none; nothing where it gives one as null.
std::string with_sizes(std::string_view config) {
  std::string sizes;
  for (const Sizes& family : kSizes) {
    const std::string_view type = value_of(config, R"("model_type")");
    if (type.empty() || family.families.find(type) == family.families.npos) continue;
    for (const char* name : family.keys) {
      const std::string key = '"' + std::string(name) + '"';
      const std::string_view value = value_of(config, key);
      if (value.empty()) sizes += key + ":4,";
      if (!value.empty() && value[0] == 'n') return {};
    }
  }
  const std::size_t begin = config.find('{');
  if (begin == config.npos) return std::string(config);
  return std::string(config.substr(0, begin + 1)) + sizes + std::string(config.substr(begin + 1));
}

void run(const heed::Model& model) {
  const heed::Tensor ids = heed::Tensor::from(std::vector<std::int64_t>{0, 1, 2, 1, 0, 1}, {2, 3});
  heed::TensorMap inputs{{"input_ids", ids}};
  if (const heed::InputSpec input = model.input(); input.kind != heed::InputKind::tokens) {
    std::vector<std::int64_t> sizes{2};
    for (const std::int64_t size : input.fitting()) sizes.push_back(size == -1 ? 1000 : size);  // samples
    inputs = {{input.name, heed::Tensor::zeros(heed::Shape(sizes))}};
    if (input.kind == heed::InputKind::patches)
      inputs["spatial_shapes"] = heed::Tensor::from(std::vector<std::int64_t>{1, sizes[1], 1, 1}, {2, 2});
  }
  if (dynamic_cast<const heed::EncoderDecoderModel*>(&model) != nullptr) inputs["decoder_input_ids"] = ids;
  heed::Context context;
  model.forward(inputs, {.hidden_states = true, .attentions = true}, context);
  if (const auto* decoder = dynamic_cast<const heed::DecoderModel*>(&model)) {
    const auto decoding = decoder->decode(2);
    decoding->step(ids, context);
    decoding->step(ids, context);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = heed::fuzz::text_of(data, size);
  if (!is_small(text)) return -1;  // not worth keeping
  static const heed::fuzz::Folder folder;
  const heed::NoGradients guard;
  folder.put("config.json", with_sizes(text));
  heed::fuzz::check(folder, [] {
    heed::Generator generator(1);
    const auto model = heed::make_model(heed::Config::load(folder.path() / "config.json"), generator);
    try {
      run(*model);
    } catch (const heed::Error&) {  // of the ids, or of what the model cannot do
    }
  });
  return 0;
}
