// Rotary positions: frequencies, their scalings, and tables of cosines and sines. Frequencies and angles are
// computed in float, step by step as the checkpoints' own code does: at position 10,000 a last bit more or
// less is an angle of half a thousandth.
#include "heed/nn/positions.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <mutex>
#include <numbers>
#include <string>

#include "core/fork_safe_mutex.h"
#include "heed/ops/embedding.h"
#include "heed/ops/shape.h"
#include "heed/threads.h"

namespace heed {
namespace {

// theta^(2i / dim)
std::vector<float> wave_growth(double theta, std::int64_t dim) {
  std::vector<float> growth;
  for (std::int64_t i = 0; i < dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(dim);
    growth.push_back(static_cast<float>(
        std::pow(static_cast<double>(static_cast<float>(theta)), static_cast<double>(exponent))));
  }
  return growth;
}

std::vector<float> inverse(std::vector<float> growth) {
  for (float& value : growth) value = 1.0f / value;
  return growth;
}

std::vector<float> llama3_frequencies(const RotaryOptions& options) {
  const RotaryScaling& s = options.scaling;
  const auto factor = static_cast<float>(s.factor), low = static_cast<float>(s.low_freq_factor);
  const auto length = static_cast<float>(s.original_length);
  const auto longest_kept = static_cast<float>(static_cast<double>(s.original_length) / s.high_freq_factor);
  const auto shortest_divided =
      static_cast<float>(static_cast<double>(s.original_length) / s.low_freq_factor);
  const auto span = static_cast<float>(s.high_freq_factor - s.low_freq_factor);
  std::vector<float> frequencies = inverse(wave_growth(options.theta, options.dim));
  for (float& f : frequencies) {
    const float wave = static_cast<float>(2 * std::numbers::pi) / f;
    if (wave > shortest_divided) {
      f /= factor;
    } else if (wave >= longest_kept) {
      const float kept = (length / wave - low) / span;
      f = (1.0f - kept) * f / factor + kept * f;
    }
  }
  return frequencies;
}

std::vector<float> yarn_frequencies(const RotaryOptions& options) {
  const RotaryScaling& s = options.scaling;
  const auto dim = static_cast<double>(options.dim);
  // The pair that rotates `rotations` times within the original length.
  const auto pair_of = [&](double rotations) {
    return dim * std::log(static_cast<double>(s.original_length) / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(options.theta));
  };
  double low = pair_of(s.beta_fast), high = pair_of(s.beta_slow);
  if (s.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1);
  if (low == high) high += 0.001;
  std::vector<float> frequencies = wave_growth(options.theta, options.dim);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const float along = (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low);
    const float kept = 1.0f - std::clamp(along, 0.0f, 1.0f);
    const float whole = 1.0f / frequencies[i];
    const float divided = 1.0f / (static_cast<float>(s.factor) * frequencies[i]);
    frequencies[i] = divided * (1.0f - kept) + whole * kept;
  }
  return frequencies;
}

std::vector<float> proportional_frequencies(const RotaryOptions& options) {
  std::vector<float> frequencies = inverse(wave_growth(options.theta, options.dim));
  const auto rotating = static_cast<std::size_t>(options.scaling.part * static_cast<double>(options.dim) / 2);
  for (std::size_t i = 0; i < frequencies.size(); ++i)
    frequencies[i] = i < rotating ? frequencies[i] / static_cast<float>(options.scaling.factor) : 0.0f;
  return frequencies;
}

std::vector<float> longrope_frequencies(const RotaryOptions& options, bool beyond) {
  const std::vector<double>& factors = beyond ? options.scaling.long_factor : options.scaling.short_factor;
  std::vector<float> frequencies = wave_growth(options.theta, options.dim);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = 1.0f / (static_cast<float>(factors[i]) * frequencies[i]);
  }
  return frequencies;
}

double dynamic_theta(const RotaryOptions& options, std::int64_t length) {
  const RotaryScaling& s = options.scaling;
  const auto dim = static_cast<double>(options.dim), original = static_cast<double>(s.original_length);
  const double ratio = std::max(static_cast<double>(length), original) / original;
  return options.theta * std::pow(s.factor * ratio - (s.factor - 1), dim / (dim - 2));
}

// The dims that rotate: an odd number takes one more to make pairs.
std::int64_t rotary_dim(const RotaryOptions& options) { return options.dim + options.dim % 2; }

void check(const RotaryOptions& options) {
  using Kind = RotaryScalingKind;
  const RotaryScaling& s = options.scaling;
  const auto fail = [](const std::string& expected, const std::string& got) {
    throw Error("rotary positions: expected " + expected + ", got " + got);
  };
  if (options.dim < 1) fail("rotary dims", std::to_string(options.dim));
  if (!(options.theta > 0)) fail("theta above 0", std::to_string(options.theta));
  if (s.kind == Kind::none) return;
  if (!(s.factor > 0)) fail("a factor above 0", std::to_string(s.factor));
  if (s.kind == Kind::proportional) {
    if (!(s.part > 0 && s.part <= 1)) fail("a part of a head above 0 and at most 1", std::to_string(s.part));
    return;
  }
  if (s.kind != Kind::linear && s.original_length < 1) {
    fail("the length of training texts", std::to_string(s.original_length));
  }
  if (s.kind == Kind::dynamic && options.dim < 3) {
    fail("at least 3 rotary dims for dynamic scaling", std::to_string(options.dim));
  }
  if (s.kind == Kind::llama3 && !(s.high_freq_factor > s.low_freq_factor && s.low_freq_factor > 0)) {
    fail("0 < low_freq_factor < high_freq_factor",
         std::to_string(s.low_freq_factor) + " and " + std::to_string(s.high_freq_factor));
  }
  if (s.kind == Kind::yarn && !(s.beta_fast > 0 && s.beta_slow > 0 && options.theta != 1)) {
    fail("beta_fast and beta_slow above 0",
         std::to_string(s.beta_fast) + " and " + std::to_string(s.beta_slow));
  }
  if (s.kind == Kind::yarn && options.dim % 2 != 0) {
    fail("an even number of rotary dims for YaRN", std::to_string(options.dim));
  }
  const auto pairs = static_cast<std::size_t>(rotary_dim(options) / 2);
  if (s.kind == Kind::longrope && (s.short_factor.size() != pairs || s.long_factor.size() != pairs)) {
    fail(std::to_string(pairs) + " short and long factors",
         std::to_string(s.short_factor.size()) + " and " + std::to_string(s.long_factor.size()));
  }
}

// Row i holds the cosines and sines of position(i).
template <class PositionOf>
Tensor cos_sin_table(const std::vector<float>& frequencies, float factor, std::int64_t count,
                     PositionOf position) {
  const auto half = static_cast<std::int64_t>(frequencies.size());
  Tensor table = Tensor::empty({count, 2 * half});
  float* to = table.data<float>();
  parallel_for(count, 1 + 1024 / half, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      for (std::int64_t i = 0; i < half; ++i) {
        const float angle = frequencies[static_cast<std::size_t>(i)] * static_cast<float>(position(r));
        to[r * 2 * half + i] = std::cos(angle) * factor;
        to[r * 2 * half + half + i] = std::sin(angle) * factor;
      }
    }
  });
  return table;
}

}  // namespace

std::vector<float> rotary_frequencies(const RotaryOptions& options, std::int64_t length) {
  check(options);
  switch (options.scaling.kind) {
    case RotaryScalingKind::none: break;
    case RotaryScalingKind::linear: {
      std::vector<float> frequencies = inverse(wave_growth(options.theta, options.dim));
      for (float& f : frequencies) f /= static_cast<float>(options.scaling.factor);
      return frequencies;
    }
    case RotaryScalingKind::dynamic: return inverse(wave_growth(dynamic_theta(options, length), options.dim));
    case RotaryScalingKind::proportional: return proportional_frequencies(options);
    case RotaryScalingKind::llama3: return llama3_frequencies(options);
    case RotaryScalingKind::yarn: return yarn_frequencies(options);
    case RotaryScalingKind::longrope:
      return longrope_frequencies(options, length > options.scaling.original_length);
  }
  return inverse(wave_growth(options.theta, options.dim));
}

double rotary_attention_factor(const RotaryScaling& s) {
  if (s.kind != RotaryScalingKind::yarn && s.kind != RotaryScalingKind::longrope) return 1;
  if (s.attention_factor) return *s.attention_factor;
  if (s.factor <= 1) return 1;
  if (s.kind == RotaryScalingKind::longrope) {
    return std::sqrt(1 + std::log(s.factor) / std::log(static_cast<double>(s.original_length)));
  }
  const auto longer = [&](double mscale) { return 0.1 * mscale * std::log(s.factor) + 1; };
  const bool both = s.mscale.value_or(0) != 0 && s.mscale_all_dim.value_or(0) != 0;
  return both ? longer(*s.mscale) / longer(*s.mscale_all_dim) : longer(1);
}

/// Tables from position 0 on, of texts within the original length and (LongRoPE) beyond it.
struct RotaryPositions::Tables {
  ForkSafeMutex mutex;
  Tensor within, beyond;
};

RotaryPositions::RotaryPositions(RotaryOptions options)
    : options_(std::move(options)), tables_(std::make_unique<Tables>()) {
  check(options_);
}
RotaryPositions::~RotaryPositions() = default;

Tensor RotaryPositions::cos_sin(const PositionIds& positions, std::int64_t batch, std::int64_t time) const {
  const std::int64_t r = rotary_dim(options_);
  std::int64_t lowest = positions.first, end = positions.first + time;
  Tensor rows;
  if (positions.ids.defined()) {
    rows = positions.of_tokens(batch, time);
    const std::int64_t *begin = rows.data<std::int64_t>(), *last = begin + rows.numel();
    lowest = begin == last ? 0 : *std::min_element(begin, last);
    end = begin == last ? 0 : *std::max_element(begin, last) + 1;
  }
  if (lowest < 0) {
    throw Error("rotary positions: expected position ids of at least 0, got " + std::to_string(lowest));
  }
  const RotaryScaling& scaling = options_.scaling;
  const auto factor = static_cast<float>(rotary_attention_factor(scaling));
  const bool beyond = end > scaling.original_length;
  if (scaling.kind == RotaryScalingKind::dynamic && beyond) {  // every length has its own frequencies
    const std::vector<float> frequencies = rotary_frequencies(options_, end);
    if (!rows.defined()) {
      return cos_sin_table(frequencies, factor, time, [&](std::int64_t t) { return lowest + t; });
    }
    const std::int64_t* position = rows.data<std::int64_t>();
    return reshape(
        cos_sin_table(frequencies, factor, rows.numel(), [=](std::int64_t i) { return position[i]; }),
        {batch, time, r});
  }
  const std::lock_guard lock(tables_->mutex);
  Tensor& table = scaling.kind == RotaryScalingKind::longrope && beyond ? tables_->beyond : tables_->within;
  if (!table.defined() || table.size(0) < end) {
    const auto length = static_cast<std::int64_t>(
        std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(end, 256))));
    table =
        cos_sin_table(rotary_frequencies(options_, end), factor, length, [](std::int64_t p) { return p; });
  }
  return rows.defined() ? embedding(table, rows) : slice(table, 0, lowest, end);
}

Tensor RotaryPositions::rotate(const Tensor& x, const PositionIds& positions) const {
  return rotary(x, cos_sin(positions, x.size(0), x.size(2)).to(x.dtype()), options_.layout);
}

}  // namespace heed
