// The encoder-decoder that families assemble: embeddings, positions, two stacks and an output projection. A
// family fills `parts_`; forward, loss and decoding are the same for all.
#pragma once

#include <memory>

#include "heed/models/model.h"
#include "heed/nn/block.h"
#include "heed/nn/linear.h"
#include "heed/nn/positions.h"

namespace heed {

struct EncoderDecoderParts {
  Embedding source_embedding;
  Embedding target_embedding;
  std::shared_ptr<Positions> positions;  // of both sides
  double embedding_dropout = 0.0;
  Encoder encoder;
  Decoder decoder;
  Linear output;  // [V, D]

  /// Source ids i64 [B, S] and mask i64 [B, S] to memory [B, S, D].
  Tensor encode(const SourceBatch& source, Context& context) const;
  /// Target ids i64 [B, T] to the last layer's output [B, T, D]. With caches, the ids continue what they
  /// hold.
  Tensor decode(const Tensor& ids, const Tensor& memory, const AttentionOptions& self_options,
                const AttentionOptions& cross_options, std::vector<DecoderLayerCache>* caches,
                Context& context) const;
};

class AssembledEncoderDecoder : public EncoderDecoderModel {
 public:
  TensorMap forward(const TensorMap& inputs, const ForwardOptions& options, Context& context) const override;
  Tensor loss(const SourceBatch& source, const Tensor& decoder_ids, const Tensor& labels,
              const CrossEntropyOptions& options, Context& context) const override;
  std::unique_ptr<Decoding> decode(const SourceBatch& source, std::int64_t beams,
                                   Context& context) const override;

 protected:
  EncoderDecoderParts parts_;
};

}  // namespace heed
