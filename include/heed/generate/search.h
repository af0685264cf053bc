// Searches for the best continuations: greedy search, sampling and beam search over any Decoding, in batches,
// with the results of Hugging Face transformers 5.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/export.h"
#include "heed/generate/options.h"
#include "heed/tensor.h"

namespace HEED_API heed {

struct Context;
class DecoderModel;
class Decoding;
class EncoderDecoderModel;
class Taps;

/// Why a sequence ended.
enum class FinishReason : std::uint8_t {
  stop,       ///< an end token, SearchHooks::is_finished, on_token, or no token left that is allowed
  length,     ///< the maximum length of the options
  positions,  ///< the model's last position, before the maximum length of the options
};

/// Returns stop, length or positions.
std::string_view finish_reason_name(FinishReason reason);

/// One generated sequence.
struct Hypothesis {
  /// The new tokens, up to and including the first end token.
  std::vector<std::int64_t> ids;
  /// Sum of their log-probabilities, after the logits processors.
  double score = 0;
  /// Beam search: score / length^length_penalty, by which hypotheses are ranked. Otherwise equal to `score`.
  double beam_score = 0;
  /// `score` at temperature 1, whatever the temperature.
  double log_probability = 0;
  /// A last token forced by forced_eos_token_id does not count as an end token.
  FinishReason finish_reason = FinishReason::stop;
  /// Values of the captured taps, f32 [H, T, S]: row t has the attention weights of the step that generated
  /// token t. Keys that did not exist at that step (self-attention grows) are 0.
  TensorMap captured;
};

/// Hooks and settings of a search.
struct SearchHooks {
  /// Names of attention taps, in which `*` matches any characters:
  /// `decoder.layers.*.cross_attn.weights`. A pattern without a match is an Error.
  std::vector<std::string> capture = {};
  /// Sampling: a number per row that selects its random stream, which makes the result independent of the
  /// batch. Empty: the row's index.
  std::vector<std::uint64_t> sample_ids = {};
  /// The source tokens of each row, for encoder_no_repeat_ngram_size and encoder_repetition_penalty. Empty:
  /// the prompts.
  std::vector<std::vector<std::int64_t>> sources = {};
  /// Changes the scores [V] of the token after `ids`, which include the prompt: logits in greedy search and
  /// sampling, log-probabilities in beam search. Called after the options' own processors and before those of
  /// sampling, from any thread.
  std::function<void(std::size_t row, std::span<const std::int64_t> ids, std::span<float> scores)> process =
      {};
  /// Maximum length of a sequence, including the prompt, as limited by the model's positions.
  std::optional<std::int64_t> longest = {};
  /// Returns true if a row's new tokens so far end its sequence, in addition to end tokens. May be called
  /// from any thread.
  std::function<bool(std::size_t row, std::span<const std::int64_t> ids)> is_finished = {};
  /// Called with every token as it is generated, in greedy search and sampling: the row, the index of the
  /// sequence among those of the row, and the token. Returning false ends that sequence with this token.
  std::function<bool(std::size_t row, std::size_t sequence_index, std::int64_t id)> on_token = {};
  /// Listeners of every pass, including passes over sources; may be null. A decoding step passes them the
  /// values of its own tokens, from Taps::first_position() on. Must outlive the call.
  Taps* taps = nullptr;
  /// Cancels the search once true: the call throws Canceled. Also checked before every layer of the prompt's
  /// forward pass. Must outlive the call.
  const std::atomic<bool>* stop = nullptr;
};

/// Continues every prompt of at least one token (for encoder-decoders the start token). `decoding` has as
/// many rows; it is fresh, or it has read the same number of tokens of every prompt, but not all. Returns
/// num_return_sequences hypotheses per row, best first; fewer only if the options allow fewer. Finished rows
/// are removed from the batch. Throws Error if an option is out of range.
std::vector<std::vector<Hypothesis>> search(Decoding& decoding,
                                            std::span<const std::vector<std::int64_t>> prompts,
                                            const GenerationOptions& options, const SearchHooks& hooks,
                                            Context& context);
/// The same for prompts of equal length, i64 [B, P].
std::vector<std::vector<Hypothesis>> search(Decoding& decoding, const Tensor& prompt,
                                            const GenerationOptions& options, const SearchHooks& hooks,
                                            Context& context);

/// Throws Error for a prompt that search_prompts() rejects: an empty one, tokens outside the vocabulary, or
/// no position left for a new token.
void check_prompt(const DecoderModel& model, std::span<const std::int64_t> prompt,
                  const GenerationOptions& options);

/// Returns a warning about a sequence that ended at the model's last position: `stopped at the model's last
/// position (64) after 45 of 200 tokens`. `prompt_length` includes a decoder's start token.
std::string positions_warning(const Hypothesis& hypothesis, std::int64_t prompt_length,
                              const GenerationOptions& options);

/// Continues prompts of any length with a decoder, in batches of at most `batch_tokens` padded prompt tokens
/// (counted once per beam). Returns results in the order of the prompts. The result of a prompt does not
/// depend on the others. Sequences end at the model's last position. Throws Error for an empty prompt, tokens
/// outside the vocabulary, a prompt that leaves no position, and options out of range.
std::vector<std::vector<Hypothesis>> search_prompts(const DecoderModel& model,
                                                    std::span<const std::vector<std::int64_t>> prompts,
                                                    const GenerationOptions& options,
                                                    std::int64_t batch_tokens, const SearchHooks& hooks = {});

/// Translates token ids: sources of any length, in batches of at most `batch_tokens` padded source tokens
/// (counted once per beam). Returns results in the order of the sources. Throws Error for an empty source,
/// one longer than the model's positions, and options out of range.
std::vector<std::vector<Hypothesis>> search_sources(const EncoderDecoderModel& model,
                                                    std::span<const std::vector<std::int64_t>> sources,
                                                    const GenerationOptions& options,
                                                    std::int64_t batch_tokens, const SearchHooks& hooks = {});

/// Transcribes audio or captions images. `features` is f32 [B, bins, frames], [B, samples] or [B, channels,
/// height, width]. Every row is decoded from the same prompt (if empty, from decoder_start_token_id), in
/// batches of at most `batch_tokens` of the last axis (counted once per beam). Options about the source's
/// tokens (encoder_no_repeat_ngram_size, encoder_repetition_penalty) have no effect. Throws Error for
/// features of another shape, a prompt that leaves no position or has ids outside the vocabulary, and options
/// out of range.
std::vector<std::vector<Hypothesis>> search_features(const EncoderDecoderModel& model, const Tensor& features,
                                                     const std::vector<std::int64_t>& decoder_prompt,
                                                     const GenerationOptions& options,
                                                     std::int64_t batch_tokens,
                                                     const SearchHooks& hooks = {});

}  // namespace heed
