// generation_config.json.
#include "heed/generate/options.h"
#include "reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const heed::fuzz::Folder folder;
  folder.put("generation_config.json", heed::fuzz::text_of(data, size));
  heed::fuzz::check(folder, [] {
    std::vector<std::string> unused;
    heed::load_generation_options(folder.path(), &unused);
  });
  return 0;
}
