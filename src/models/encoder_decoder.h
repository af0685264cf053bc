// The encoder-decoder that families assemble: embeddings or a frontend, two stacks and an output
// projection. A family's `build` fills the parts; forward, loss and decoding are the same for all.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "heed/models/model.h"
#include "heed/nn/stack.h"
#include "models/decoder.h"
#include "models/embeddings.h"

namespace heed {

/// The encoder's last hidden state [B, S, D] and its mask, i64 [B, S] or undefined.
struct MaskedStates {
  Tensor states, mask;
};

struct EncoderDecoderParts {
  InputEmbeddings source;
  Stack encoder;
  double encoder_dropout = 0.0;       // on the encoder's output
  bool normed_encoder_states = true;  // the last of encoder_hidden_states is that after the final norm
  std::optional<Linear> memory_projection = {};  // of the encoder's output, to the decoder's width
  DecoderParts decoder;

  /// Throws Error where the source is not of the kind the model takes.
  MaskedStates encode(const ModelInput& input, Context& context, bool reads_padding = false) const;
  /// What the decoder attends to, of the encoder's output.
  Tensor memory(const Tensor& states) const {
    return memory_projection ? (*memory_projection)(states) : states;
  }
};

/// What search and training ask an encoder-decoder.
struct EncoderDecoderTraits {
  std::int64_t vocab_size = 0;
  std::int64_t pad_id = 0;
  std::int64_t eos_id = 0;
  std::int64_t decoder_start_id = 0;
  std::optional<std::int64_t> max_positions = {};
  std::optional<std::int64_t> trained_positions = {};  // where there is no limit
  bool starts_with_last_label =
      false;  // instead of decoder_start_id: mBART, whose last label is the language
};

/// What the decoder reads to predict the labels (EncoderDecoderModel::decoder_inputs).
Tensor shifted_right(const Tensor& labels, std::int64_t ignored, const EncoderDecoderTraits& traits);
/// What a decoder reads among the named inputs, i64 [B, T]; mask and labels undefined where they are absent.
struct TargetInputs {
  Tensor ids, mask, labels;
};
inline const std::set<std::string> kTargetInputs{"decoder_input_ids", "decoder_attention_mask", "labels"};
/// decoder_input_ids, or what the labels give; decoder_attention_mask and labels. Throws Error unless there
/// are `batch` rows of ids below `vocab`.
TargetInputs target_inputs(const TensorMap& inputs, std::int64_t batch, std::int64_t vocab,
                           const EncoderDecoderTraits& traits);

std::unique_ptr<Model> assemble_encoder_decoder(ModelContents files, EncoderDecoderParts parts,
                                                const EncoderDecoderTraits& traits);

}  // namespace heed
