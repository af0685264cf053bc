// Input attribution: what each input token adds to an output of a model, by gradients (Simonyan et al. 2013,
// "Deep inside convolutional networks"; Shrikumar et al. 2017, "DeepLIFT"; Sundararajan et al. 2017,
// "Axiomatic attribution for deep networks") and by occlusion (Zeiler and Fergus 2014).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/inspect/metric.h"

namespace HEED_API heed {

/// With the output F, the embeddings x_t of the tokens (the tap `STACK.embed.lookup`) and those of a
/// baseline, b_t, a token adds
///
///   gradient     (x_t - b_t) . dF/dx_t
///   integrated   (x_t - b_t) . the mean of dF/dx_t at b + (k - 1/2) / N (x - b), k = 1, ..., N
///   occlusion    F(x) - F(x with b_t in place of x_t)
///
/// Positions, token types and masks stay those of the text.
enum class InputMethod : std::uint8_t { gradient, integrated, occlusion };

struct InputAttributionOptions {
  InputMethod method = InputMethod::gradient;
  std::int64_t steps = 50;                    ///< the first N of `integrated`
  std::int64_t max_steps = 800;               ///< N is doubled up to this while the sum is not complete
  std::optional<std::int64_t> baseline = {};  ///< a token whose embedding is b_t; without one, zeros
  /// Called with the number of rows that are done, and the total.
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};
};

/// What the tokens of one stack add.
struct TokenAttributions {
  std::string stack;           ///< `encoder` or `decoder`
  std::vector<double> values;  ///< [T]
};

struct InputAttribution {
  double value = 0;           ///< F(x)
  double baseline_value = 0;  ///< F(b): every token of every stack is the baseline
  /// For an encoder-decoder: the encoder and the decoder. Their tokens move together from b to x.
  std::vector<TokenAttributions> stacks = {};

  std::int64_t steps = 1;  ///< N that was used

  double sum() const;
  /// sum() - (F(x) - F(b)): 0 for integrated gradients with N -> infinity (completeness).
  double completeness_error() const { return sum() - (value - baseline_value); }
  /// Whether the sum is within 5 % of F(x) - F(b), as Sundararajan et al. ask for.
  bool is_complete() const;
};

/// `input` is one row of token ids; its metric is any but `kl`. Clears the gradients of the model's
/// parameters. Throws Error for a model that does not read tokens or is recurrent, a metric that does not fit
/// (measure()), a baseline outside the vocabulary, and steps below 1.
InputAttribution attribute_input(const Model& model, const MeasuredInput& input,
                                 const InputAttributionOptions& options = {});

}  // namespace heed
