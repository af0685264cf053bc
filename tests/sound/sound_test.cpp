#include "heed/sound/sound.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <thread>

#include "heed/io/safetensors.h"
#include "reference/error.h"
#include "reference/near.h"
#include "reference/temporary_folder.h"
#include "sound/fixtures.h"

namespace heed {
namespace {

using ::testing::HasSubstr;

Tensor expected_samples(const std::string& name) {
  static const SafetensorsFile file = SafetensorsFile::open(kFixtures / "samples.safetensors");
  return file.get(name);
}

std::string error_for(const std::string& bytes, const SoundOptions& options = {}) {
  return error_of([&] { decode_sound(bytes, "a.wav", options); });
}

/// The bytes of a number, lowest first.
std::string little(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  return text;
}

/// A WAV file; `declared` is the size of the samples that its header gives.
std::string wav(int tag, int channels, int rate, int bits, const std::string& samples,
                std::uint64_t declared) {
  const int frame = channels * bits / 8;
  return "RIFF" + little(36 + declared, 4) + "WAVEfmt " + little(16, 4) + little(tag, 2) +
         little(channels, 2) + little(rate, 4) + little(static_cast<std::uint64_t>(rate) * frame, 4) +
         little(frame, 2) + little(bits, 2) + "data" + little(declared, 4) + samples;
}

std::string floats(const std::vector<float>& values) {
  std::string bytes(values.size() * 4, '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TEST(Sound, DecodesEveryFormatAsSoundfileDoes) {
  struct Case {
    std::string file;
    std::int64_t rate;
    double tolerance;  // of the lossy decoders, whose versions and instruction sets differ
  };
  for (const Case& c :
       {Case{"u8.wav", 8000, 0},          Case{"i16.wav", 8000, 0},         Case{"i24.wav", 8000, 0},
        Case{"i32.wav", 8000, 0},         Case{"f32.wav", 8000, 0},         Case{"f64.wav", 8000, 0},
        Case{"alaw.wav", 8000, 0},        Case{"ulaw.wav", 8000, 0},        Case{"adpcm.wav", 8000, 0},
        Case{"big-endian.wav", 8000, 0},  Case{"rf64.wav", 8000, 0},        Case{"i16.aiff", 8000, 0},
        Case{"i16.au", 8000, 0},          Case{"i16.caf", 8000, 0},         Case{"i16.w64", 8000, 0},
        Case{"stereo-44k.wav", 44100, 0}, Case{"three-22k.flac", 22050, 0}, Case{"vorbis.ogg", 8000, 1e-6},
        Case{"opus.ogg", 24000, 1e-4},    Case{"layer3.mp3", 16000, 1e-4}}) {
    SCOPED_TRACE(c.file);
    // The same samples in containers of other makers.
    const bool same = c.file.starts_with("i16.");
    const Tensor want = expected_samples(same ? "i16.wav" : c.file);
    reference::expect_near(load_sound(kFixtures / c.file, {.rate = c.rate}), want, c.tolerance);
    // By content, not by name, and from memory.
    reference::expect_near(decode_sound(slurp(kFixtures / c.file), "x.txt", {.rate = c.rate}), want,
                           c.tolerance);
  }
}

TEST(Sound, ResamplesAsLibrosaDoes) {
  for (const char* name : {"i16.wav", "stereo-44k.wav", "three-22k.flac"}) {
    SCOPED_TRACE(name);
    reference::expect_near(load_sound(kFixtures / name), expected_samples(std::string(name) + ".16k"), 1e-6);
  }
}

TEST(Sound, BlocksOfAnySizeGiveTheSameSamples) {
  for (const std::int64_t rate : {16'000, 44'100}) {
    const std::vector<float> whole =
        load_sound(kFixtures / "stereo-44k.wav", {.rate = rate}).to_vector<float>();
    for (const std::size_t block : {1, 7, 1000}) {
      SoundReader reader(kFixtures / "stereo-44k.wav", {.rate = rate});
      std::vector<float> samples, part(block);
      while (const std::size_t got = reader.read(part)) {
        samples.insert(samples.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(got));
      }
      EXPECT_EQ(samples, whole);
      EXPECT_EQ(reader.read(part), 0);
    }
  }
}

TEST(Sound, SaysWhatTheHeaderSays) {
  const SoundReader reader(kFixtures / "three-22k.flac");
  EXPECT_EQ(reader.info().format, "FLAC (Free Lossless Audio Codec), Signed 16 bit PCM");
  EXPECT_EQ(reader.info().channels, 3);
  EXPECT_EQ(reader.info().rate, 22050);
  EXPECT_EQ(reader.info().frames, 1323);
  EXPECT_EQ(reader.rate(), 16'000);
  EXPECT_EQ(reader.name(), (kFixtures / "three-22k.flac").string());
}

TEST(Sound, LongRecordingsKeepTheirLengthAndTone) {
  constexpr int kRate = 11'025, kSeconds = 20;
  constexpr double kTurns = 2 * std::numbers::pi * 440;
  std::vector<float> tone;
  for (int i = 0; i < kRate * kSeconds; ++i) {
    tone.push_back(static_cast<float>(0.5 * std::sin(kTurns * (i % kRate) / kRate)));
  }
  const std::string bytes = wav(3, 1, kRate, 32, floats(tone), tone.size() * 4);
  const std::vector<float> samples = decode_sound(bytes, "tone").to_vector<float>();
  ASSERT_EQ(samples.size(), 16'000 * kSeconds);
  for (std::size_t i = 100'000; i < 200'000; ++i) {
    ASSERT_NEAR(samples[i], 0.5 * std::sin(kTurns * static_cast<double>(i % 16'000) / 16'000), 1e-4) << i;
  }
}

TEST(Sound, ReadsAPipeToItsEnd) {
  const TemporaryFolder folder;
  const std::filesystem::path pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const auto write = [&] { spill(pipe, slurp(kFixtures / "vorbis.ogg")); };
  std::thread writer(write);
  reference::expect_near(load_sound(pipe, {.rate = 8000}), expected_samples("vorbis.ogg"), 1e-6);
  writer.join();

  writer = std::thread(write);
  EXPECT_THAT(error_of([&] { load_sound(pipe, {.limits = {.piped_bytes = 1000}}); }),
              HasSubstr("pipe: expected at most 1000 bytes from a pipe, got more"));
  writer.join();
}

using Samples = std::vector<float>;

Samples operator+(Samples first, const Samples& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

Samples decoded(const std::string& bytes, std::int64_t rate = 16'000) {
  return decode_sound(bytes, "a.wav", {.rate = rate}).to_vector<float>();
}

Samples beginning(const Samples& samples, std::size_t count) {
  return {samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(std::min(count, samples.size()))};
}

TEST(Sound, ReadsEveryPartOfJoinedAndChainedFiles) {
  for (const auto& [file, rate] : {std::pair{"vorbis.ogg", 8000}, {"opus.ogg", 24'000}}) {
    SCOPED_TRACE(file);
    const std::string one = slurp(kFixtures / file);
    const Samples part = decoded(one, rate);
    EXPECT_EQ(decoded(one + one + one, rate), part + part + part);
    EXPECT_FALSE(SoundReader(one + one, file, {.rate = rate}).info().frames);
  }
  // Of MP3 the frame that tells the length, the delay and the padding of the second file become silence.
  const std::string one = slurp(kFixtures / "layer3.mp3");
  const Samples part = decoded(one), joined = decoded(one + one);
  EXPECT_GE(joined.size(), 2 * part.size());
  EXPECT_LE(joined.size(), 2 * part.size() + 5 * 576);
  EXPECT_EQ(beginning(joined, part.size()), part);
}

TEST(Sound, PartsMayHaveRatesAndChannelsOfTheirOwn) {
  const std::string vorbis = slurp(kFixtures / "vorbis.ogg"), opus = slurp(kFixtures / "opus.ogg");
  const Samples both = decoded(vorbis) + decoded(opus);
  const std::string chained = vorbis + opus;
  EXPECT_EQ(decoded(chained), both);
  SoundReader reader(chained, "a.ogg", {});
  std::vector<float> samples(both.size() + 1);
  for (int pass = 0; pass < 2; ++pass) {
    EXPECT_EQ(reader.read(samples), both.size());
    EXPECT_EQ(reader.read(samples), 0);
    reader.rewind();
  }
}

TEST(Sound, LengthsInHeadersAreHints) {
  // FLAC: the number of samples has 36 bits, from byte 21 on.
  std::string flac = slurp(kFixtures / "three-22k.flac");
  const Samples whole = decoded(flac, 22'050);
  flac[24] = '\0';
  flac[25] = '\5';
  EXPECT_EQ(decoded(flac, 22'050), whole);
  flac[25] = '\0';
  EXPECT_EQ(decoded(flac, 22'050), whole);
  // WAV: what a program writes that cannot know the size, or was stopped before it wrote it.
  const std::string two(8, '\1');
  for (const std::uint64_t unknown : {std::uint64_t{0xffff'ffff}, std::uint64_t{0x7fff'ffff}}) {
    EXPECT_EQ(decoded(wav(1, 1, 16'000, 16, two, unknown)).size(), 4);
  }
  std::string stopped = wav(1, 1, 16'000, 16, two, 0);
  EXPECT_EQ(decoded(stopped).size(), 4);
  stopped.replace(4, 4, std::string(4, '\0'));
  EXPECT_EQ(decoded(stopped).size(), 4);
  // Not where another chunk follows.
  const std::string empty = wav(1, 1, 16'000, 16, "", 0) + "LIST" + little(4, 4) + "INFO";
  EXPECT_THAT(error_for("RIFF" + little(empty.size() - 8, 4) + empty.substr(8)),
              HasSubstr("a.wav: expected sound, got no samples"));
}

TEST(Sound, WhatIsThereOfACutFileIsReadWithAWarning) {
  struct Case {
    const char* file;
    std::int64_t rate;
    std::size_t bytes;  // left
    const char* warning;
  };
  for (const Case& c :
       {Case{"i16.wav", 8000, 500, "expected 800 bytes of samples, as its header says, got 456"},
        Case{"f64.wav", 8000, 1000, "bytes of samples, as its header says"},
        Case{"rf64.wav", 8000, 500, "expected 800 bytes of samples"},
        Case{"big-endian.wav", 8000, 500, "expected 800 bytes of samples"},
        Case{"i16.aiff", 8000, 500, "expected 808 bytes of samples"},
        Case{"i16.au", 8000, 500, "expected 800 bytes of samples"},
        Case{"i16.caf", 8000, 4500, "expected 804 bytes of samples"},
        Case{"i16.w64", 8000, 500, "expected 800 bytes of samples"},
        Case{"long.flac", 16'000, 3000, "truncated after 0.512 s"},
        Case{"long.mp3", 16'000, 1000, "expected 1620 bytes, as its header says, got 1000"}}) {
    SCOPED_TRACE(c.file);
    const std::string bytes = slurp(kFixtures / c.file);
    const Samples whole = decoded(bytes, c.rate);
    std::string warning;
    const auto on_warning = [&](const std::string& message) { warning += message; };
    const Samples cut =
        decode_sound(bytes.substr(0, c.bytes), "a.wav", {.rate = c.rate, .on_warning = on_warning})
            .to_vector<float>();
    EXPECT_THAT(warning, ::testing::AllOf(::testing::StartsWith("a.wav: "), HasSubstr(c.warning),
                                          ::testing::EndsWith("; what is there is read")));
    ASSERT_GT(cut.size(), 0);
    ASSERT_LT(cut.size(), whole.size());
    // The last frames of a lossy stream are the sum with what is missing.
    const std::size_t equal = std::max<std::size_t>(cut.size(), 2304 + 1) - 2304;
    EXPECT_EQ(beginning(cut, equal), beginning(whole, equal));
    EXPECT_THAT(error_for(bytes.substr(0, c.bytes), {.rate = c.rate}), HasSubstr(c.warning));
  }
}

TEST(Sound, TheLastLinkOfAChainedFileMayBeCut) {
  for (const auto& [file, rate] : {std::pair{"vorbis.ogg", 8000}, {"opus.ogg", 24'000}}) {
    SCOPED_TRACE(file);
    const std::string one = slurp(kFixtures / file);
    std::vector<std::string> warnings;
    const auto on_warning = [&](const std::string& message) { warnings.push_back(message); };
    const std::string chained = (one + one).substr(0, 2 * one.size() - 100);
    const Tensor samples = decode_sound(chained, "a.ogg", {.rate = rate, .on_warning = on_warning});
    EXPECT_EQ(samples.to_vector<float>(), decoded(one, rate));
    ASSERT_FALSE(warnings.empty());
    EXPECT_THAT(warnings[0], HasSubstr("(the file is truncated)"));
    EXPECT_THAT(error_for(chained), HasSubstr("(the file is truncated)"));
  }
}

TEST(SoundErrors, NameTheFile) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { load_sound(folder / "none.wav"); }), HasSubstr("none.wav: not found"));
  EXPECT_THAT(error_of([&] { load_sound(folder.path()); }), HasSubstr("expected a file, got a directory"));
  spill(folder / "empty.wav", "");
  EXPECT_EQ(error_of([&] { load_sound(folder / "empty.wav"); }),
            (folder / "empty.wav").string() +
                ": expected a sound file (WAV, FLAC, Ogg, MP3, AIFF, AU, CAF or W64), got an empty file");
  spill(folder / "text.mp3", "Dear all,\nplease find attached");
  EXPECT_THAT(error_of([&] { load_sound(folder / "text.mp3"); }),
              HasSubstr("text.mp3: expected a sound file (WAV, FLAC, Ogg, MP3, AIFF, AU, CAF or W64), got a "
                        "file that begins with "
                        "\"Dear all,.pl\""));
}

TEST(SoundErrors, OtherFormatsAreNamed) {
  EXPECT_EQ(error_for(std::string("\0\0\0\x20"
                                  "ftypM4A ",
                                  12)),
            "a.wav: expected a sound file (WAV, FLAC, Ogg, MP3, AIFF, AU, CAF or W64), got an MP4 or M4A "
            "file (convert it: ffmpeg "
            "-i FILE sound.wav)");
  EXPECT_THAT(error_for("\xff\xf1\x50\x80"), HasSubstr("got an AAC stream"));
  EXPECT_THAT(error_for("FORM12348SVX"), HasSubstr("got an IFF file"));
  EXPECT_THAT(error_for("RIFF1234AVI LIST"), HasSubstr("begins with \"RIFF1234AVI \""));
}

TEST(SoundErrors, TruncatedFiles) {
  const auto part = [](const char* name, std::size_t bytes) {
    return slurp(kFixtures / name).substr(0, bytes);
  };
  EXPECT_EQ(
      error_for(part("i16.wav", 500)),
      "a.wav: expected 800 bytes of samples, as its header says, got 456 (the file is truncated, or its "
      "header wrong)");
  for (const char* name : {"i16.wav", "three-22k.flac", "vorbis.ogg", "opus.ogg", "layer3.mp3"}) {
    SCOPED_TRACE(name);
    for (std::size_t bytes = 1; bytes < 60; ++bytes) {
      EXPECT_THAT(error_for(part(name, bytes)), ::testing::StartsWith("a.wav: "));
    }
  }
}

TEST(SoundErrors, HeadersThatLie) {
  const std::string two(8, '\1');
  EXPECT_THAT(error_for(wav(1, 1, 16'000, 16, two, 1'000'000'000)),
              HasSubstr("expected 1000000000 bytes of samples, as its header says, got 8"));
  EXPECT_THAT(error_for(wav(1, 1, 16'000, 16, "", 0)), HasSubstr("a.wav: expected sound, got no samples"));
  EXPECT_THAT(error_for(wav(1, 65, 16'000, 16, std::string(130, '\1'), 130)),
              HasSubstr("a.wav: expected 1 to 64 channels, got 65"));
  EXPECT_THAT(error_for(wav(1, 1, 10, 16, two, 8)),
              HasSubstr("a.wav: expected 1000 to 768000 samples a second, got 10"));
  EXPECT_THAT(error_for(wav(0x31, 1, 16'000, 13, two, 8)), ::testing::StartsWith("a.wav: expected "));

  // FLAC: the number of samples has 36 bits, from byte 21 on.
  std::string flac = slurp(kFixtures / "three-22k.flac");
  flac[21] |= '\x0f';
  EXPECT_THAT(error_for(flac), HasSubstr("a.wav: expected at most 24 hours of sound, got"));
  EXPECT_THAT(error_for(flac), HasSubstr("as its header says"));
  flac[21] &= '\xf0';
  flac[24] = '\x7f';
  EXPECT_THAT(error_for(flac), HasSubstr("samples, as its header says, got 1323 (the file is truncated)"));
}

TEST(SoundErrors, TooLong) {
  // 48 hours at 1000 samples a second.
  const std::string silence(48 * 3600 * 1000, '\x80');
  EXPECT_EQ(error_for(wav(1, 1, 1000, 8, silence, silence.size())),
            "a.wav: expected at most 24 hours of sound, got 48, as its header says");
  EXPECT_THAT(error_for(slurp(kFixtures / "i16.wav"), {.limits = {.seconds = 0.01}}),
              HasSubstr("hours of sound"));
}

TEST(SoundErrors, SamplesThatAreNoNumbers) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> samples(8000);
  samples[4000] = kNan;
  EXPECT_EQ(error_for(wav(3, 1, 16'000, 32, floats(samples), 32'000)),
            "a.wav: expected finite samples, got nan after 0.25 s");
  EXPECT_EQ(error_for(wav(3, 1, 8000, 32, floats(samples), 32'000)),  // resampled
            "a.wav: expected finite samples, got nan after 0.5 s");
  samples[0] = kInfinity;
  EXPECT_THAT(error_for(wav(3, 1, 16'000, 32, floats(samples), 32'000)), HasSubstr("got inf after 0 s"));
}

TEST(SoundErrors, RatesOutOfRange) {
  EXPECT_EQ(error_of([&] { load_sound(kFixtures / "i16.wav", {.rate = 0}); }),
            "SoundOptions: rate: expected 1000 to 768000 samples a second, got 0");
}

}  // namespace
}  // namespace heed
