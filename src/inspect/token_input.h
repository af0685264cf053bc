// Token ids as a row of a model's inputs, and labels of the positions of each kind of attention.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "heed/models/model.h"
#include "heed/plot/picture.h"
#include "heed/text/tokenizer.h"

namespace heed::inspect {

using TokensByKind = std::map<std::string, AttentionTokens, std::less<>>;

/// [1, T]
Tensor one_row(const std::vector<std::int64_t>& ids);

/// The tokens of ids: `<73>` for an id that the tokenizer lacks, as models have more rows than tokens;
/// numbers where there is no tokenizer.
std::vector<std::string> token_names(const Tokenizer* tokenizer, const std::vector<std::int64_t>& ids);

/// The words of a text with their tokens; those that add no text, such as an end token, belong to none.
std::vector<QueryGroup> words_of(const std::vector<std::int64_t>& ids, const Tokenizer& tokenizer);

/// The ids of a text for the tower of a model of texts and images, padded to the length that it reads.
std::vector<std::int64_t> tower_ids(const EncoderModel& tower, const Tokenizer& tokenizer,
                                    const std::string& text);

/// Labels of an encoder-decoder that reads `fed`; an empty source has none. The rows of cross-attention are
/// `target`, the tokens that are produced: the position that predicts a token attends for it.
TokensByKind encoder_decoder_tokens(const std::vector<std::string>& source,
                                    const std::vector<std::string>& target,
                                    const std::vector<std::string>& fed);

/// Tokens for readers: those of byte-level vocabularies as characters, with `·` for a space in front; bytes
/// that belong to no whole character, there and in SentencePiece's `<0xE2>`, as `\xe2`. Others, and all
/// without a tokenizer, are unchanged.
std::vector<std::string> shown_tokens(const std::vector<std::string>& tokens, const Tokenizer* tokenizer);

}  // namespace heed::inspect
