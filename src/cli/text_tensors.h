// Texts as the named tensors that models take: what forward feeds, and what tokenize writes for it.
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

/// input_ids, attention_mask and perhaps token_type_ids i64 [B, T], filled up on the right to the longest.
TextTensors side_by_side(std::span<const Encoding> encodings, std::int64_t pad_id, bool type_ids);

/// Adds the targets of the decoder of an encoder-decoder: labels, -100 where there is no token, and
/// decoder_input_ids, which are the labels one place later.
void add_targets(TextTensors& texts, std::span<const Encoding> targets, const EncoderDecoderModel& model);

}  // namespace heed::cli
