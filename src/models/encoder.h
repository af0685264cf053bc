// The encoder that families assemble: embeddings, a stack of layers, a pooler and a head. A family's `parse`
// fills an EncoderConfig, its `build` the parts; forward, loss and encode are the same for all. A family
// names the tensors and settings of its heads in an EncoderHeads; how a head is made of them is the same for
// all.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heed/io/json.h"
#include "heed/models/model.h"
#include "heed/nn/stack.h"
#include "heed/ops/loss.h"
#include "models/embeddings.h"
#include "models/weight_builder.h"

namespace heed {

/// What a sequence head reads: the first token; the mean of the first two; the mean over the tokens; or the
/// first and the mean side by side, the mean without the EncoderConfig::skipped first tokens.
enum class SequenceInput { first_token, first_two, mean, first_and_mean };

/// The settings that encoders have in common, whatever their config calls them.
struct EncoderConfig {
  EncoderHead head = EncoderHead::none;
  std::string architecture;  // the config's, for messages
  std::vector<std::string> labels;
  std::optional<LabelProblem> problem;
  std::optional<Activation> score_activation;
  std::int64_t vocab_size = 0;
  std::int64_t d_model = 0;
  std::int64_t d_embedding = 0;  // ALBERT's differs from d_model
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t d_ff = 0;
  std::int64_t positions = 0;  // rows of the table; 0: none
  std::int64_t token_types = 0;
  bool sinusoidal = false;        // position embeddings of a new model, in DistilBERT
  std::int64_t groups = 1;        // of layers that share their tensors, in ALBERT
  std::int64_t group_layers = 1;  // in each of them
  Activation activation = Activation::gelu;
  SequenceInput sequence_input = SequenceInput::first_token;
  std::int64_t skipped = 0;
  double norm_eps = 1e-12;
  double dropout = 0.0;
  double attention_dropout = 0.0;
  double head_dropout = 0.0;
  bool tied = true;  // the output map of a masked_lm head is the word embedding
  std::optional<std::int64_t> padding;
  CtcOptions ctc = {};
  std::optional<std::int64_t> max_positions;      // tokens that a sequence may have
  std::optional<std::int64_t> trained_positions;  // of training, where there is no limit

  /// Reads head, labels and problem from `architectures`, `id2label` and `problem_type`, and checks what
  /// makes every encoder: that it is no decoder (or with `decodes`, that it is one with cross-attention,
  /// whose head is that of masked_lm) and that its positions are absolute.
  static EncoderConfig parse_common(const Config& json, bool decodes = false);
};

/// Dense layer, norm and output map, with dropouts between them; all but the output are optional.
struct EncoderHeadParts {
  double first_dropout = 0.0;
  std::optional<Linear> dense;
  Activation activation = Activation::none;
  std::optional<Norm> norm;
  double dropout = 0.0;
  Linear output;
  std::optional<Linear> second_output = {};  ///< of the second token: logits are the mean of both
  /// What enters the output map.
  Tensor features(const Tensor& x, Context& context) const;
};

/// What `pooler_output` [B, P] is made of: hidden [B, T, D] of an input.
using Pool = std::function<Tensor(const Tensor& hidden, const ModelInput& input, Context& context)>;
/// The first token, as it is or through a map.
Pool pool_first_token();
Pool pool_first_token(Linear map, Activation activation = Activation::tanh);
/// The mean of the first two.
Pool pool_first_two();

struct EncoderParts {
  InputEmbeddings embeddings;
  Stack stack = {};
  bool clears_padding = false;            // embeddings of masked tokens are zeros
  double stack_dropout = 0.0;             // on the stack's output
  bool causal = false;                    // a token attends to itself and those before it (CLIP's texts)
  bool normed_hidden_states = true;       // the last of hidden_states is that after the final norm
  Pool pool = {};                         // of a model without head; may be empty
  std::optional<Linear> projection = {};  // of `pool`, to vectors()
  std::string projected = {};             // what forward() calls these, instead of pooler_output
  bool pools_vectors = false;  // vectors() are the pooled ones, through `projection` if there is one
  bool pads_texts = false;     // padded_length() is max_positions
  std::optional<EncoderHeadParts> head = {};
};

/// The head that an architecture (BertForMaskedLM) names by its ending; none for any other name.
EncoderHead encoder_head_named(const std::string& architecture);

/// One head by the names of its tensors: output(dropout(norm(activation(dense(first_dropout(x)))))). A head
/// without dense map or norm has no name for it.
struct HeadMaps {
  double first_dropout = 0.0;
  std::string dense = "";
  Activation activation = Activation::none;
  std::string norm = "";
  double dropout = 0.0;
  std::string output = "";
  std::string second_output = "";  ///< of a sequence head: EncoderHeadParts::second_output (DeiT)
};

struct EncoderHeads {
  std::string prefix;            ///< of the names of the body below a head; those of a bare model have none
  HeadMaps masked_lm = {};       ///< its output map may be tied to the word embedding
  std::string output_bias = "";  ///< of masked_lm, where it is not `output`.bias; see take_vocabulary_head
  HeadMaps sequence = {};
  HeadMaps token = {.output = "classifier"};
  HeadMaps span = {.output = "qa_outputs"};
  HeadMaps ctc = {};
  bool dense_bias = true, norm_bias = true, output_has_bias = true;
  std::vector<std::string> unused = {};  ///< other maps that files may have and that are not read

  const HeadMaps& of(EncoderHead head) const;
};

/// Begins the walk of an encoder: the prefix of the body's names, which is that of `heads` below a head and
/// nothing without one. Files of either kind can be read.
std::string begin_body(const EncoderConfig& config, const EncoderHeads& heads, WeightBuilder& w);
/// The output map of a masked_lm head, to which the word embedding may be tied.
OutputMap vocabulary_output(const EncoderConfig& config, const EncoderHeads& heads);
/// The first token through the map NAME of a model without head, if its file has one.
Pool take_pooler(const EncoderConfig& config, WeightBuilder& w, const std::string& name);
/// Ends the walk: the config's head (none for a bare model). Every name of the other heads is ignored in
/// files.
std::optional<EncoderHeadParts> take_head(const EncoderConfig& config, const EncoderHeads& heads,
                                          WeightBuilder& w);

std::unique_ptr<EncoderModel> assemble_encoder(const EncoderConfig& config, ModelContents files,
                                               EncoderParts parts);

// A model of two encoders whose vectors are compared: CLIP and SigLIP.

struct Tower {
  std::unique_ptr<EncoderModel> model;
  const char* stack;  // the name of its Stack
  std::int64_t layers = 0;
};

struct DualEncoderParts {
  Tower text, image;
  Tensor logit_scale;  // one number, of which exp is taken
  Tensor logit_bias;   // one number, or undefined
  PairLoss loss = PairLoss::softmax;
};

std::unique_ptr<Model> assemble_dual_encoder(ModelContents files, DualEncoderParts parts);

}  // namespace heed
