// Turns.
#include "serve/scheduler/model_queues.h"

#include <algorithm>
#include <ctime>
#include <numeric>

#include "core/pause_point.h"

namespace heed::serve {

using server::Counter;
using server::Gauge;
using server::Histogram;
using server::Metrics;

namespace {

// That of a computation, or what it says itself: of a constraint that no token meets, for example.
ApiError error_of(const Job& job, const std::exception& error) {
  const auto* known = dynamic_cast<const ApiError*>(&error);
  return known != nullptr ? *known : ApiError(job.failure, error.what());
}

// The first time that a job is computed, from `now` on.
void begin(Job& job, Clock::time_point now = Clock::now()) {
  if (std::exchange(job.has_begun, true)) return;
  Metrics& metrics = job.call->metrics();
  metrics.change(Gauge::waiting, -1);
  metrics.change(Gauge::running, 1);
  job.call->record.queue_seconds = std::chrono::duration<double>(now - job.queued).count();
  metrics.observe(Histogram::queue_seconds, job.call->record.queue_seconds);
}

void fail(Job& job, const std::exception& error) {
  if (!has_ended(job)) job.call->fail(error_of(job, error));
}

// Whether a job took what it was told; else it has failed.
template <class Tell>
bool told(Job& job, Tell tell) {
  try {
    tell();
    return true;
  } catch (const std::exception& error) {
    fail(job, error);
    return false;
  }
}

bool is_over(const Job& job) { return job.call->is_over() || job.call->is_late(); }

// Whether it takes more than a few milliseconds to write the results.
bool is_long(const std::vector<EncoderResult>& results) {
  constexpr std::size_t kNumbers = 50'000;
  std::size_t numbers = 0;
  for (const EncoderResult& one : results) numbers += one.numbers.size();
  return numbers > kNumbers;
}

// Of this thread, which waits in between for the turns of others.
double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

bool has_ended(Job& job) {
  if (job.call->is_over()) {
    job.call->fail(job.call->canceled());
    return true;
  }
  if (job.call->is_late()) {
    job.call->fail(ApiError(ErrorCode::too_late, "the request took longer than the server allows"));
    return true;
  }
  try {
    job.model->opened.require_unchanged_files();
    return false;
  } catch (const Error& error) {
    job.call->fail(ApiError(ErrorCode::changed_model, job.model->told(error)));
    return true;
  }
}

void EncoderQueue::add(std::shared_ptr<EncoderJob> job) {
  job->results.resize(job->texts.size());
  job->order.resize(job->texts.size());
  std::iota(job->order.begin(), job->order.end(), std::size_t{0});
  std::stable_sort(job->order.begin(), job->order.end(),
                   [&](std::size_t a, std::size_t b) { return job->texts[a].size() > job->texts[b].size(); });
  jobs_.push_back(std::move(job));
}

std::int64_t EncoderQueue::most_tokens() const {
  if (token_seconds_ == 0) return std::min(limits_.batch_tokens, kFirstTokens);
  const double tokens = std::min(kBatchSeconds / token_seconds_, static_cast<double>(limits_.batch_tokens));
  return static_cast<std::int64_t>(tokens);
}

std::vector<EncoderQueue::Text> EncoderQueue::next_batch() {
  const std::int64_t most = most_tokens();
  const EncoderJob& first = *jobs_.front();
  std::vector<Text> batch;
  std::int64_t longest = 0;
  for (const auto& job : jobs_) {
    if (job->work != first.work || job->recipe != first.recipe) continue;
    while (job->next < job->texts.size()) {
      const std::size_t index = job->order[job->next];
      const std::int64_t length = std::max(longest, job->texts[index].size());
      if (!batch.empty() && length * (std::ssize(batch) + 1) > most) break;
      longest = length;
      batch.push_back({job.get(), index});
      ++job->next;
    }
  }
  Metrics& metrics = first.call->metrics();
  metrics.observe(Histogram::batch_texts, static_cast<double>(batch.size()));
  metrics.observe(Histogram::batch_tokens, static_cast<double>(longest * std::ssize(batch)));
  return batch;
}

void EncoderQueue::compute(const std::vector<Text>& batch) {
  std::vector<Encoding> texts;
  std::int64_t longest = 0;
  for (const Text& text : batch) {
    begin(*text.job);
    texts.push_back(text.job->texts[text.index]);
    longest = std::max(longest, texts.back().size());
  }
  const PauseScope check([&] {
    if (std::all_of(batch.begin(), batch.end(), [](const Text& text) { return is_over(*text.job); }))
      throw Canceled();
  });
  const double started = processor_seconds();
  const EncoderJob& first = *batch.front().job;
  std::vector<EncoderResult> results = run_batch(model_, first.work, first.recipe, texts);
  const double seconds = (processor_seconds() - started) / static_cast<double>(longest * std::ssize(batch));
  token_seconds_ = token_seconds_ == 0 ? seconds : 0.7 * token_seconds_ + 0.3 * seconds;
  for (std::size_t i = 0; i < batch.size(); ++i)
    batch[i].job->results[batch[i].index] = std::move(results[i]);
}

// Text by text where one of several fails, so that the others do not fail with it.
void EncoderQueue::compute_or_fail(const std::vector<Text>& batch) {
  try {
    return compute(batch);
  } catch (const std::exception& error) {
    if (batch.size() == 1) {
      std::erase_if(jobs_, [&](const auto& job) {
        if (job.get() != batch.front().job) return false;
        fail(*job, error);  // 503 or 504 where nobody waits any more
        return true;
      });
      return;
    }
  }
  for (const Text& text : batch) {
    const auto is_its = [&](const auto& job) { return job.get() == text.job; };
    if (std::any_of(jobs_.begin(), jobs_.end(), is_its)) compute_or_fail({text});
  }
}

bool EncoderQueue::turn() {
  std::erase_if(jobs_, [](const auto& job) { return has_ended(*job); });
  if (jobs_.empty()) return false;
  compute_or_fail(next_batch());
  if (jobs_.empty()) return true;
  std::rotate(jobs_.begin(), jobs_.begin() + 1, jobs_.end());
  std::erase_if(jobs_, [](const auto& job) {
    if (job->next < job->texts.size()) return false;
    if (is_long(job->results)) {
      job->done_apart(job);
    } else {
      told(*job, [&] { job->done(std::move(job->results)); });
    }
    return true;
  });
  return true;
}

bool PassQueue::turn() {
  if (jobs_.empty()) return false;
  const std::shared_ptr<PassJob> job = std::move(jobs_.front());
  jobs_.pop_front();
  if (has_ended(*job)) return true;
  begin(*job);
  bool goes_on = false;
  const PauseScope check([&] {
    if (is_over(*job)) throw Canceled();
  });
  told(*job, [&] { goes_on = job->pass(); });
  if (!goes_on) return true;
  const std::size_t others = std::min(jobs_.size(), kMostOpen - 1);
  jobs_.insert(jobs_.begin() + static_cast<std::ptrdiff_t>(others), job);
  return true;
}

void GenerationQueue::add(std::shared_ptr<GenerationJob> job) {
  std::vector<std::uint64_t> added;
  try {
    job->prepare();
    for (std::size_t i = 0; i < job->requests.size(); ++i)
      added.push_back(generation_.add(std::move(job->requests[i])));
  } catch (const std::exception& error) {
    for (const std::uint64_t request : added) generation_.cancel(request);
    return job->call->fail(ApiError(ErrorCode::invalid, error.what()));
  }
  if (added.empty()) {
    told(*job, [&] { job->on_all(); });
    return;
  }
  open_[job.get()] = {job, added.front(), added.back(), added.size()};
  for (std::size_t i = 0; i < added.size(); ++i) parts_[added[i]] = {job, i, Clock::now(), false};
}

void GenerationQueue::cancel_stopped() {
  std::vector<std::shared_ptr<GenerationJob>> ended;
  for (const auto& [key, open] : open_) {
    if (has_ended(*open.job)) ended.push_back(open.job);
  }
  for (const auto& job : ended) drop(*job);
}

// Forgets a job, which has been told why.
void GenerationQueue::drop(const GenerationJob& job) {
  const auto open = open_.find(&job);
  if (open == open_.end()) return;
  const auto first = parts_.lower_bound(open->second.first), after = parts_.upper_bound(open->second.last);
  for (auto part = first; part != after; ++part) generation_.cancel(part->first);
  parts_.erase(first, after);
  open_.erase(open);
}

bool GenerationQueue::turn() {
  cancel_stopped();
  if (generation_.idle()) return false;
  const Clock::time_point now = Clock::now();
  const Generation::Step step = generation_.step();
  for (const std::uint64_t request : step.begun) {
    const auto found = parts_.find(request);
    if (found == parts_.end()) continue;
    found->second.last = now;
    begin(*found->second.job, now);
  }
  for (const GeneratedToken& token : step.tokens) on_token(token);
  for (const std::uint64_t request : step.finished) finish(request);
  return true;
}

void GenerationQueue::on_token(const GeneratedToken& token) {
  const auto found = parts_.find(token.request);
  if (found == parts_.end()) return;  // of a canceled request
  Part& part = found->second;
  Metrics& metrics = part.job->call->metrics();
  metrics.observe(part.has_tokens ? Histogram::token_seconds : Histogram::prefill_seconds,
                  seconds_since(part.last));
  metrics.add(Counter::generated_tokens, 1);
  part.last = Clock::now();
  part.has_tokens = true;
  const std::shared_ptr<GenerationJob> job = part.job;
  const bool good = told(*job, [&] {
    if (!job->on_token(part.index, token)) generation_.cancel(token.request);
  });
  if (!good) drop(*job);
}

void GenerationQueue::finish(std::uint64_t request) {
  const std::int64_t cached = generation_.cached_tokens(request);
  const auto found = parts_.find(request);
  const Part part = found != parts_.end() ? found->second : Part();
  if (found != parts_.end()) parts_.erase(found);
  std::vector<Hypothesis> results;
  try {
    results = generation_.remove(request);
  } catch (const std::exception& error) {
    if (part.job == nullptr) return;
    fail(*part.job, error);
    return drop(*part.job);
  }
  if (part.job == nullptr) return;  // it was dropped
  part.job->call->metrics().add(Counter::cached_tokens, cached);
  const bool last = --open_.at(part.job.get()).unfinished == 0;
  const bool good = told(*part.job, [&] {
    part.job->on_finished(part.index, results.front(), cached);
    if (last) part.job->on_all();
  });
  if (last || !good) drop(*part.job);
}

}  // namespace heed::serve
