// modules.json of sentence-transformers, and the files of the modules it names.
#include "heed/models/registry.h"
#include "heed/tasks/embed.h"
#include "reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const heed::fuzz::Folder folder;
  static const auto model = [] {
    heed::Generator generator(1);
    return heed::make_model(heed::Config::parse(R"({"model_type": "bert", "vocab_size": 16, "hidden_size": 4,
            "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 4})",
                                                "config"),
                            generator);
  }();
  for (const char* name : {"1_Pooling", "2_Dense"}) std::filesystem::create_directory(folder.path() / name);
  folder.put_parts({"modules.json", "1_Pooling/config.json", "sentence_bert_config.json",
                    "config_sentence_transformers.json", "2_Dense/config.json", "2_Dense/model.safetensors"},
                   heed::fuzz::text_of(data, size));
  heed::fuzz::check(folder, [] { heed::transformer_directory(folder.path()); });
  heed::fuzz::check(folder, [] { heed::load_embedding_recipe(folder.path(), *model); });
  return 0;
}
