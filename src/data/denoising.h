// The noise of denoising objectives: what an encoder-decoder reads, and what it has to give, made from a
// text's tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heed/random.h"
#include "heed/text/tokenizer.h"

namespace heed {

/// Random numbers of one stream, in order.
class Draws {
 public:
  explicit Draws(const RandomStream& stream) : stream_(stream) {}
  /// A whole number from 0 to limit - 1; `limit` must be small compared with 2^32.
  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(stream_.word(next_++)) * limit >> 32;
  }
  /// A number from Poisson's distribution, P(n) = mean^n e^-mean / n!, by inversion.
  std::int64_t poisson(double mean);
  /// True for each of the items that a random choice takes: `taken` out of `items`, one call an item.
  bool takes(std::int64_t& taken, std::int64_t items) {
    const bool take = below(items) < taken;
    if (take) --taken;
    return take;
  }

 private:
  RandomStream stream_;
  std::uint64_t next_ = 0;
};

/// How much noise a text gets.
struct NoiseAmount {
  double density = 0.15;   ///< share of the tokens that are hidden
  double span_length = 3;  ///< mean length of a span
};

/// Numbers of hidden tokens and of spans.
struct SpanCounts {
  std::int64_t tokens = 0;
  std::int64_t spans = 0;
};

/// T5's numbers for a text of `length` >= 2 tokens (random_spans_noise_mask of Raffel et al.'s code):
/// tokens = round(length * density), from 1 to length - 1; spans = round(tokens / span_length), at least 1
/// and at most as many as there are hidden and left tokens. Halves are rounded to even.
SpanCounts span_counts(std::int64_t length, const NoiseAmount& amount);
/// Which tokens are hidden: left and hidden spans alternate, beginning with a left one; the lengths of each
/// kind are a random partition of their sum into positive parts, all of which are equally likely.
std::vector<bool> random_spans(std::int64_t length, const NoiseAmount& amount, Draws& draws);

/// What the encoder reads and what the decoder gives.
struct NoisePair {
  std::vector<std::int64_t> input, target;
};

/// The tokens that noise needs of a vocabulary.
struct NoiseTokens {
  std::vector<std::int64_t> begin, end;  ///< special tokens before and after a text
  std::vector<std::int64_t> sentinels;   ///< <extra_id_0>, <extra_id_1>, ..., as many as there are
  std::int64_t mask = -1;                ///< -1: none
  std::vector<bool> full_stop;           ///< of each id: the token ends with a full stop
  std::vector<bool> begins_word;         ///< of each id: the token does not continue a word
};
NoiseTokens noise_tokens(const Tokenizer& tokenizer);
/// Of each id: whether it continues the word of the token before it, by the conventions of vocabularies: ##x
/// (WordPiece), or no mark of a word's beginning where others have it (SentencePiece, byte-level BPE).
std::vector<bool> word_continuations(const Tokenizer& tokenizer);

/// Raffel et al. 2020, "Exploring the limits of transfer learning with a unified text-to-text transformer",
/// section 3.1.4: in the input, each span of random_spans is replaced by one sentinel; the target is each
/// sentinel followed by the tokens of its span. Both are framed by the vocabulary's special tokens.
NoisePair corrupt_spans(std::span<const std::int32_t> text, const NoiseTokens& tokens,
                        const NoiseAmount& amount, Draws& draws);
/// The lengths of both sides for a text of `length` tokens.
std::pair<std::int64_t, std::int64_t> corrupted_lengths(std::int64_t length, const NoiseTokens& tokens,
                                                        const NoiseAmount& amount);

/// The text with its sentences in random order. A sentence ends with a token that ends with a full stop, if
/// the next token begins a word, and with the text.
std::vector<std::int64_t> permute_sentences(std::span<const std::int32_t> text, const NoiseTokens& tokens,
                                            Draws& draws);
/// Text infilling: spans whose lengths are drawn from Poisson's distribution, until they have
/// round(length * density) tokens (the last one is cut), at places of which all arrangements are equally
/// likely; each is replaced by one mask token. A span of length 0 inserts one; of those, no more are kept
/// than leave the result as long as the text.
std::vector<std::int64_t> infill(std::span<const std::int64_t> text, std::int64_t mask,
                                 const NoiseAmount& amount, Draws& draws);
/// Lewis et al. 2020, "BART: denoising sequence-to-sequence pre-training", section 2.2: sentence permutation
/// (if `permute`), then text infilling; the target is the text. Both are framed by special tokens.
NoisePair corrupt_bart(std::span<const std::int32_t> text, const NoiseTokens& tokens,
                       const NoiseAmount& amount, bool permute, Draws& draws);

}  // namespace heed
