// The encoder that families assemble: embeddings, a stack of layers, a pooler and a head. A family's `parse`
// fills an EncoderConfig, its `build` the parts; forward, loss and encode are the same for all.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heed/io/json.h"
#include "heed/models/model.h"
#include "heed/models/tensor_table.h"
#include "heed/nn/stack.h"
#include "models/embeddings.h"
#include "models/model_files.h"

namespace heed {

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
  bool mean_pooling = false;  // a sequence head reads the mean over the tokens, not the first token
  double norm_eps = 1e-12;
  double dropout = 0.0;
  double attention_dropout = 0.0;
  double head_dropout = 0.0;
  bool tied = true;  // the output map of a masked_lm head is the word embedding
  std::optional<std::int64_t> padding;
  std::optional<std::int64_t> max_positions;  // tokens that a sequence may have

  /// Reads head, labels and problem from `architectures`, `id2label` and `problem_type`, and checks what
  /// makes every encoder: that it is no decoder and that its positions are absolute.
  static EncoderConfig parse_common(const Config& json);
};

/// Dense layer, norm and output map, with dropouts between them; all but the output are optional.
struct EncoderHeadParts {
  double first_dropout = 0.0;
  std::optional<Linear> dense;
  Activation activation = Activation::none;
  std::optional<Norm> norm;
  double dropout = 0.0;
  Linear output;
  /// What enters the output map.
  Tensor features(const Tensor& x, Context& context) const;
};

struct EncoderParts {
  InputEmbeddings embeddings;
  Stack stack = {};
  bool clears_padding = false;  // embeddings of masked tokens are zeros
  double stack_dropout = 0.0;   // on the stack's output
  std::optional<Linear> pooler = {};
  std::optional<EncoderHeadParts> head = {};
};

/// The head that an architecture (BertForMaskedLM) names by its ending; none for any other name.
EncoderHead encoder_head_named(const std::string& architecture);

std::unique_ptr<Model> assemble_encoder(const EncoderConfig& config, ModelFiles files, EncoderParts parts);

/// Lets every row be found with the prefix or without it, and every norm under its first names gamma and
/// beta. `unused` are tensors of other heads and buffers, which a file may contain and which are not read.
void add_other_names(TensorTable& table, const std::string& prefix, const std::vector<std::string>& unused);

}  // namespace heed
