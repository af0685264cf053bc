// Sound files of every kind: what stands before the decoders, libsndfile's decoders, and resampling.
#include "heed/sound/sound.h"

#include <vector>

#include "reader.h"

/// libsndfile loses the state of an Ogg stream whose headers are damaged, and looking for leaks after each
/// such input takes a second. So this fuzzer does not look for any.
extern "C" int __lsan_is_turned_off() { return 1; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const heed::fuzz::Folder folder;
  // A minute is enough to see; more would be one slow input after the other.
  const heed::SoundOptions options{.limits = {.seconds = 60}};
  heed::fuzz::check(folder, [&] {
    const std::string name = (folder.path() / "a.wav").string();
    heed::SoundReader reader(heed::fuzz::text_of(data, size), name, options);
    std::vector<float> samples(10'000);
    while (reader.read(samples) > 0) {
    }
  });
  return 0;
}
