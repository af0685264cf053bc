// Reading recordings: decoding, then resampling.
#include "heed/sound/sound.h"

#include <utility>
#include <vector>

#include "heed/error.h"
#include "sound/decoder.h"

namespace heed {

struct SoundReader::Source {
  Source(sound::ByteSource bytes, const SoundOptions& options)
      : decoder(std::move(bytes), options), options(options), rate(options.rate) {
    start_rate();
  }

  void start_rate() {
    resampler.reset();
    if (rate != decoder.rate()) resampler.emplace(decoder, rate);
  }

  sound::Decoder decoder;
  SoundOptions options;
  std::int64_t rate;
  std::optional<sound::Resampler> resampler;  // refers to the decoder
};

namespace {

const SoundOptions& checked(const SoundOptions& options) {
  if (options.rate < 1000 || options.rate > 768'000) {
    throw Error("SoundOptions: rate: expected 1000 to 768000 samples a second, got " +
                std::to_string(options.rate));
  }
  return options;
}

Tensor read_all(SoundReader reader) {
  constexpr std::size_t kBlock = std::size_t{1} << 16;
  std::vector<float> samples;  // the header's number is not trusted
  for (std::size_t got = kBlock; got == kBlock;) {
    const std::size_t before = samples.size();
    samples.resize(before + kBlock);
    got = reader.read(std::span(samples).subspan(before));
    samples.resize(before + got);
  }
  return Tensor::from(samples, {static_cast<std::int64_t>(samples.size())});
}

}  // namespace

SoundReader::SoundReader(const std::filesystem::path& path, const SoundOptions& options)
    : source_(
          std::make_unique<Source>(sound::ByteSource(path, checked(options).limits.piped_bytes), options)) {}

SoundReader::SoundReader(std::string_view bytes, const std::string& name, const SoundOptions& options)
    : source_(std::make_unique<Source>(sound::ByteSource(bytes, name), checked(options))) {}

SoundReader::~SoundReader() = default;
SoundReader::SoundReader(SoundReader&&) noexcept = default;
SoundReader& SoundReader::operator=(SoundReader&&) noexcept = default;

std::size_t SoundReader::read(std::span<float> samples) {
  std::size_t done = 0;
  while (done < samples.size()) {
    const std::span<float> rest = samples.subspan(done);
    done += source_->resampler ? source_->resampler->read(rest) : source_->decoder.read(rest);
    if (done == samples.size() || !source_->decoder.next_rate()) break;
    source_->start_rate();
  }
  return done;
}

void SoundReader::rewind() {
  SoundOptions options = source_->options;
  if (options.on_warning) options.on_warning = [](const std::string&) {};  // once is enough
  source_ = std::make_unique<Source>(source_->decoder.release(), options);
}

const SoundInfo& SoundReader::info() const { return source_->decoder.info(); }
std::int64_t SoundReader::rate() const { return source_->rate; }
const std::string& SoundReader::name() const { return source_->decoder.name(); }

Tensor load_sound(const std::filesystem::path& path, const SoundOptions& options) {
  return read_all(SoundReader(path, options));
}

Tensor decode_sound(std::string_view bytes, const std::string& name, const SoundOptions& options) {
  return read_all(SoundReader(bytes, name, options));
}

}  // namespace heed
