// What turns the input of a model into that of its first layer: the embeddings of tokens, or a frontend for
// images or sound in their place.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "heed/models/input.h"
#include "heed/nn/linear.h"
#include "heed/nn/norm.h"
#include "heed/nn/part.h"
#include "heed/nn/positions.h"
#include "heed/shape.h"
#include "heed/tensor.h"

namespace heed {

/// The tap of what a frontend for waveforms makes of the samples alone, [B, T, C].
inline constexpr const char* kFeaturesTap = "encoder.features";

/// Makes [B, T, D] of pixels, patches, a spectrogram or a waveform.
class Frontend {
 public:
  virtual ~Frontend() = default;
  virtual InputSpec input() const = 0;
  /// The values of `given` are f32 [B, ...], of input().row each. Where `shown` is defined, bool [B, T], it
  /// is false for tokens of padding.
  virtual Tensor operator()(const ModelInput& given, const Tensor& shown, Context& context) const = 0;
  /// The mask of the T tokens, i64 [B, T], by that of a waveform's samples, i64 [B, samples].
  virtual Tensor token_mask(const Tensor& samples) const { return samples; }
  /// Tells the layers what they need to know of `values` besides: Pass::rotation.
  virtual void prepare(const Tensor&, Pass&) const {}
};

/// The sum of token, token type and position embeddings, with a norm and dropout; or what a frontend makes.
struct InputEmbeddings {
  Embedding tokens;                     // [V, E]
  double given_scale = 1.0;             // of embeddings in place of ids (Granite)
  std::optional<Norm> token_norm = {};  // of the tokens alone (BLOOM)
  Tensor token_types = {};              // [token types, E], or undefined
  std::optional<AdditivePositions> positions = {};
  std::optional<std::int64_t> unpositioned =
      {};                         // position ids skip this id, which gets -1 (RoBERTa, M2M100)
  std::optional<Norm> norm = {};  // of the sum
  double dropout = 0.0;
  std::optional<Linear> projection = {};          // from E to D (ALBERT)
  std::shared_ptr<const Frontend> frontend = {};  // instead of all of the above

  /// Model::token_vectors().
  Tensor token_vectors() const;
  InputSpec input() const { return frontend ? frontend->input() : InputSpec{}; }
  /// The mask of the tokens that these make of the input, i64 [B, T]; undefined without one. Throws Error
  /// where the mask of a waveform does not have its shape.
  Tensor token_mask(const ModelInput& given) const;
  /// [B, T, D], at the pass's positions; a frontend sees its key mask. Throws Error for an input of another
  /// kind than input().
  Tensor operator()(const ModelInput& given, const Pass& pass) const;
  /// The input among the named ones of forward(): its ids (below `tokens`' rows), its embeddings
  /// (`inputs_embeds`) or its values, with what belongs to them. Throws Error for what does not fit and for a
  /// name that is neither of these nor in `others`.
  ModelInput read(const TensorMap& inputs, std::set<std::string> others) const;
};

/// TensorRow::fill of a table of sinusoidal positions.
std::function<void(Tensor)> sinusoidal_fill(SinusoidLayout layout);

// Learned positions of a grid of patches, resized for images of other sizes.

/// How positions between those of the table are computed.
enum class GridResize {
  none,           ///< not at all: images have one size
  cubic,          ///< from the four nearest along each axis (Keys 1981, with a = -0.75)
  smooth_cubic,   ///< by a filter that grows when shrinking (antialiasing), with a = -0.5
  smooth_linear,  ///< from the two nearest, in proportion to their distance, with antialiasing
};

/// The positions [h w, D] of a grid `from` = [h, w], as those of a grid `to`: [H W, D]. Equal to PyTorch's
/// `interpolate(mode="bicubic", align_corners=False)` or, of smooth_linear, mode="bilinear"; with `antialias`
/// for the smooth ones. f32.
Tensor resize_positions(const Tensor& positions, const Shape& from, const Shape& to, GridResize how);

}  // namespace heed
