// model.safetensors.index.json beside two files without tensors.
#include "heed/io/safetensors.h"
#include "reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const heed::fuzz::Folder folder;
  folder.put("model.safetensors.index.json", heed::fuzz::text_of(data, size));
  folder.put("model-00001-of-00002.safetensors", heed::fuzz::no_tensors());
  folder.put("model-00002-of-00002.safetensors", heed::fuzz::no_tensors());
  heed::fuzz::check(folder, [] { heed::TensorFiles::open(folder.path()); });
  return 0;
}
