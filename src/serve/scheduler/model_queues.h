// What one model does in its turn: a batch of texts, or a step of a generation.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "serve/scheduler/scheduler.h"

namespace heed::serve {

/// Batches of texts of all requests that wait for the same work: each turn begins with the texts of the
/// request that has waited longest for its turn, and others fill the batch. A batch has as many tokens as
/// take about kBatchSeconds, at most SchedulerLimits::batch_tokens.
class EncoderQueue : public ModelQueue {
 public:
  EncoderQueue(const ServedModel& model, const SchedulerLimits& limits) : model_(model), limits_(limits) {}
  void add(std::shared_ptr<EncoderJob> job);
  bool turn() override;

 private:
  struct Text {
    EncoderJob* job;
    std::size_t index;
  };
  static constexpr double kBatchSeconds = 0.1;
  static constexpr std::int64_t kFirstTokens = 512;  // of a batch, until it is known how long they take
  std::int64_t most_tokens() const;
  std::vector<Text> next_batch();
  void compute(const std::vector<Text>& batch);
  void compute_or_fail(const std::vector<Text>& batch);

  const ServedModel& model_;
  const SchedulerLimits& limits_;
  double token_seconds_ = 0;  // of the processor, lately
  std::deque<std::shared_ptr<EncoderJob>> jobs_;
};

/// Passes, one in a turn. Of the jobs with several, kMostOpen take turns; others begin when one has ended.
class PassQueue : public ModelQueue {
 public:
  PassQueue(const ServedModel&, const SchedulerLimits&) {}
  void add(std::shared_ptr<PassJob> job) { jobs_.push_back(std::move(job)); }
  bool turn() override;

 private:
  static constexpr std::size_t kMostOpen = 4;  // as each holds what its passes share
  std::deque<std::shared_ptr<PassJob>> jobs_;
};

/// All generations of a model.
class GenerationQueue : public ModelQueue {
 public:
  GenerationQueue(const ServedModel& model, const SchedulerLimits& limits)
      : generation_(generation_of(model, limits.generation)) {}
  void add(std::shared_ptr<GenerationJob> job);
  bool turn() override;

 private:
  /// A request of a job.
  struct Part {
    std::shared_ptr<GenerationJob> job;
    std::size_t index = 0;
    Clock::time_point last;  // token, or when its prompt began to be read
    bool has_tokens = false;
  };
  static Generation generation_of(const ServedModel& model, const GenerationLimits& limits) {
    if (const DecoderModel* decoder = model.decoder()) return Generation(*decoder, limits);
    return Generation(*model.encoder_decoder(), limits);
  }
  /// What is left of a job.
  struct OpenJob {
    std::shared_ptr<GenerationJob> job;
    std::uint64_t first = 0, last = 0;  // of its requests, which are neighbors
    std::size_t unfinished = 0;
  };
  void cancel_stopped();
  void drop(const GenerationJob& job);
  void on_token(const GeneratedToken& token);
  void finish(std::uint64_t request);

  Generation generation_;
  std::map<std::uint64_t, Part> parts_;
  std::map<const GenerationJob*, OpenJob> open_;
};

/// Tells a job that will not go on: it is late, nobody waits for it, or the files of its model have changed.
bool has_ended(Job& job);

}  // namespace heed::serve
