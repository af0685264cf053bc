// The decoder-only model that families assemble: embedding, positions, a causal stack and an output
// projection. A family fills `parts_`; forward, loss, decoding and saving are the same for all.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "heed/models/model.h"
#include "heed/nn/decoder_block.h"
#include "heed/nn/positions.h"
#include "models/model_files.h"

namespace heed {

struct DecoderParts {
  Embedding embedding;
  std::optional<Norm> embedding_norm;
  std::shared_ptr<Positions> positions;
  bool takes_position_ids = true;  // false where positions act on distances alone
  double embedding_dropout = 0.0;
  CausalStack stack;
  Linear output;  // [V, D]; without a weight in a model that was saved without its head

  /// Ids i64 [B, T] to the final norm's output [B, T, D]. With caches, the ids continue what they hold; the
  /// context's places, where given, win over those.
  Tensor operator()(const Tensor& ids, const AttentionOptions& options, std::vector<KeyValueCache>* caches,
                    Context& context) const;
};

/// Adds the row of an output map that is not tied to the embedding. A model that was saved without its head
/// (`architectures`: LlamaModel) has none.
void add_output(TensorTable& table, const Config& json, const std::string& name, const Shape& shape);

class AssembledDecoder : public DecoderModel {
 public:
  std::string family() const override { return files_.config.required_string("model_type"); }
  const std::vector<Parameter>& parameters() const override { return files_.weights.parameters(); }
  void save(const std::filesystem::path& directory, DType dtype) const override {
    files_.save(directory, dtype);
  }
  std::vector<std::string> unknown_settings() const override { return files_.config.unused(); }
  std::optional<std::int64_t> max_positions() const override { return max_positions_; }
  std::optional<std::int64_t> trained_positions() const override { return trained_positions_; }
  std::int64_t vocab_size() const override { return parts_.embedding.table.size(0); }

  TensorMap forward(const TensorMap& inputs, const ForwardOptions& options, Context& context) const override;
  Tensor loss(const Tensor& ids, const Tensor& labels, const CrossEntropyOptions& options,
              Context& context) const override;
  Tensor encode(const Tensor& ids, Context& context) const override;
  std::unique_ptr<Decoding> decode(std::int64_t rows) const override;
  bool rows_are_independent() const override { return rows_are_independent_; }

 protected:
  explicit AssembledDecoder(ModelFiles files) : files_(std::move(files)) {}
  const Config& config() const { return files_.config; }
  const Weights& weights() const { return files_.weights; }
  /// Throws Error where there is no output map.
  void check_output() const;

  DecoderParts parts_;
  std::optional<std::int64_t> max_positions_, trained_positions_;
  bool rows_are_independent_ = true;

 private:
  ModelFiles files_;
};

}  // namespace heed
