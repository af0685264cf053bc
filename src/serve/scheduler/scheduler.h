// The computing thread: takes the requests of all models in turns, a step of a generation or a batch of an
// encoder's texts at a time.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "heed/generate/generation.h"
#include "serve/scheduler/encoder_batch.h"
#include "serve/served_model.h"

namespace heed::serve {

using server::Registry;

struct SchedulerLimits {
  std::int64_t batch_tokens = 4096;         ///< padded tokens of a batch of texts
  std::int64_t queue = 256;                 ///< requests that are accepted and not yet answered
  std::int64_t queue_tokens = 1024 * 1024;  ///< their tokens: those of texts and prompts
  GenerationLimits generation = {};
};

/// Work of one request. What it calls on the way is called on the computing thread.
struct Job {
  std::shared_ptr<Call> call;
  const ServedModel* model = nullptr;
  std::int64_t tokens = 0;
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
  std::vector<std::size_t> order;  // longest first
  std::size_t next = 0;            // in `order`
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

 private:
  class Queues;
  void run();

  const SchedulerLimits limits_;
  const std::shared_ptr<Registry> registry_;
  std::mutex mutex_;  // of what follows
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Job>> added_;
  std::int64_t accepted_ = 0, tokens_ = 0;
  double seconds_ = 1;  // that a request took lately
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace heed::serve
