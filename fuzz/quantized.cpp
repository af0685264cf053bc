// A quantized checkpoint: quantization_config of config.json and the tensors it speaks of, dequantized and
// packed.
#include "heed/io/safetensors.h"
#include "reader.h"
#include "tensor/quantized_matrix.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const heed::fuzz::Folder folder;
  folder.put_parts({"config.json", "model.safetensors"}, heed::fuzz::text_of(data, size));
  heed::fuzz::check(folder, [] {
    const auto files = heed::TensorFiles::open(folder.path());
    for (const std::string& name : files.names()) {
      const auto matrix = heed::quantized_of(files.get(name));
      if (matrix == nullptr) continue;
      files.get(name).to(heed::DType::f64);
      matrix->pack();
    }
  });
  return 0;
}
