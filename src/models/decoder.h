// The decoder-only model that families assemble: embedding, positions, a causal stack and an output
// projection. A family fills `parts_`; forward, loss, decoding and saving are the same for all.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "heed/io/json.h"
#include "heed/models/model.h"
#include "heed/models/tensor_table.h"
#include "heed/nn/decoder_block.h"
#include "heed/nn/positions.h"

namespace heed {

struct DecoderParts {
  Embedding embedding;
  std::optional<Norm> embedding_norm;
  std::shared_ptr<Positions> positions;
  bool takes_position_ids = true;  // false where positions act on distances alone
  double embedding_dropout = 0.0;
  CausalStack stack;
  Linear output;  // [V, D]

  /// Ids i64 [B, T] to the final norm's output [B, T, D]. With caches, the ids continue what they hold.
  Tensor operator()(const Tensor& ids, const AttentionOptions& options, std::vector<KeyValueCache>* caches,
                    Context& context) const;
};

/// What a family's directory says, and what it weighs.
struct DecoderFiles {
  Config config;
  std::string generation;  // text of generation_config.json; empty where there is none
  Weights weights;
};

class AssembledDecoder : public DecoderModel {
 public:
  std::string family() const override { return files_.config.required_string("model_type"); }
  const std::vector<Parameter>& parameters() const override { return files_.weights.parameters(); }
  void save(const std::filesystem::path& directory, DType dtype) const override;
  std::optional<std::int64_t> max_positions() const override { return max_positions_; }
  std::int64_t vocab_size() const override { return parts_.embedding.table.size(0); }

  TensorMap forward(const TensorMap& inputs, const ForwardOptions& options, Context& context) const override;
  Tensor loss(const Tensor& ids, const Tensor& labels, const CrossEntropyOptions& options,
              Context& context) const override;
  std::unique_ptr<Decoding> decode(std::int64_t rows) const override;

 protected:
  explicit AssembledDecoder(DecoderFiles files) : files_(std::move(files)) {}
  const Config& config() const { return files_.config; }
  const Weights& weights() const { return files_.weights; }

  DecoderParts parts_;
  std::optional<std::int64_t> max_positions_;

 private:
  DecoderFiles files_;
};

/// Reads what a family needs of its directory: `table` makes the tensor table of the config, whose keys it
/// accounts for.
DecoderFiles load_decoder_files(const std::filesystem::path& directory, DType dtype,
                                const std::function<TensorTable(const Config&)>& table);
/// The same for a new model with random weights.
DecoderFiles make_decoder_files(const Config& config, Generator& generator,
                                const std::function<TensorTable(const Config&)>& table);

}  // namespace heed
