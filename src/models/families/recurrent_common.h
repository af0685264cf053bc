// The recurrent encoder-decoder (Sutskever, Vinyals and Le 2014; Cho et al. 2014), without attention or with
// that of Bahdanau et al. 2015 or of Luong et al. 2015: its parts, and what they compute.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heed/nn/recurrent.h"
#include "models/encoder_decoder.h"

namespace heed {

class DecoderTaps;

struct RecurrentEncoderLayer {
  RecurrentLayer forward;
  std::optional<RecurrentLayer> backward = {};  ///< from each row's end; the two outputs are concatenated
};

/// The source, encoded.
struct EncodedSource {
  Tensor memory;                       // [B, S, H]
  std::vector<RecurrentState> states;  // of each layer, after its last step
};

/// Taps: `encoder.embed` [B, S, E]; of a layer, `encoder.layers.I.in` [B, S, D], `.rnn.gates`, `.rnn.cell`
/// and `.rnn.state` (`rnn_reverse` of the backward direction), and `.out` [B, S, H].
struct RecurrentEncoder {
  Embedding tokens;
  std::vector<RecurrentEncoderLayer> layers;
  double dropout = 0.0;  ///< on embeddings, and between layers
  /// ids i64 [B, S]; lengths i64 [B], or undefined for S of every row.
  EncodedSource operator()(const Tensor& ids, const Tensor& lengths, Context& context) const;
};

/// What a decoder's first layer reads besides the embedding of a token.
enum class FedBack {
  nothing,
  context,  ///< the context of the state before the step (Bahdanau et al. 2015)
  output,   ///< the attentional vector of the step before (input feeding, Luong et al. 2015, section 3.3)
};

struct RecurrentDecoderState {
  std::vector<RecurrentState> layers;
  Tensor fed;  // [R, H], the last output, where that is fed back
};

/// Taps: `decoder.embed` [B, T, E]; of a layer the same as in the encoder; and of the attention, which
/// belongs to the last layer L, `decoder.layers.L.cross_attn.v` [B, 1, S, H], `.transformed` [B, 1, S, H],
/// the values times the columns of W_c for the context, `.scores` and `.weights` [B, 1, T, S], `.heads` [B,
/// 1, T, H], the context, and `.out` [B, T, H], the attentional state.
struct RecurrentDecoder {
  Embedding tokens;
  std::vector<RecurrentLayer> layers;
  double dropout = 0.0;  ///< on embeddings, between layers, and on the result
  std::optional<SourceAttention> attention = {};
  FedBack fed_back = FedBack::nothing;
  Linear combine = {};  ///< W_c [H, 2H] of tanh(W_c [context; state]), with attention
  Linear output = {};   ///< [V, H]

  /// The states that the decoder starts with: those of the encoder's last layers.
  RecurrentDecoderState start(const EncodedSource& source) const;
  /// Ids i64 [R, T] to what `output` reads, [R, T, H]; the state moves on.
  Tensor operator()(const Tensor& ids, RecurrentDecoderState& state, const SourceMemory& memory,
                    Context& context) const;

 private:
  struct StepMaps;
  Tensor context_columns(const Tensor& values) const;
  Tensor read(const Tensor& queries, const SourceMemory& memory, DecoderTaps& taps) const;
  Tensor whole(Tensor x, RecurrentDecoderState& state, const SourceMemory& memory, Context& context) const;
  Tensor stepwise(const Tensor& x, RecurrentDecoderState& state, const SourceMemory& memory,
                  Context& context) const;
  Tensor steps(const Tensor& x, RecurrentDecoderState& state, const SourceMemory& memory, Context& context,
               DecoderTaps& taps) const;
};

struct RecurrentParts {
  RecurrentEncoder encoder;
  RecurrentDecoder decoder;
};

std::unique_ptr<Model> assemble_recurrent(ModelContents files, RecurrentParts parts,
                                          const EncoderDecoderTraits& traits);

}  // namespace heed
