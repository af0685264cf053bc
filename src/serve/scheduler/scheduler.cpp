// The queue, and the turns of its models.
#include "serve/scheduler/scheduler.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "serve/scheduler/model_queues.h"
#include "server/worker_threads.h"

namespace heed::serve {

namespace {
constexpr std::chrono::milliseconds kLookAtRetired{200};
constexpr double kHangs = 60;  // seconds; a slice takes milliseconds
}  // namespace

/// A queue whose turns take a slice at most: it goes on with its piece of work in its next one.
class SlicedQueue {
 public:
  explicit SlicedQueue(std::unique_ptr<ModelQueue> queue)
      : queue_(std::move(queue)), call_([this](const server::PausedCall::Pause& pause) { run(pause); }) {}

  void add(std::function<void()> added) {
    added_.push_back(std::move(added));
    has_work_ = true;
  }
  /// Returns false if there is nothing to do.
  bool turn() {
    if (!has_work_) return false;
    call_.resume();
    return true;
  }

 private:
  void run(const server::PausedCall::Pause& pause) {
    for (;; pause()) {
      for (const auto& one : std::exchange(added_, {})) one();
      const bool worked = queue_->turn();
      has_work_ = worked || !added_.empty();
    }
  }

  const std::unique_ptr<ModelQueue> queue_;
  std::vector<std::function<void()>> added_;
  bool has_work_ = false;
  server::PausedCall call_;  // ends first
};

/// The queues of each model, made when it is first needed.
class Scheduler::Queues {
 public:
  explicit Queues(const SchedulerLimits& limits) : limits_(limits) {}

  void add(std::shared_ptr<Job> job) {
    if (auto texts = std::dynamic_pointer_cast<EncoderJob>(job)) {
      texts->done_apart = [this](const std::shared_ptr<EncoderJob>& ended) { add_answer_of(ended); };
      return add_to(encoders_, std::move(texts));
    }
    if (auto pass = std::dynamic_pointer_cast<PassJob>(job)) return add_to(passes_, std::move(pass));
    add_to(generations_, std::dynamic_pointer_cast<GenerationJob>(job));
  }

  void retire(std::shared_ptr<const ServedModel> model) { retired_.push_back(std::move(model)); }
  bool has_retired() const { return !retired_.empty(); }
  /// Those that nobody has any more: whose jobs and calls have ended.
  void drop_retired() {
    std::erase_if(retired_, [this](const auto& model) {
      if (model.use_count() > 1) return false;
      drop_from(encoders_, model.get());
      drop_from(passes_, model.get());
      drop_from(generations_, model.get());
      return true;
    });
  }

  /// The turn of the next queue that has work.
  bool turn() {
    for (std::size_t i = 0; i < queues_.size(); ++i) {
      next_ = (next_ + 1) % queues_.size();
      if (queues_[next_]->turn()) return true;
    }
    return false;
  }

 private:
  template <class Kind>
  using Kinds = std::map<const ServedModel*, std::pair<Kind*, SlicedQueue*>>;

  /// Long answers have turns of their own, so that the texts of others do not wait until they are written.
  void add_answer_of(const std::shared_ptr<EncoderJob>& job) {
    auto writing = std::make_shared<PassJob>();
    writing->call = job->call;
    writing->model = job->model;
    writing->has_begun = true;
    writing->failure = job->failure;
    writing->pass = [job] {
      job->done(std::move(job->results));
      return false;
    };
    add_to(passes_, std::move(writing));
  }

  template <class Kind, class Work>
  void add_to(Kinds<Kind>& queues, std::shared_ptr<Work> job) {
    auto& [queue, turns] = queues[job->model];
    if (queue == nullptr) {
      auto made = std::make_unique<Kind>(*job->model, limits_);
      queue = made.get();
      turns = queues_.emplace_back(std::make_unique<SlicedQueue>(std::move(made))).get();
    }
    turns->add([queue = queue, job = std::move(job)] { queue->add(job); });
  }

  template <class Kind>
  void drop_from(Kinds<Kind>& queues, const ServedModel* model) {
    const auto found = queues.find(model);
    if (found == queues.end()) return;
    std::erase_if(queues_, [turns = found->second.second](const auto& one) { return one.get() == turns; });
    queues.erase(found);
  }

  const SchedulerLimits& limits_;
  ServedModels retired_;
  Kinds<EncoderQueue> encoders_;
  Kinds<PassQueue> passes_;
  Kinds<GenerationQueue> generations_;
  std::vector<std::unique_ptr<SlicedQueue>> queues_;
  std::size_t next_ = 0;
};

Scheduler::Scheduler(const SchedulerLimits& limits, std::shared_ptr<Registry> registry)
    : limits_(limits), registry_(std::move(registry)), thread_([this] { run(); }) {}

Scheduler::~Scheduler() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Scheduler::add(std::shared_ptr<Job> job, const std::function<void()>& accepted) {
  const std::lock_guard lock(mutex_);
  if (job->tokens > limits_.queue_tokens)
    throw ApiError(ErrorCode::too_large, "request: expected at most " + std::to_string(limits_.queue_tokens) +
                                             " tokens (--max-queue-tokens), got " +
                                             std::to_string(job->tokens));
  const bool has_place = accepted_ < limits_.queue;
  if (!has_place || tokens_ + job->tokens > limits_.queue_tokens) {
    ApiError error =
        has_place
            ? server::overloaded(std::to_string(tokens_) + " tokens of prompts and " +
                                     std::to_string(job->tokens) + " of this request",
                                 "--max-queue-tokens")
            : server::overloaded(std::to_string(accepted_) + " requests are not yet answered", "--max-queue");
    error.retry_after = std::clamp<std::int64_t>(std::llround(std::ceil(seconds_)), 1, 60);
    throw error;
  }
  if (accepted) accepted();
  ++accepted_;
  tokens_ += job->tokens;
  registry_->metrics.change(server::Gauge::waiting, 1);
  registry_->metrics.add(server::Counter::prompt_tokens, job->call->record.prompt_tokens);
  // The room is free again once nothing holds the job.
  added_.push_back(std::shared_ptr<Job>(job.get(), [this, job](Job*) {
    job->call->metrics().change(job->has_begun ? server::Gauge::running : server::Gauge::waiting, -1);
    const std::lock_guard leaving(mutex_);
    --accepted_;
    tokens_ -= job->tokens;
    seconds_ = 0.8 * seconds_ + 0.2 * seconds_since(job->queued);
  }));
  wake_.notify_one();
}

void Scheduler::retire(ServedModels models) {
  const std::lock_guard lock(mutex_);
  retired_.insert(retired_.end(), models.begin(), models.end());
  wake_.notify_one();
}

bool Scheduler::is_full() const {
  const std::lock_guard lock(mutex_);
  return accepted_ >= limits_.queue || tokens_ >= limits_.queue_tokens;
}

bool Scheduler::hangs() const {
  const Clock::rep begin = slice_;
  return begin != 0 && seconds_since(Clock::time_point(Clock::duration(begin))) > kHangs;
}

void Scheduler::run() {
  Queues queues(limits_);
  while (true) {
    std::deque<std::shared_ptr<Job>> added;
    {
      const std::lock_guard lock(mutex_);
      added.swap(added_);
      for (auto& model : std::exchange(retired_, {})) queues.retire(std::move(model));
    }
    for (auto& job : added) queues.add(std::move(job));
    added.clear();
    queues.drop_retired();
    slice_ = Clock::now().time_since_epoch().count();
    const bool worked = queues.turn();
    slice_ = 0;
    if (worked) continue;
    std::unique_lock lock(mutex_);
    if (ended_ && added_.empty()) return;
    const auto has_news = [this] { return ended_ || !added_.empty() || !retired_.empty(); };
    if (queues.has_retired()) {
      wake_.wait_for(lock, kLookAtRetired, has_news);
    } else {
      wake_.wait(lock, has_news);
    }
  }
}

}  // namespace heed::serve
