// Generation: continues many prompts with one decoder, or decodes many sources with one encoder-decoder, a
// step at a time. Requests come and go between steps (continuous batching; Yu et al. 2022, "Orca"), long
// prompts are read in pieces between the tokens of others (chunked prefill; Agrawal et al. 2023, "SARATHI"),
// and what prompts begin with in common is read once. The tokens and scores of a request are, to the bit,
// those that search_prompts() gives it alone: they depend neither on other requests nor on when it came.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "heed/export.h"
#include "heed/generate/options.h"
#include "heed/generate/search.h"

namespace HEED_API heed {

struct GenerationLimits {
  /// Sequences that are decoded at once: each beam and each of num_return_sequences is one. Requests that do
  /// not fit wait in the order in which they came; one that never fits runs alone.
  std::int64_t rows = 16;
  /// Tokens of prompts that are read in one step, all requests together.
  std::int64_t prompt_tokens = 256;
  /// Bytes for what is remembered of finished requests, for others that begin alike; those used least
  /// recently are forgotten first. 0: nothing is, but a prompt still takes what it has in common with one
  /// that runs.
  std::size_t cached_bytes = 0;
};

struct GenerationRequest {
  std::vector<std::int64_t> prompt = {};  ///< at least one token
  GenerationOptions options = {};
  std::uint64_t sample_id = 0;  ///< selects the random numbers of sampling, as SearchHooks::sample_ids
  std::int64_t top = 0;         ///< GeneratedToken::top has this many alternatives
  /// As in search_prompts(), for row 0; what the hooks refer to must live until the request is finished. They
  /// must not call the generation.
  /// Requests with `capture` or `taps` share no pass with others, and their prompts are read at once.
  /// `sample_ids` has no effect; `sources`, if given, has one row.
  SearchHooks hooks = {};
  /// What an encoder-decoder reads, and a decoder does not have: either the ids of a source, or features of
  /// one row, as search_features() takes them. The prompt, which may then be empty, is the decoder's.
  std::vector<std::int64_t> source = {};
  Tensor features = {};
};

/// A token as it is generated, with greedy search and sampling. The tokens of beams are known at the end
/// only.
struct GeneratedToken {
  std::uint64_t request = 0;  ///< as add() returned it
  std::int64_t sequence = 0;  ///< of num_return_sequences
  std::int64_t id = 0;
  double log_probability = 0;  ///< of the model's distribution, before processors and temperature
  /// The tokens with the highest log-probabilities of that distribution, highest first.
  std::vector<std::pair<std::int64_t, double>> top = {};
};

/// Threads: one at a time; several generations of one model may run at once.
class Generation {
 public:
  /// The model must outlive the generation. Throws Error for a limit that is not positive (cached_bytes may
  /// be 0), and for a model without an output map.
  explicit Generation(const DecoderModel& model, const GenerationLimits& limits = {});
  /// The same, with results as of search_sources() and search_features(). Sources count among the tokens of
  /// prompts and are read whole; nothing is remembered of finished requests. The requests of a recurrent
  /// model share no pass.
  explicit Generation(const EncoderDecoderModel& model, const GenerationLimits& limits = {});
  ~Generation();
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  /// Takes a request, and returns its number. Throws Error for what search_prompts(), search_sources() or
  /// search_features() refuses, and for a source of a decoder.
  std::uint64_t add(GenerationRequest request);

  struct Step {
    std::vector<std::uint64_t> begun;     ///< requests that waited until now
    std::vector<GeneratedToken> tokens;   ///< in the order in which each sequence got them
    std::vector<std::uint64_t> finished;  ///< requests, for remove()
  };
  /// Generates one token for every sequence that runs, in one pass over all of them, and reads at most
  /// prompt_tokens of prompts, which may be a pass more; prompts that this ends get their first token. Empty
  /// when nothing is left to do. An error of a request (and Canceled, once its SearchHooks::stop is true) is
  /// thrown by remove(), not here: others go on.
  Step step();
  /// Whether nothing runs, nothing waits, and every finished request was told.
  bool idle() const;
  /// Ends a request with the tokens that it has, and frees its rows; the next step() tells that it is
  /// finished. Nothing happens if it is finished already. Throws Error for a request that is not known.
  void cancel(std::uint64_t request);
  /// Returns the results of a finished request, best first, and forgets it. Throws the Error that ended the
  /// request, and Error for one that is not finished or not known.
  std::vector<Hypothesis> remove(std::uint64_t request);
  std::int64_t running() const;  ///< requests whose prompts are read, in whole or in part
  std::int64_t waiting() const;  ///< requests that have not begun
  /// Tokens of the prompt that were not read again, as others had read them; 0 while it waits. Throws Error
  /// for a request that is not known.
  std::int64_t cached_tokens(std::uint64_t request) const;
  /// Bytes of what is remembered of finished requests: at most GenerationLimits::cached_bytes.
  std::size_t cached_bytes() const;

 private:
  class Requests;
  std::unique_ptr<Requests> requests_;
};

}  // namespace heed
