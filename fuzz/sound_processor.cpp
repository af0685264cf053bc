// preprocessor_config.json of models of sound, and features as it says.
#include "heed/sound/processor.h"

#include "reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const heed::fuzz::Folder folder;
  static const heed::Tensor sound = heed::Tensor::full({3000}, 0.5);
  folder.put_parts({"preprocessor_config.json", "processor_config.json", "config.json"},
                   heed::fuzz::text_of(data, size));
  heed::fuzz::check(folder, [] {
    const heed::SoundProcessor processor = heed::load_sound_processor(folder.path());
    if (processor.window().value_or(0) > 50'000) return;  // right, but slow
    try {
      processor(sound);
    } catch (const heed::Error&) {  // too short; such messages name no file
    }
  });
  return 0;
}
