// GGUF files: the header, the config and the tokenizer made of the metadata, the tensors, and control
// vectors.
#include "heed/io/safetensors.h"
#include "heed/models/registry.h"
#include "heed/models/steering.h"
#include "reader.h"
#include "tokenizing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const heed::fuzz::Folder folder;
  folder.put("model.gguf", heed::fuzz::text_of(data, size));
  const auto path = folder.path() / "model.gguf";
  heed::fuzz::check(folder, [&] {
    const auto files = heed::TensorFiles::open(path);
    for (const std::string& name : files.names()) {
      heed::fuzz::check(folder, [&] { files.get(name).to(heed::DType::f64); });
    }
  });
  heed::fuzz::check(folder, [&] { heed::load_steering(path); });
  heed::fuzz::check(folder, [&] { heed::load_model(path); });
  heed::fuzz::check(folder, [&] { heed::fuzz::use(*heed::load_tokenizer(path)); });
  return 0;
}
