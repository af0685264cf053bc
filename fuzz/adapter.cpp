// A LoRA adapter: adapter_config.json and adapter_model.safetensors, for a small GPT-2.
#include "heed/models/registry.h"
#include "reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const heed::fuzz::Folder folder;
  folder.put_parts({"adapter_config.json", "adapter_model.safetensors"}, heed::fuzz::text_of(data, size));
  heed::fuzz::check(folder, [] {
    heed::Generator generator(1);
    const heed::Config config = heed::Config::parse(
        R"({"model_type": "gpt2", "vocab_size": 8, "n_embd": 4, "n_head": 2, "n_layer": 1, "n_positions": 4})",
        "config");
    const auto model = heed::make_model(config, generator);
    model->add_adapter(folder.path());
    model->merge_adapters();
  });
  return 0;
}
