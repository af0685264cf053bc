// config.json of every family: what it says, and the table of tensors that follows from it. The tensors are
// missing, so no model is ever complete.
#include "heed/models/registry.h"
#include "reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const heed::fuzz::Folder folder;
  folder.put("config.json", heed::fuzz::text_of(data, size));
  folder.put("model.safetensors", heed::fuzz::no_tensors());
  heed::fuzz::check(folder, [] { heed::load_model(folder.path()); });
  return 0;
}
