// The encoder that families assemble: embeddings, a stack of layers, a pooler and a head. A family says how
// its config is read, which tensors its files hold, and how the parts are made of them; forward, loss and
// saving are the same for all.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heed/io/json.h"
#include "heed/models/model.h"
#include "heed/models/tensor_table.h"
#include "heed/nn/block.h"
#include "heed/nn/linear.h"

namespace heed {

/// The settings that encoders have in common, whatever their config calls them.
struct EncoderConfig {
  EncoderHead head = EncoderHead::none;
  std::string architecture;  // the config's, for messages
  std::vector<std::string> labels;
  std::optional<LabelProblem> problem;
  std::int64_t vocab_size = 0;
  std::int64_t width = 0;
  std::int64_t embedding_width = 0;  // ALBERT's differs from the width
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t inner = 0;
  std::int64_t positions = 0;  // rows of the table
  std::int64_t types = 0;
  std::int64_t groups = 1;        // of layers that share their tensors, in ALBERT
  std::int64_t group_layers = 1;  // in each of them
  Activation activation = Activation::gelu;
  double norm_eps = 1e-12;
  double dropout = 0.0;
  double attention_dropout = 0.0;
  double head_dropout = 0.0;
  bool tied = true;  // the output map of a masked_lm head is the word embedding
  std::optional<std::int64_t> padding;

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
  Embedding words;
  Tensor types;                         // [types, D], or undefined
  Embedding positions;                  // [positions, D]
  std::optional<std::int64_t> counted;  // positions count the ids that are not this one, from it + 1 on
  Norm norm;
  double dropout = 0.0;
  std::optional<Linear> projection;  // from the embeddings' width to the layers'
  Encoder encoder;
  std::optional<Linear> pooler;
  std::optional<EncoderHeadParts> head;

  /// Ids i64 [B, T] and type_ids to [B, T, D].
  Tensor embed(const EncoderBatch& batch, Context& context) const;
};

/// The tensors of an encoder: those of its body come first, those of its head behind them.
struct EncoderTable {
  TensorTable table;
  std::size_t body_rows = 0;
};

/// Whether a checkpoint holds a tensor of this name (a new model holds all).
using HasTensor = std::function<bool(const std::string&)>;

struct EncoderFamily {
  EncoderConfig (*parse)(const Config&);
  EncoderTable (*table)(const EncoderConfig&, const HasTensor&);
  EncoderParts (*build)(const EncoderConfig&, const Weights&);
};

std::unique_ptr<EncoderModel> make_encoder(const EncoderFamily& family, const Config& config,
                                           Generator& generator);
std::unique_ptr<EncoderModel> load_encoder(const EncoderFamily& family,
                                           const std::filesystem::path& directory, DType dtype);

/// Lets every row be found with the prefix or without it, and every norm under its first names gamma and
/// beta. `unused` are tensors of other heads and buffers, which a file may hold without being read.
void add_other_names(EncoderTable& table, const std::string& prefix, const std::vector<std::string>& unused);

}  // namespace heed
