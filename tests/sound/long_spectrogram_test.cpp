// Parts of a long recording's spectrogram equal those of the whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "heed/error.h"
#include "heed/sound/processor.h"
#include "reference/error.h"
#include "reference/near.h"
#include "sound/fixtures.h"

namespace heed {
namespace {

// Frames first, ..., end - 1 of [1, bins, frames].
Tensor frames_of(const Tensor& all, std::int64_t first, std::int64_t end) {
  return all.as_strided({1, all.size(1), end - first}, {all.numel(), all.size(2), 1}, first).contiguous();
}

SoundReader speech_reader() { return SoundReader(kFixtures / "speech.wav"); }

TEST(LongSpectrogram, PartsEqualTheWhole) {
  const SoundProcessor processor = load_sound_processor(kFixtures / "whisper-80");
  const Tensor whole = processor(load_sound(kFixtures / "speech.wav"), {.whole = true}).features;
  const std::int64_t frames = whole.size(2);
  for (const std::int64_t step : {std::int64_t{1}, std::int64_t{7}, frames - 1, frames}) {
    LongSpectrogram spectrogram(processor, speech_reader());
    ASSERT_EQ(spectrogram.frames(), frames);
    EXPECT_EQ(spectrogram.frames_per_second(), 100);
    for (std::int64_t first = 0; first < frames; first += step) {
      const std::int64_t count = std::min(step, frames - first);
      reference::expect_near(spectrogram.part(first, count), frames_of(whole, first, first + count), 1e-6);
    }
  }
}

TEST(LongSpectrogram, SkipsAndPads) {
  const SoundProcessor processor = load_sound_processor(kFixtures / "whisper-80");
  const Tensor whole = processor(load_sound(kFixtures / "speech.wav"), {.whole = true}).features;
  const std::int64_t frames = whole.size(2);
  LongSpectrogram spectrogram(processor, speech_reader());
  reference::expect_near(spectrogram.part(2, 3), frames_of(whole, 2, 5), 1e-6);
  reference::expect_near(spectrogram.part(2, 5), frames_of(whole, 2, 7), 1e-6);
  const Tensor last = spectrogram.part(frames - 2, 10);
  reference::expect_near(frames_of(last, 0, 2), frames_of(whole, frames - 2, frames), 1e-6);
  EXPECT_EQ(frames_of(last, 2, 10).to_vector<float>(),
            std::vector<float>(static_cast<std::size_t>(last.size(1) * 8), 0.0F));
  EXPECT_EQ(spectrogram.part(frames, 1).size(2), 1);
}

TEST(LongSpectrogram, RefusesWhatItCannotRead) {
  const SoundProcessor processor = load_sound_processor(kFixtures / "whisper-80");
  EXPECT_ERROR(LongSpectrogram(processor, SoundReader(kFixtures / "i16.wav", {.rate = 8000})),
               "expected a reader of 16000 samples a second, got 8000");
  EXPECT_ERROR(LongSpectrogram(load_sound_processor(kFixtures / "ast"), speech_reader()),
               "expected WhisperFeatureExtractor, got ASTFeatureExtractor");
  const std::atomic<bool> stop = true;
  EXPECT_THROW(LongSpectrogram(processor, speech_reader(), &stop), Canceled);
}

TEST(SoundReader, BeginsAgain) {
  for (const char* name : {"speech.wav", "layer3.mp3", "vorbis.ogg", "three-22k.flac"}) {
    SoundReader reader(kFixtures / name);
    std::vector<float> first(500), second(500);
    EXPECT_EQ(reader.read(first), 500u);
    reader.rewind();
    EXPECT_EQ(reader.read(second), 500u);
    EXPECT_EQ(first, second) << name;
  }
}

}  // namespace
}  // namespace heed
