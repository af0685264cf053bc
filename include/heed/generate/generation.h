// Generation: continues many prompts with one decoder, or decodes many sources with one encoder-decoder, a
// step at a time. Requests come and go between steps (continuous batching; Yu et al. 2022, "Orca"), long
// prompts are read in pieces between the tokens of others (chunked prefill; Agrawal et al. 2023, "SARATHI"),
// and a common prefix of prompts is read once. The tokens and scores of a request are bit for bit those of
// search_prompts() for this request alone: they do not depend on other requests or on the time of arrival.
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
  /// Sequences that are decoded at once; each beam and each of num_return_sequences is one. Requests that do
  /// not fit wait in order of arrival. A request that never fits runs alone.
  std::int64_t rows = 16;
  /// Tokens of prompts that are read in one step, all requests together.
  std::int64_t prompt_tokens = 256;
  /// Bytes of the prefix cache, which keeps the states of finished requests for others with the same
  /// beginning; the least recently used are evicted first. 0: no cache, but a prompt still shares its prefix
  /// with a running request.
  std::size_t cached_bytes = 0;
};

struct GenerationRequest {
  std::vector<std::int64_t> prompt = {};  ///< at least one token
  GenerationOptions options = {};
  std::uint64_t sample_id = 0;  ///< selects the random numbers of sampling, as SearchHooks::sample_ids
  std::int64_t top = 0;         ///< GeneratedToken::top has this many alternatives
  /// As in search_prompts(), for row 0. Objects that the hooks refer to must live until the request is
  /// finished. Hooks must not call the generation. Requests with `capture` or `taps` share no pass with
  /// others, and their prompts are read at once, unless `taps_in_pieces`. `sample_ids` has no effect;
  /// `sources`, if given, has one row.
  SearchHooks hooks = {};
  bool taps_in_pieces = false;  ///< `taps` listens to each piece of a prompt, from Taps::first_position() on
  /// The source, for an encoder-decoder only: either token ids, or features of one row, as search_features()
  /// takes them. The prompt is then the decoder's and may be empty.
  std::vector<std::int64_t> source = {};
  Tensor features = {};
};

/// A generated token, for greedy search and sampling. With beam search, tokens are known only at the end.
struct GeneratedToken {
  std::uint64_t request = 0;  ///< as add() returned it
  std::int64_t sequence = 0;  ///< of num_return_sequences
  std::int64_t id = 0;
  double log_probability = 0;  ///< under the model's distribution, before processors and temperature
  /// The tokens with the highest log-probabilities of that distribution, highest first.
  std::vector<std::pair<std::int64_t, double>> top = {};
};

/// Threads: one at a time; several generations of one model may run at once.
class Generation {
 public:
  /// The model must outlive the generation. Throws Error for a limit that is not positive (cached_bytes may
  /// be 0), and for a model without an output map.
  explicit Generation(const DecoderModel& model, const GenerationLimits& limits = {});
  /// The same, with the results of search_sources() and search_features(). Sources count as tokens of prompts
  /// and are read whole; there is no prefix cache. The requests of a recurrent model do not share passes.
  explicit Generation(const EncoderDecoderModel& model, const GenerationLimits& limits = {});
  ~Generation();
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  /// Adds a request and returns its number. Throws Error for a request that search_prompts(),
  /// search_sources() or search_features() rejects, and for a decoder's request with a source.
  std::uint64_t add(GenerationRequest request);

  struct Step {
    std::vector<std::uint64_t> begun;     ///< requests that waited until now
    std::vector<GeneratedToken> tokens;   ///< in the order in which each sequence got them
    std::vector<std::uint64_t> finished;  ///< requests, for remove()
  };
  /// Generates one token for every running sequence, in one pass over all of them, and reads at most
  /// prompt_tokens tokens of prompts, which may take another pass. Prompts that are now complete get their
  /// first token. Empty when nothing is left to do. An error of one request (and Canceled, once its
  /// SearchHooks::stop is true) is thrown by remove(), not here: the other requests continue.
  Step step();
  /// Whether nothing runs, nothing waits, and every finished request was reported.
  bool idle() const;
  /// Ends a request with the tokens that it has, and frees its rows; the next step() reports it as finished.
  /// Does nothing if it is already finished. Throws Error for an unknown request.
  void cancel(std::uint64_t request);
  /// Returns the results of a finished request, best first, and forgets it. Throws the Error that ended the
  /// request, and Error for a request that is unfinished or unknown.
  std::vector<Hypothesis> remove(std::uint64_t request);
  std::int64_t running() const;  ///< requests whose prompts are read, in whole or in part
  std::int64_t waiting() const;  ///< requests that have not begun
  /// Tokens of the prompt that were reused from another request instead of read again; 0 while the request
  /// waits. Throws Error for an unknown request.
  std::int64_t cached_tokens(std::uint64_t request) const;
  /// Bytes of the prefix cache: at most GenerationLimits::cached_bytes.
  std::size_t cached_bytes() const;

 private:
  class Requests;
  std::unique_ptr<Requests> requests_;
};

}  // namespace heed
