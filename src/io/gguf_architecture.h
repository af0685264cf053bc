// What a GGUF file calls the tensors of Hugging Face's models, and how llama.cpp's converter changed them.
#pragma once

#include <cstdint>
#include <optional>
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

/// The names under a general.architecture that tells them all; null for one that heed does not read.
const GgufArchitecture* gguf_architecture(std::string_view name);

/// Where a tensor of Hugging Face's files lies in a GGUF file, or the other way round.
struct GgufPlace {
  std::string name;
  GgufChange change = GgufChange::none;
  std::int64_t expert = 0;  ///< which part of GGUF's tensor, of GgufChange::experts
};
/// What Hugging Face's files call a tensor; that of experts has a # for the number of the expert. A tensor
/// that is in no table keeps its name.
GgufPlace hugging_face_place(const GgufArchitecture& architecture, const std::string& gguf);
/// The reverse, or nullopt where the architecture has no place for the tensor.
std::optional<GgufPlace> gguf_place(const GgufArchitecture& architecture, const std::string& hugging_face);

/// At which place of the file lies row i of a tensor whose rows were put in another order; empty: at place i.
/// `heads`: of queries, of keys for GgufChange::key_pairs.
std::vector<std::int32_t> gguf_row_order(GgufChange change, std::int64_t heads, std::int64_t rows);

/// What the file calls a kind of model: general.architecture.
std::string gguf_architecture_name(const GgufFile& file);

/// Which of BERT's descendants a file of the architecture "bert" holds: bert, roberta, xlm-roberta or
/// distilbert.
std::string gguf_bert_kind(const GgufFile& file);

}  // namespace heed::io
