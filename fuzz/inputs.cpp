// Tensors for `heed forward`: ids, masks, labels and their shapes, through one model of each kind.
#include "heed/autograd.h"
#include "heed/io/safetensors.h"
#include "heed/models/registry.h"
#include "reader.h"

namespace {

constexpr const char* kConfigs[] = {
    R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"], "vocab_size": 16,
        "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 4,
        "max_position_embeddings": 8, "type_vocab_size": 2, "id2label": {"0": "a", "1": "b"}})",
    R"({"model_type": "gpt2", "vocab_size": 16, "n_embd": 4, "n_layer": 1, "n_head": 2, "n_positions": 8})",
    R"({"model_type": "llama", "vocab_size": 16, "hidden_size": 4, "num_hidden_layers": 1,
        "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 4,
        "max_position_embeddings": 8})",
    R"({"model_type": "t5", "vocab_size": 16, "d_model": 4, "d_kv": 2, "d_ff": 4, "num_layers": 1,
        "num_heads": 2, "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1})",
    R"({"model_type": "marian", "vocab_size": 16, "d_model": 4, "encoder_layers": 1, "decoder_layers": 1,
        "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 4,
        "decoder_ffn_dim": 4, "max_position_embeddings": 8, "decoder_start_token_id": 15,
        "pad_token_id": 15, "eos_token_id": 0})",
    R"({"model_type": "vit", "architectures": ["ViTForImageClassification"], "hidden_size": 4,
        "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 4, "image_size": 4,
        "patch_size": 2, "num_channels": 1, "id2label": {"0": "a", "1": "b"}})",
    R"({"model_type": "whisper", "vocab_size": 16, "d_model": 4, "encoder_layers": 1, "decoder_layers": 1,
        "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 4,
        "decoder_ffn_dim": 4, "num_mel_bins": 2, "max_source_positions": 2, "max_target_positions": 8,
        "decoder_start_token_id": 15, "pad_token_id": 15, "eos_token_id": 0})",
};

std::vector<std::unique_ptr<heed::Model>> make_models() {
  heed::Generator generator(1);
  std::vector<std::unique_ptr<heed::Model>> models;
  for (const char* config : kConfigs) {
    models.push_back(heed::make_model(heed::Config::parse(config, "config"), generator));
  }
  return models;
}

void run(const heed::Model& model, const heed::TensorMap& inputs) {
  heed::Context context;
  const heed::TensorMap outputs = model.forward(inputs, {.hidden_states = true, .attentions = true}, context);
  if (const auto loss = outputs.find("loss"); loss != outputs.end()) loss->second.backward();
  for (const heed::Parameter& parameter : model.parameters()) parameter.tensor.zero_grad();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const heed::fuzz::Folder folder;
  static const auto models = make_models();
  folder.put("in.safetensors", heed::fuzz::text_of(data, size));
  heed::fuzz::check(folder, [] {
    const auto file = heed::SafetensorsFile::open(folder.path() / "in.safetensors");
    heed::TensorMap inputs;
    for (const heed::TensorInfo& info : file.tensors()) inputs[info.name] = file.get(info.name);
    for (const auto& model : models) {
      try {
        run(*model, inputs);
      } catch (const heed::Error&) {  // of a tensor, which it names
      }
    }
  });
  return 0;
}
