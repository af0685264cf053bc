// The decoder that families assemble: embeddings, a stack and an output projection. It is a model of its own
// or the second half of an encoder-decoder.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "heed/models/model.h"
#include "heed/nn/stack.h"
#include "models/embeddings.h"
#include "models/weight_builder.h"

namespace heed {

/// The load-balancing loss of mixtures of experts, as a term of the loss.
struct LoadBalance {
  std::int64_t chosen = 0;  // experts per token
  double coefficient = 0.0;
  std::optional<std::int64_t> padding = {};  // of batches without a mask, at the ends of rows
};

struct DecoderParts {
  InputEmbeddings embeddings;
  Stack stack{.name = "decoder"};
  double stack_dropout = 0.0;  // on the stack's output
  double output_scale = 1.0;   // on the input of the output projection
  OutputTransform output_transform = {};
  double logit_cap = 0.0;  // if > 0, softcap of the logits
  Linear output;           // [V, D]; without a weight in a model that was saved without its head
  /// While decoding, the step that takes a row past this many tokens computes the earlier ones again, because
  /// their rotary frequencies change (Phi-3); 0: never.
  std::int64_t recompute_beyond = 0;
  std::optional<LoadBalance> load_balance = {};

  /// The input of B rows of T tokens to the last hidden state [B, T, D]; each token attends to itself and
  /// those before it. The pass has the rest: position ids, masks, memory. With a state, the tokens follow the
  /// earlier ones.
  Tensor operator()(const ModelInput& input, Pass& pass, StackState* state = nullptr) const;
  /// What enters the output projection.
  Tensor output_input(const Tensor& hidden) const;
  /// The logits [..., V] of hidden [..., D]; tap `logits`.
  Tensor logits(const Tensor& hidden, Context& context) const;
  ReadOut read_out() const { return {stack.final_norm, output_scale, output_transform, output, logit_cap}; }
};

/// What search and training ask a decoder-only model.
struct DecoderTraits {
  bool takes_position_ids = true;  // false where positions act on distances alone
  std::optional<std::int64_t> max_positions = {}, trained_positions = {};
  bool rows_are_independent = true;
};

std::unique_ptr<Model> assemble_decoder(ModelContents files, DecoderParts parts, const DecoderTraits& traits);

/// Starts decoding. With `memory` [B, S, D] and the mask i64 [B, S] of its positions (or undefined), row b
/// attends to memory[b]. `parts` must outlive the result.
std::unique_ptr<Decoding> start_decoding(const DecoderParts& parts, std::int64_t rows,
                                         const Tensor& memory = {}, const Tensor& memory_mask = {});

/// Whether the config's `architectures` names a decoder without its head (LlamaModel).
bool is_headless(const Config& json);

}  // namespace heed
