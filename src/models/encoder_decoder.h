// The encoder-decoder that families assemble: embeddings, positions, two stacks and an output projection. A
// family fills `parts_`; forward, loss and decoding are the same for all.
#pragma once

#include <memory>
#include <optional>

#include "heed/models/model.h"
#include "heed/nn/block.h"
#include "heed/nn/convolution.h"
#include "heed/nn/linear.h"
#include "heed/nn/norm.h"
#include "heed/nn/positions.h"
#include "models/model_files.h"

namespace heed {

/// What turns ids into the input of a stack.
struct EmbeddingParts {
  Embedding embedding;
  std::shared_ptr<Positions> positions;
  std::optional<Norm> norm = {};  // of their sum
  Tensor operator()(const Tensor& ids, std::int64_t first, double dropout, Context& context) const;
};

/// What turns features of sound f32 [B, bins, frames] into the input of a stack.
struct SoundParts {
  std::int64_t bins = 0, frames = 0;
  Conv1d first, second;  // with GELU behind them
  std::shared_ptr<Positions> positions;
  Tensor operator()(const Tensor& features, double dropout, Context& context) const;
};

struct EncoderDecoderParts {
  EmbeddingParts source;
  std::optional<SoundParts> sound;  // in the place of `source`
  EmbeddingParts target;
  double embedding_dropout = 0.0;
  Encoder encoder;
  Decoder decoder;
  double stack_dropout = 0.0;  // on what a stack puts out
  double output_scale = 1.0;   // on what enters the output projection
  Linear output;               // [V, D]

  /// The source to memory [B, S, D]. Throws Error where it is not of the kind the model takes.
  Tensor encode(const SourceBatch& source_batch, Context& context) const;
  /// Target ids i64 [B, T] to the last layer's output [B, T, D]. With caches, the ids continue what they
  /// hold.
  Tensor decode(const Tensor& ids, const Tensor& memory, const AttentionOptions& self_options,
                const AttentionOptions& cross_options, std::vector<DecoderLayerCache>* caches,
                Context& context) const;
  /// The decoder's output as the output projection takes it.
  Tensor scaled(const Tensor& hidden) const;
};

/// What search and training ask a model.
struct EncoderDecoderFacts {
  std::int64_t vocab_size = 0;
  std::int64_t pad_id = 0;
  std::int64_t eos_id = 0;
  std::int64_t decoder_start_id = 0;
  std::optional<std::int64_t> max_positions;
};

class AssembledEncoderDecoder : public EncoderDecoderModel {
 public:
  std::string family() const override { return files_.config.required_string("model_type"); }
  const std::vector<Parameter>& parameters() const override { return files_.weights.parameters(); }
  void save(const std::filesystem::path& directory, DType dtype) const override {
    files_.save(directory, dtype);
  }
  std::vector<std::string> unknown_settings() const override { return files_.config.unused(); }
  std::optional<std::int64_t> max_positions() const override { return facts_.max_positions; }
  std::int64_t vocab_size() const override { return facts_.vocab_size; }
  bool takes_features() const override { return parts_.sound.has_value(); }
  std::int64_t decoder_start_id() const override { return facts_.decoder_start_id; }
  std::int64_t pad_id() const override { return facts_.pad_id; }
  std::int64_t eos_id() const override { return facts_.eos_id; }

  TensorMap forward(const TensorMap& inputs, const ForwardOptions& options, Context& context) const override;
  Tensor loss(const SourceBatch& source, const Tensor& decoder_ids, const Tensor& labels,
              const CrossEntropyOptions& options, Context& context) const override;
  std::unique_ptr<Decoding> decode(const SourceBatch& source, std::int64_t beams,
                                   Context& context) const override;

 protected:
  explicit AssembledEncoderDecoder(ModelFiles files) : files_(std::move(files)) {}
  const Config& config() const { return files_.config; }
  const Weights& weights() const { return files_.weights; }
  /// What the decoder reads to say the labels i64 [B, T]: the start token and all but the last of them,
  /// padding in the place of those ignored.
  virtual Tensor decoder_inputs(const Tensor& labels, std::int64_t ignored) const;

  EncoderDecoderParts parts_;
  EncoderDecoderFacts facts_;

 private:
  /// The source among named inputs, which are checked.
  SourceBatch source_of(const TensorMap& inputs) const;

  ModelFiles files_;
};

}  // namespace heed
