// What a GGUF file calls the tensors of Hugging Face's models, and how llama.cpp's converter changed them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "files/gguf_file.h"

namespace heed::io {

/// How the numbers of a tensor in a GGUF file differ from those in Hugging Face's.
enum class GgufChange {
  none,
  query_pairs,  ///< rows of a head in pairs that rotate together, instead of in two halves
  key_pairs,
  fused_by_kind,  ///< all queries, then all keys, then all values, instead of these three for each head
  transposed,
  plus_one,   ///< 1 was added
  experts,    ///< those of all experts in one tensor; the name has a # for the number of the expert
  no_offset,  ///< the rows before the first position (up to the padding id) were cut off
  unread,     ///< heed does not read it as a tensor
};

/// A tensor's name without its last part (weight, bias).
struct GgufName {
  std::string_view gguf;
  std::string_view hugging_face;
  GgufChange change = GgufChange::none;
};

/// The names of what is in every layer: GGUF's "blk.3." is the model's "model.layers.3.".
struct GgufLayers {
  std::string_view gguf;
  std::string_view hugging_face;
  std::vector<GgufName> names;
};

struct GgufArchitecture {
  std::vector<GgufName> names;  // outside of layers
  std::vector<GgufLayers> layers;
};

/// The names for a file. Throws Error for an architecture that heed does not read, naming those it does.
const GgufArchitecture& gguf_architecture(const GgufFile& file);

/// What the file calls a kind of model: general.architecture.
std::string gguf_architecture_name(const GgufFile& file);

/// Which of BERT's descendants a file of the architecture "bert" holds: bert, roberta, xlm-roberta or
/// distilbert.
std::string gguf_bert_kind(const GgufFile& file);

}  // namespace heed::io
