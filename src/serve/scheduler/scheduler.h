// The computing thread: takes the requests of all models in turns, a step of a generation or a batch of an
// encoder's texts at a time. A turn that takes longer than a slice goes on when the others have had theirs.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "heed/generate/generation.h"
#include "serve/served_model.h"

namespace heed::serve {

using server::Registry;

struct SchedulerLimits {
  std::int64_t batch_tokens = 4096;             ///< padded tokens of a batch of texts
  std::int64_t queue = 256;                     ///< requests that are accepted and not yet answered
  std::int64_t queue_tokens = 1024 * 1024;      ///< their tokens: those of texts and prompts
  std::optional<std::int64_t> new_tokens = {};  ///< of an answer, whatever its request asks for
  GenerationLimits generation = {};
};

/// What an encoder does with a batch of texts.
enum class EncoderWork : std::uint8_t {
  vectors,  ///< [D]: embed() by a recipe
  tokens,   ///< [T, D]: embed_tokens()
  sparse,   ///< max over the tokens of log(1 + relu(logit)), for every entry of the vocabulary; those above 0
  logits,   ///< [labels] of a sequence head
  token_logits,  ///< [T, labels] of a token head
};

/// Of one text. The result does not depend on the other texts of the batch.
struct EncoderResult {
  std::vector<float> numbers;
  std::vector<std::int64_t> indices = {};  ///< of `sparse`: the entry of each number
  std::int64_t width = 0;                  ///< D, or labels
};

/// `recipe`: of vectors; `taps`, which may be null, too. The model has the head that the work needs.
std::vector<EncoderResult> run_batch(const ServedModel& model, EncoderWork work,
                                     const EmbeddingRecipe* recipe, std::span<const Encoding> texts,
                                     Taps* taps = nullptr);

/// Work of one request. What it calls on the way is called on the computing thread.
struct Job {
  std::shared_ptr<Call> call;
  const ServedModel* model = nullptr;
  std::int64_t tokens = 0;  ///< that count in SchedulerLimits::queue_tokens
  Clock::time_point queued = Clock::now();
  bool has_begun = false;
  ErrorCode failure = ErrorCode::computation;  ///< what an error of its computation is
  virtual ~Job() = default;
};

/// Texts for an encoder.
struct EncoderJob : Job {
  EncoderWork work = EncoderWork::vectors;
  const EmbeddingRecipe* recipe = nullptr;  ///< of vectors; of the model
  std::vector<Encoding> texts;
  std::function<void(std::vector<EncoderResult>)> done;

  // Of the scheduler.
  std::vector<EncoderResult> results;
  std::vector<std::size_t> order;                               // longest first
  std::size_t next = 0;                                         // in `order`
  std::function<void(std::shared_ptr<EncoderJob>)> done_apart;  // beside the turns of the encoder
};

/// Prompts for a decoder, or sources for an encoder-decoder, each of which is continued once.
struct GenerationJob : Job {
  std::vector<GenerationRequest> requests;
  /// Before the requests are taken: may add some. Throws Error.
  virtual void prepare() {}
  /// A token of a request by its index; false ends that request.
  virtual bool on_token(std::size_t index, const GeneratedToken& token) = 0;
  virtual void on_finished(std::size_t index, const Hypothesis& result, std::int64_t cached_tokens) = 0;
  /// After the last of them.
  virtual void on_all() = 0;
};

/// Forward passes, which answer the call themselves.
struct PassJob : Job {
  /// One of them; false: it was the last.
  std::function<bool()> pass;
};

/// What one model has to do. All but the constructor is called by the computing thread.
class ModelQueue {
 public:
  virtual ~ModelQueue() = default;
  /// Does one piece of work. Returns false if there is none.
  virtual bool turn() = 0;
};

/// Threads: add() from any.
class Scheduler {
 public:
  Scheduler(const SchedulerLimits& limits, std::shared_ptr<Registry> registry);
  /// Ends with what has been accepted: all of it is stopped by then.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Throws ApiError (429) if too much waits. `accepted` is called before anything is computed.
  void add(std::shared_ptr<Job> job, const std::function<void()>& accepted = {});
  /// Forgets what it keeps for these models, once nobody else has them: no request is left.
  void retire(ServedModels models);
  /// Whether add() would refuse any request.
  bool is_full() const;
  /// Whether the computing thread began a slice that it should have ended long ago.
  bool hangs() const;

 private:
  class Queues;
  void run();

  const SchedulerLimits limits_;
  const std::shared_ptr<Registry> registry_;
  std::atomic<Clock::rep> slice_{0};  // when it began; 0: none has
  mutable std::mutex mutex_;          // of what follows
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Job>> added_;
  ServedModels retired_;
  std::int64_t accepted_ = 0, tokens_ = 0;
  double seconds_ = 1;  // that a request took lately
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace heed::serve
