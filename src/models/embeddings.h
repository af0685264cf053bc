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
#include "heed/nn/pass.h"
#include "heed/nn/positions.h"

namespace heed {

/// Makes [B, T, D] of pixels or a spectrogram.
class Frontend {
 public:
  virtual ~Frontend() = default;
  virtual InputSpec input() const = 0;
  /// `values` f32 [B, ...], of input().row each.
  virtual Tensor operator()(const Tensor& values, Context& context) const = 0;
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

  InputSpec input() const { return frontend ? frontend->input() : InputSpec{}; }
  /// [B, T, D]. Throws Error for an input of another kind than input().
  Tensor operator()(const ModelInput& given, const PositionIds& position_ids, Context& context) const;
  /// The input among the named ones of forward(): its ids (below `tokens`' rows), its embeddings
  /// (`inputs_embeds`) or its values, and attention_mask for tokens. Throws Error for what does not fit and
  /// for a name that is neither of these nor in `others`.
  ModelInput read(const TensorMap& inputs, std::set<std::string> others) const;
};

/// TensorRow::fill of a table of sinusoidal positions.
std::function<void(Tensor)> sinusoidal_fill(SinusoidLayout layout);

}  // namespace heed
