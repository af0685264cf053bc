// Texts as named input tensors of models, for forward and for the files that tokenize writes.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "heed/models/model.h"
#include "heed/text/tokenizer.h"

namespace heed::cli {

struct TextTensors {
  TensorMap tensors;
  std::map<std::string, std::string> metadata;  ///< tokens.N: the tokens of row N as a JSON list
};

/// Returns input_ids, attention_mask and possibly token_type_ids, i64 [B, T], padded on the right to the
/// longest.
TextTensors side_by_side(std::span<const Encoding> encodings, std::int64_t pad_id, bool type_ids);

/// Adds the decoder's targets for an encoder-decoder: labels, with -100 for padding, and decoder_input_ids,
/// which are the labels shifted right by one position.
void add_targets(TextTensors& texts, std::span<const Encoding> targets, const EncoderDecoderModel& model);

}  // namespace heed::cli
