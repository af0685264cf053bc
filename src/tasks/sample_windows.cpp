#include "tasks/sample_windows.h"

#include <algorithm>
#include <string>
#include <utility>

#include "heed/error.h"

namespace heed::tasks {

SampleWindows::SampleWindows(SoundReader reader, std::int64_t rate, std::int64_t least)
    : reader_(std::move(reader)) {
  if (reader_.rate() != rate)
    throw Error("transcribe: expected a reader of " + std::to_string(rate) + " samples a second, got " +
                std::to_string(reader_.rate()));
  if (const std::size_t found = peek(least).size(); found < static_cast<std::size_t>(least))
    throw Error(reader_.name() + ": expected a sound of at least " + std::to_string(least) +
                " samples, got " + std::to_string(found));
}

std::span<const float> SampleWindows::peek(std::int64_t count) {
  const std::size_t before = held_.size(), wanted = static_cast<std::size_t>(count);
  if (before < wanted) {
    held_.resize(wanted);
    held_.resize(before + reader_.read(std::span(held_).subspan(before)));
  }
  return std::span(held_).first(std::min(wanted, held_.size()));
}

void SampleWindows::skip(std::int64_t count) {
  held_.erase(held_.begin(), held_.begin() + count);
  position_ += count;
}

double SampleWindows::seconds(std::int64_t samples) const {
  return static_cast<double>(samples) / static_cast<double>(reader_.rate());
}

double SampleWindows::expected_seconds() const {
  const SoundInfo& info = reader_.info();
  return info.frames ? static_cast<double>(*info.frames) / static_cast<double>(info.rate)
                     : seconds(position_ + static_cast<std::int64_t>(held_.size()));
}

Tensor tensor_of(std::span<const float> samples) {
  return Tensor::from(std::vector<float>(samples.begin(), samples.end()),
                      {static_cast<std::int64_t>(samples.size())});
}

}  // namespace heed::tasks
