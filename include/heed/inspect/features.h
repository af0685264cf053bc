// Features of a model's activations, as sparse autoencoders and transcoders find them (Bricken et al. 2023,
// "Towards monosemanticity"; Dunefsky et al. 2024, "Transcoders find interpretable LLM feature circuits").
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/models/model.h"

namespace HEED_API heed {

/// A sparse autoencoder, or a transcoder, which reads one value of a model and predicts another:
///
///   f = act((n(x) - b) W_enc + b_enc),   y = n^-1(f W_dec + b_dec) + x W_skip^T
///
/// with b = b_dec or 0, n nothing, division by the RMS of x, or its standardization; act is ReLU, JumpReLU
/// (Rajamanoharan et al. 2024), the k largest (Gao et al. 2024), or the product with a gate (Rajamanoharan et
/// al. 2024, "gated"). Threads: several may use one object at once.
class SparseCoder {
 public:
  /// Reads a directory as SAELens (cfg.json, sae_weights.safetensors: standard, jumprelu, gated, topk, and
  /// those of transcoders) or sparsify (cfg.json, sae.safetensors) writes it. Throws Error that names the
  /// file and the key or tensor for what is missing, has another shape, or is not supported.
  static SparseCoder load(const std::filesystem::path& directory);

  std::int64_t inputs() const;    ///< numbers of x
  std::int64_t features() const;  ///< numbers of f
  std::int64_t outputs() const;   ///< numbers of y
  /// Whether y predicts another value than x.
  bool is_transcoder() const;
  /// The name of the values in the coder's file: a hook of TransformerLens (`blocks.8.hook_resid_pre`), or
  /// the name of the directory (`layers.8.mlp`); empty if there is none.
  const std::string& reads() const;
  const std::string& writes() const;

  /// f [..., features] of x [..., inputs], f32.
  Tensor encode(const Tensor& x) const;
  /// y [..., outputs] of f and of the x that f was computed from; n^-1 and W_skip depend on x.
  Tensor decode(const Tensor& f, const Tensor& x) const;
  /// The direction of a feature in y, without n^-1: its row of W_dec, [outputs].
  Tensor direction(std::int64_t feature) const;

 private:
  struct Parts;
  explicit SparseCoder(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}
  std::shared_ptr<const Parts> parts_;
};

/// The taps of a model that a coder reads and writes.
struct FeatureSites {
  std::string reads, writes;
};

/// The taps that the names in the coder's file refer to, in the decoder, or else in the encoder. Throws Error
/// for names that are unknown or absent.
FeatureSites feature_sites(const Model& model, const SparseCoder& coder);

/// The features of a model's values for one row of inputs.
struct FeatureActivations {
  Tensor values;               ///< f [T, features]
  double explained = 0;        ///< 1 - |y - target|^2 / |target - mean(target)|^2 over the positions
  double active_features = 0;  ///< features above 0 at a position, on average
};
/// Throws Error if the model lacks these taps, or if their width differs from the coder's.
FeatureActivations feature_activations(const Model& model, const TensorMap& inputs, const SparseCoder& coder,
                                       const FeatureSites& sites);

/// In the passes that `taps` listens to, multiplies features by `factors` (0: ablation): the change of the
/// coder's output is added to the value that it predicts, so the part that the coder does not explain stays.
/// `taps` keeps a copy of the coder.
void scale_features(Taps& taps, const SparseCoder& coder, const FeatureSites& sites,
                    const std::map<std::int64_t, double>& factors);

/// The contribution of a feature's direction to the logits of all tokens [V], through the weight of the final
/// norm, but without its division, which depends on the whole stream. So the order of tokens is meaningful,
/// the size is not. Throws Error for models that predict no token, and for coders that do not write to the
/// residual stream.
std::vector<double> feature_logits(const Model& model, const SparseCoder& coder, std::int64_t feature);

}  // namespace heed
