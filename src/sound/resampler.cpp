// Pulls the samples of a decoder through libsoxr.
#include "sound/decoder.h"

#include <algorithm>

#include "heed/error.h"

namespace heed::sound {
namespace {

constexpr std::size_t kAskedAtOnce = 4096;  // samples that libsoxr asks for at once

}  // namespace

Resampler::Resampler(Decoder& decoder, std::int64_t rate)
    : decoder_(decoder), rate_(rate), input_(kAskedAtOnce) {
  const soxr_io_spec_t samples = soxr_io_spec(SOXR_FLOAT32_I, SOXR_FLOAT32_I);
  const soxr_quality_spec_t quality = soxr_quality_spec(SOXR_HQ, 0);
  const soxr_runtime_spec_t runtime = soxr_runtime_spec(1);  // threads
  soxr_error_t error = nullptr;
  soxr_.reset(soxr_create(static_cast<double>(decoder.rate()), static_cast<double>(rate), 1, &error, &samples,
                          &quality, &runtime));
  if (error == nullptr) {
    error = soxr_set_input_fn(
        soxr_.get(),
        [](void* self, soxr_in_t* data, std::size_t most) {
          return static_cast<Resampler*>(self)->supply(data, most);
        },
        this, kAskedAtOnce);
  }
  if (error != nullptr) {
    throw Error(decoder.name() + ": cannot be resampled from " + std::to_string(decoder.rate()) + " to " +
                std::to_string(rate) + " samples a second: " + error);
  }
}

std::size_t Resampler::supply(soxr_in_t* data, std::size_t most) {
  *data = nullptr;  // a failure, if there are no samples
  try {
    const std::size_t count = decoder_.read(std::span(input_).first(std::min(most, kAskedAtOnce)));
    *data = input_.data();
    return count;
  } catch (...) {
    failure_ = std::current_exception();
    return 0;
  }
}

std::size_t Resampler::read(std::span<float> samples) {
  if (samples.empty()) return 0;
  std::size_t count = soxr_output(soxr_.get(), samples.data(), samples.size());
  if (failure_) std::rethrow_exception(failure_);
  if (const soxr_error_t error = soxr_error(soxr_.get())) {
    throw Error(decoder_.name() + ": cannot be resampled: " + error);
  }
  if (count < samples.size()) {  // the end: exactly as many as the rates say
    const std::int64_t own = decoder_.rate();
    const std::int64_t whole = (decoder_.position() * rate_ + own - 1) / own;
    const auto left = static_cast<std::size_t>(std::max<std::int64_t>(whole - position_, 0));
    const std::size_t end = std::min(left, samples.size());
    if (count < end) std::fill(samples.begin() + count, samples.begin() + end, 0.0F);
    count = end;
  }
  position_ += static_cast<std::int64_t>(count);
  return count;
}

}  // namespace heed::sound
