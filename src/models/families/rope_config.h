// Rotary positions as config.json describes them: in `rope_parameters`, or in `rope_theta` and
// `rope_scaling` as before transformers 5.
#pragma once

#include "heed/io/json.h"
#include "heed/nn/rotary.h"

namespace heed {

/// Keys and defaults that differ between families.
struct RopeKeys {
  const char* theta = "rope_theta";
  const char* layer_type =
      nullptr;                    // key in `rope_parameters`, where kinds of layers have their own (Gemma 3)
  bool scaled = true;             // whether `rope_scaling` concerns these layers
  const char* partial = nullptr;  // key of the part of a head that is rotated; null: all of it
  double theta_default = 10000;
  double partial_default = 1;
};

/// The options for heads of so many elements, in a model trained on texts of at most `max_positions`. Throws
/// Error for a kind of scaling that is not known, and for what a kind lacks. `dim` is 0 where too small a
/// part of a head that is rotated makes an element: such a model has no positions.
RotaryOptions rotary_options(const Config& json, std::int64_t head_dim, std::int64_t max_positions,
                             const RopeKeys& keys = {});

/// Whether the frequencies depend on the length of the text.
bool follows_length(const RotaryOptions& options);

}  // namespace heed
