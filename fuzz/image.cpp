// Image files of every format that heed decodes, each found by its first bytes.
#include "heed/image/image.h"

#include "reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const heed::fuzz::Folder folder;
  folder.put("photo", heed::fuzz::text_of(data, size));
  const heed::ImageLimits limits{.pixels = 1 << 20, .bytes = 1 << 20, .frames = 100};
  heed::fuzz::check(folder, [&] { heed::load_image(folder.path() / "photo", limits); });
  return 0;
}
