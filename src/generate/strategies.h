// Searches of one prompt each: with one sequence per row (greedy or sampled), or with beams. A search knows
// which rows of a decoding its sequences have; generate/decoding_batch.h steps the rows of many searches
// together.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "generate/processors.h"
#include "heed/generate/generation.h"
#include "heed/generate/search.h"
#include "heed/models/model.h"
#include "heed/nn/context.h"
#include "heed/nn/tap.h"
#include "heed/random.h"

namespace heed::generate {

// AttentionRecorder: records attention at every step of a search, and the row of each step that each
// hypothesis came from. Rows change their indices (and parents) from step to step, so a hypothesis's
// attention can only be collected at its end, by following its chain of parents back. (Reading column i of
// the final order is a common bug.)

/// A hypothesis without tokens.
constexpr std::int64_t kRoot = -1;

class AttentionRecorder {
 public:
  /// Records in addition to the listeners that `context` already has.
  AttentionRecorder(const std::vector<std::string>& patterns, const Context& context);
  AttentionRecorder(const AttentionRecorder&) = delete;
  AttentionRecorder& operator=(const AttentionRecorder&) = delete;

  /// Executes a decoding step and keeps the values of the requested taps. If `lengths` is given, the step has
  /// the first lengths[i] ids of row i.
  Tensor step(Decoding& decoding, const Tensor& ids, std::span<const std::int64_t> lengths);
  /// Records that the last step generated a token for hypothesis `parent` in row `row`. Returns the extended
  /// hypothesis.
  std::int64_t extend(std::int64_t parent, std::int64_t row);
  /// Returns f32 [H, T, S] per tap, for the T tokens of a hypothesis.
  TensorMap collect(std::int64_t hypothesis) const;
  /// Throws Error if a pattern matched no tap.
  void require_all_fired() const { taps_.require_all_fired(); }
  /// Of the steps.
  Context& context() { return context_; }

 private:
  struct Node {
    std::int64_t parent;
    std::int64_t step;
    std::int64_t row;
  };
  void keep(const std::string& name, const Tensor& value);

  Taps taps_;
  Context context_;
  bool active_;
  std::vector<std::int64_t> lengths_;  // of the current step; empty if all rows have the length of `ids`
  std::vector<TensorMap> steps_;       // per step: the last position's attention, f32 [R, H, S]
  std::vector<Node> nodes_;
};

/// A prompt and how it is continued.
struct SearchTask {
  std::vector<std::int64_t> prompt;      ///< one or more tokens
  const GenerationOptions& options;      ///< checked; must outlive the search, as the hooks
  const SearchHooks& hooks;              ///< with `longest` of the model, and perhaps a source for every row
  std::size_t row = 0;                   ///< that the hooks know the prompt by
  std::uint64_t sample_id = 0;           ///< selects its random numbers
  std::uint64_t request = 0;             ///< GeneratedToken::request
  std::optional<std::int64_t> top = {};  ///< GeneratedToken::top; nothing: tokens are not told
};

/// A sequence that grows.
struct Sequence {
  std::vector<std::int64_t> ids;  ///< including the prompt
  std::int64_t row = 0;           ///< of the decoding, which has read the ids, or all but the last of them
  std::int64_t path = kRoot;      ///< AttentionRecorder::extend
};

class Search {
 public:
  /// Throws Error if no new token fits.
  explicit Search(SearchTask task);
  virtual ~Search() = default;
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  const SearchTask& task() const { return task_; }
  std::int64_t prompt_length() const { return processors_.prompt_length(); }
  std::int64_t max_length() const { return processors_.max_length(); }
  /// Those that go on; none once the search is done.
  virtual std::vector<Sequence*> sequences() = 0;
  /// Chooses what follows, given the logits [R, V] of all rows. From any thread.
  virtual void choose(const Tensor& logits) = 0;
  /// Adds what was chosen to the sequences, and tells the new tokens where the task wants that.
  virtual void advance(AttentionRecorder& recorder, std::vector<GeneratedToken>& tokens) = 0;
  /// Ends the sequences as they are.
  virtual void end(const AttentionRecorder& recorder) = 0;
  /// Of a search that is done; best first.
  virtual std::vector<Hypothesis> results(const AttentionRecorder& recorder) = 0;
  /// A sequence as its row had read it before the last advance().
  const Sequence& last_read() const { return last_read_; }

  std::exception_ptr error;  ///< what ended it, if that was no result

 protected:
  const GenerationOptions& options() const { return task_.options; }
  const Processors& processors() const { return processors_; }
  /// Returns why the sequence `ids`, which include the prompt, ends with its last token; nullopt if it goes
  /// on.
  std::optional<FinishReason> finished(std::span<const std::int64_t> ids) const;
  /// Returns the random numbers for the token after a sequence of this length. `sequence_index` distinguishes
  /// sequences of the same prompt.
  RandomStream random(std::int64_t length, std::int64_t sequence_index) const;
  std::vector<std::int64_t> new_ids(const Sequence& sequence) const {
    return {sequence.ids.begin() + prompt_length(), sequence.ids.end()};
  }

  Sequence last_read_;

 private:
  ProcessScores own_process() const;

  SearchTask task_;
  Processors processors_;
};

/// The search that the task's options ask for.
std::unique_ptr<Search> make_search(SearchTask task);
std::unique_ptr<Search> make_row_search(SearchTask task);
std::unique_ptr<Search> make_beam_search(SearchTask task);

/// The minimum number of scores to scan that is worth waking a thread.
constexpr std::int64_t kScoresPerThread = 32768;

/// Returns the maximum length of a sequence, including the prompt. Throws Error if no new token fits.
std::int64_t longest_sequence(std::int64_t prompt_length, const GenerationOptions& options,
                              std::optional<std::int64_t> longest);

/// Returns the maximum length that the positions allow. The last token is never fed, so it needs no position;
/// but unless the options set a length, sequences keep to the trained positions.
std::optional<std::int64_t> most_tokens(const GenerationOptions& options, const Model& model);

/// Returns Gumbel noise. The argmax of scores with such noise is a sample from their softmax, and the k
/// largest are a sample of k without replacement (Kool et al., "Stochastic beams and where to find them").
float gumbel(const RandomStream& random, std::uint64_t index);

/// Returns the options with the model's special tokens filled in. Throws Error if a decoder's prompt of that
/// many tokens leaves no room.
GenerationOptions with_special_tokens(GenerationOptions options, const EncoderDecoderModel& model,
                                      std::int64_t prompt_length);

/// Throws Error for ids outside the vocabulary.
void check_ids(std::span<const std::int64_t> ids, std::int64_t vocab_size, const std::string& where);
/// Throws Error for a source that is empty or longer than the model's positions.
void check_source(std::span<const std::int64_t> source, std::size_t index, const EncoderDecoderModel& model);
/// Throws Error for features that are not one row or several of what the model takes.
void check_features(const Tensor& features, const EncoderDecoderModel& model);

/// Sources as the encoder takes them, padded to the longest, with their mask.
ModelInput padded_sources(std::span<const std::vector<std::int64_t>> sources, std::int64_t pad_id);

/// Throws Error if the score is not a number.
void require_number(float score);

}  // namespace heed::generate
