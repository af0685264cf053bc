// Arrays of vectors.npy: the header and the numbers behind it.
#include "heed/io/npy.h"

#include "reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const heed::fuzz::Folder folder;
  folder.put("vectors.npy", heed::fuzz::text_of(data, size));
  heed::fuzz::check(folder, [] { heed::read_npy(folder.path() / "vectors.npy").to(heed::DType::f64); });
  return 0;
}
