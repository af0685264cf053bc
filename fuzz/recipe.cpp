// A training recipe.
#include "heed/train/recipe.h"

#include "reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const heed::fuzz::Folder folder;
  folder.put("recipe.toml", heed::fuzz::text_of(data, size));
  heed::fuzz::check(folder, [] { heed::load_recipe(folder.path() / "recipe.toml"); });
  return 0;
}
