// Mixes what a library decodes, and checks it.
#include "sound/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "heed/error.h"

namespace heed::sound {
namespace {

constexpr std::size_t kFramesAtOnce = 4096;  // frames decoded at once

}  // namespace

std::int64_t DecodedBytes::read(void* to, std::int64_t count) noexcept {
  if (count <= 0 || failure) return 0;
  try {
    const std::uint64_t size = end - begin;
    if (position >= size) return 0;
    const std::span bytes(static_cast<char*>(to),
                          static_cast<std::size_t>(std::min<std::uint64_t>(count, size - position)));
    const std::size_t got = source.read(begin + position, bytes);
    for (std::size_t i = 0; i < mended.size(); ++i) {
      const std::uint64_t place = mended_at + i;
      if (place >= begin + position && place < begin + position + got) {
        bytes[static_cast<std::size_t>(place - begin - position)] = mended[i];
      }
    }
    position += got;
    return static_cast<std::int64_t>(got);
  } catch (...) {
    failure = std::current_exception();
    return 0;
  }
}

std::int64_t DecodedBytes::seek(std::int64_t offset, int whence) noexcept {
  const std::uint64_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? position : end - begin;
  const auto base = static_cast<std::int64_t>(from);
  if (offset < -base || offset > std::numeric_limits<std::int64_t>::max() - base) return -1;
  position = static_cast<std::uint64_t>(base + offset);
  return base + offset;
}

void Decoder::fail(const std::string& what) const { throw Error(name() + ": " + what); }

void Decoder::report_cut(const std::string& what) {
  if (!options_.on_warning) fail(what);
  options_.on_warning(name() + ": " + what + "; what is there is read");
}

Decoder::Decoder(ByteSource source, const SoundOptions& options)
    : options_(options), bytes_(std::make_unique<DecodedBytes>(std::move(source))) {
  const SoundFormat format = sound_format(bytes_->source);
  bytes_->mended_at = format.mended_at;
  bytes_->mended = format.mended;
  stream_ = format.decoder == SoundFormat::Decoder::mpg123
                ? open_mp3(*bytes_)
                : open_sndfile(*bytes_, format.decoder == SoundFormat::Decoder::ogg);
  ended_ = !next_part();
  info_ = part_;
  rate_ = part_.rate;
  declared_ = format.frames;
  if (declared_) info_.frames = declared_;
  if (format.goes_on || bytes_->end < bytes_->source.size()) info_.frames.reset();
  check_limits();
  if (!format.cut.empty()) report_cut(format.cut);
}

bool Decoder::next_part() {
  std::string damage;
  if (!stream_->next_part(part_, damage)) {
    bytes_->rethrow();
    if (!damage.empty() && info_.rate == 0) fail(damage);
    if (!damage.empty()) report_cut(fmt::format("after {:.6g} s: {}", seconds(), damage));
    return false;
  }
  if (part_.rate < options_.limits.least_rate || part_.rate > options_.limits.most_rate) {
    fail(fmt::format("expected {} to {} samples a second, got {}", options_.limits.least_rate,
                     options_.limits.most_rate, part_.rate));
  }
  if (part_.channels < 1 || part_.channels > options_.limits.channels) {
    fail(fmt::format("expected 1 to {} channels, got {}", options_.limits.channels, part_.channels));
  }
  frames_.resize(kFramesAtOnce * static_cast<std::size_t>(part_.channels));
  return true;
}

bool Decoder::next_rate() {
  if (ended_ || part_.rate == rate_) return false;
  earlier_ = seconds();
  rate_ = part_.rate;
  position_ = 0;
  return true;
}

double Decoder::seconds() const {
  return earlier_ + (position_ == 0 ? 0 : static_cast<double>(position_) / static_cast<double>(rate_));
}

void Decoder::check_limits() const {
  const double declared = static_cast<double>(info_.frames.value_or(0)) /
                          static_cast<double>(std::max<std::int64_t>(info_.rate, 1));
  if (std::max(declared, seconds()) > options_.limits.seconds) {
    fail(fmt::format("expected at most {:g} hours of sound, got {}", options_.limits.seconds / 3600,
                     declared > options_.limits.seconds
                         ? fmt::format("{:.4g}, as its header says", declared / 3600)
                         : "more"));
  }
}

// A sum in the order of the channels, in f32, as NumPy computes it for up to seven.
void Decoder::mix(std::span<const float> frames, std::span<float> samples) const {
  const auto channels = static_cast<std::size_t>(part_.channels);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    float sum = frames[i * channels];
    for (std::size_t c = 1; c < channels; ++c) sum += frames[i * channels + c];
    samples[i] = channels == 1 ? sum : sum / static_cast<float>(channels);
    if (!std::isfinite(samples[i])) {
      fail(fmt::format("expected finite samples, got {} after {:.6g} s", samples[i],
                       seconds() + static_cast<double>(i) / static_cast<double>(rate_)));
    }
  }
}

std::size_t Decoder::read(std::span<float> samples) {
  std::size_t done = 0;
  while (done < samples.size() && !ended_ && part_.rate == rate_) {
    const std::size_t most = std::min(kFramesAtOnce, samples.size() - done);
    const auto channels = static_cast<std::size_t>(part_.channels);
    const FrameStream::Frames got = stream_->read(std::span(frames_).first(most * channels));
    bytes_->rethrow();
    if (!got.damage.empty()) {
      if (bytes_->position + bytes_->begin < bytes_->source.size()) {
        fail(fmt::format("damaged after {:.6g} s: {} (convert it: ffmpeg -i FILE sound.wav)", seconds(),
                         got.damage));
      }
      declared_.reset();  // one word is enough
      const std::string what = fmt::format("truncated after {:.6g} s", seconds());
      if (got.count == 0 && seconds() == 0) fail(what);
      report_cut(what);
    }
    mix(std::span(frames_).first(got.count * channels), samples.subspan(done, got.count));
    done += got.count;
    position_ += static_cast<std::int64_t>(got.count);
    check_limits();
    if (got.count == 0 && (!got.damage.empty() || !next_part())) check_end();
  }
  return done;
}

void Decoder::check_end() {
  ended_ = true;
  if (seconds() == 0) fail("expected sound, got no samples");
  if (declared_ && position_ < *declared_) {
    report_cut(fmt::format("expected {} samples, as its header says, got {} (the file is truncated)",
                           *declared_, position_));
  }
}

}  // namespace heed::sound
