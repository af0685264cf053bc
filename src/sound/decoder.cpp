// Decodes by libsndfile, and checks what it gives.
#include "sound/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "core/fork_safe_mutex.h"
#include "heed/error.h"

namespace heed::sound {
namespace {

constexpr std::size_t kFramesAtOnce = 4096;  // frames decoded at once

std::string format_name(SNDFILE* file, int code) {
  SF_FORMAT_INFO info{};
  info.format = code;
  return sf_command(file, SFC_GET_FORMAT_INFO, &info, sizeof info) == 0 && info.name != nullptr ? info.name
                                                                                                : "unknown";
}

}  // namespace

SF_VIRTUAL_IO Decoder::callbacks() {
  SF_VIRTUAL_IO io{};
  io.get_filelen = [](void* user) {
    return static_cast<sf_count_t>(static_cast<Bytes*>(user)->source.size());
  };
  io.seek = [](sf_count_t offset, int whence, void* user) -> sf_count_t {
    Bytes& bytes = *static_cast<Bytes*>(user);
    const auto size = static_cast<sf_count_t>(bytes.source.size());
    const sf_count_t base = whence == SEEK_SET   ? 0
                            : whence == SEEK_CUR ? static_cast<sf_count_t>(bytes.position)
                                                 : size;
    if (offset < -base || offset > std::numeric_limits<sf_count_t>::max() - base) return -1;
    bytes.position = static_cast<std::uint64_t>(base + offset);
    return base + offset;
  };
  io.read = [](void* to, sf_count_t count, void* user) -> sf_count_t {
    Bytes& bytes = *static_cast<Bytes*>(user);
    if (count <= 0 || bytes.failure) return 0;
    try {
      const std::size_t got = bytes.source.read(
          bytes.position, std::span(static_cast<char*>(to), static_cast<std::size_t>(count)));
      bytes.position += got;
      return static_cast<sf_count_t>(got);
    } catch (...) {
      bytes.failure = std::current_exception();
      return 0;
    }
  };
  io.write = [](const void*, sf_count_t, void*) -> sf_count_t { return 0; };
  io.tell = [](void* user) { return static_cast<sf_count_t>(static_cast<Bytes*>(user)->position); };
  return io;
}

void Decoder::fail(const std::string& what) const { throw Error(name() + ": " + what); }

Decoder::Decoder(ByteSource source, const SoundLimits& limits)
    : limits_(limits), bytes_(std::make_unique<Bytes>(std::move(source))) {
  check_format(bytes_->source);
  SF_VIRTUAL_IO io = callbacks();
  SF_INFO header{};
  int error = SF_ERR_NO_ERROR;
  {
    static ForkSafeMutex mutex;  // libsndfile keeps the error of a file that it cannot open in one place
    const std::lock_guard lock(mutex);
    file_.reset(sf_open_virtual(&io, SFM_READ, &header, bytes_.get()));
    if (!file_) error = sf_error(nullptr);
  }
  if (bytes_->failure) std::rethrow_exception(bytes_->failure);
  if (!file_) {
    fail(error == SF_ERR_UNSUPPORTED_ENCODING
             ? "expected sound in an encoding that libsndfile decodes, got another (convert it: ffmpeg -i "
               "FILE sound.wav)"
             : "expected a whole sound file, got one that is damaged or truncated");
  }
  const int type = header.format & SF_FORMAT_TYPEMASK;
  info_.format =
      format_name(file_.get(), type) + ", " + format_name(file_.get(), header.format & SF_FORMAT_SUBMASK);
  info_.rate = header.samplerate;
  info_.channels = header.channels;
  if (header.frames >= 0 && header.frames != SF_COUNT_MAX) info_.frames = header.frames;
  has_exact_length_ = info_.frames && type == SF_FORMAT_FLAC;
  check_limits();
  frames_.resize(kFramesAtOnce * static_cast<std::size_t>(info_.channels));
}

void Decoder::check_limits() const {
  if (info_.rate < limits_.least_rate || info_.rate > limits_.most_rate) {
    fail(fmt::format("expected {} to {} samples a second, got {}", limits_.least_rate, limits_.most_rate,
                     info_.rate));
  }
  if (info_.channels < 1 || info_.channels > limits_.channels) {
    fail(fmt::format("expected 1 to {} channels, got {}", limits_.channels, info_.channels));
  }
  const auto seconds = [&](std::int64_t frames) {
    return static_cast<double>(frames) / static_cast<double>(info_.rate);
  };
  const double declared = seconds(info_.frames.value_or(0));
  if (std::max(declared, seconds(position_)) > limits_.seconds) {
    fail(fmt::format(
        "expected at most {:g} hours of sound, got {}", limits_.seconds / 3600,
        declared > limits_.seconds ? fmt::format("{:.4g}, as its header says", declared / 3600) : "more"));
  }
}

// A sum in the order of the channels, in f32, as NumPy computes it for up to seven.
void Decoder::mix(std::span<const float> frames, std::span<float> samples) const {
  const auto channels = static_cast<std::size_t>(info_.channels);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    float sum = frames[i * channels];
    for (std::size_t c = 1; c < channels; ++c) sum += frames[i * channels + c];
    samples[i] = channels == 1 ? sum : sum / static_cast<float>(channels);
    if (!std::isfinite(samples[i])) {
      fail(fmt::format(
          "expected finite samples, got {} after {:.6g} s", samples[i],
          static_cast<double>(position_ + static_cast<std::int64_t>(i)) / static_cast<double>(info_.rate)));
    }
  }
}

std::size_t Decoder::read(std::span<float> samples) {
  std::size_t done = 0;
  while (done < samples.size()) {
    const std::size_t most = std::min(kFramesAtOnce, samples.size() - done);
    const sf_count_t got = sf_readf_float(file_.get(), frames_.data(), static_cast<sf_count_t>(most));
    if (bytes_->failure) std::rethrow_exception(bytes_->failure);
    if (sf_error(file_.get()) != SF_ERR_NO_ERROR) {
      fail(fmt::format("damaged or truncated after {:.6g} s ({})",
                       static_cast<double>(position_) / static_cast<double>(info_.rate),
                       sf_strerror(file_.get())));
    }
    if (got <= 0) {
      check_end();
      break;
    }
    const auto count = static_cast<std::size_t>(got);
    mix(std::span(frames_).first(count * static_cast<std::size_t>(info_.channels)),
        samples.subspan(done, count));
    done += count;
    position_ += got;
    check_limits();
  }
  return done;
}

void Decoder::check_end() const {
  if (has_exact_length_ && position_ < *info_.frames) {
    fail(fmt::format("expected {} samples, as its header says, got {} (the file is truncated)", *info_.frames,
                     position_));
  }
  if (position_ == 0) fail("expected sound, got no samples");
}

}  // namespace heed::sound
