// model.safetensors: the header, and every tensor it describes, and as steering vectors.
#include "heed/io/safetensors.h"

#include "heed/models/steering.h"
#include "reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const heed::fuzz::Folder folder;
  folder.put("model.safetensors", heed::fuzz::text_of(data, size));
  heed::fuzz::check(folder, [] {
    const auto file = heed::SafetensorsFile::open(folder.path() / "model.safetensors");
    for (const heed::TensorInfo& info : file.tensors()) {
      heed::fuzz::check(folder, [&] { file.get(info.name).to(heed::DType::f64); });
    }
  });
  heed::fuzz::check(folder, [] { heed::load_steering(folder.path() / "model.safetensors"); });
  return 0;
}
