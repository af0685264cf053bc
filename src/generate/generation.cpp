// Each request alone, in turns, a token at a time.
#include "heed/generate/generation.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/models/model.h"

namespace heed {
namespace {

std::vector<std::pair<std::int64_t, double>> best_of(std::span<const float> logits, std::int64_t count) {
  double largest = -INFINITY, sum = 0;
  for (const float x : logits) largest = std::max(largest, static_cast<double>(x));
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - largest);
  std::vector<std::pair<std::int64_t, double>> all;
  for (std::size_t i = 0; i < logits.size(); ++i)
    all.emplace_back(i, static_cast<double>(logits[i]) - largest - std::log(sum));
  const auto n = std::min<std::ptrdiff_t>(count, std::ssize(all));
  std::partial_sort(all.begin(), all.begin() + n, all.end(),
                    [](const auto& a, const auto& b) { return a.second > b.second; });
  all.resize(static_cast<std::size_t>(n));
  return all;
}

}  // namespace

class Generation::Requests {
 public:
  struct One {
    GenerationRequest request = {};
    std::vector<std::int64_t> ids = {};  // with the prompt
    std::unique_ptr<Decoding> decoding = {};
    std::int64_t most = 0;
    Hypothesis result = {};
    bool finished = false, told = false;
    std::exception_ptr error = {};
  };
  Requests(const DecoderModel& model, GenerationLimits limits) : model_(model), limits_(limits) {}
  const DecoderModel& model_;
  GenerationLimits limits_;
  std::map<std::uint64_t, One> all_;
  std::uint64_t next_ = 0;

  One& at(std::uint64_t request) {
    const auto found = all_.find(request);
    if (found == all_.end()) throw Error("generation: no such request");
    return found->second;
  }
  GeneratedToken advance(std::uint64_t number, One& one) {
    const NoGradients guard;
    if (one.decoding == nullptr) one.decoding = model_.decode(1);
    GenerationOptions options = one.request.options;
    options.max_new_tokens = 1;
    options.num_return_sequences = options.num_beams = 1;
    GeneratedToken token{.request = number};
    SearchHooks hooks = one.request.hooks;
    hooks.sample_ids = {one.request.sample_id};
    const std::size_t prompt = one.request.prompt.size();
    hooks.process = [&](std::size_t row, std::span<const std::int64_t> ids, std::span<float> scores) {
      token.top = best_of(scores, one.request.top);
      if (one.request.hooks.process) one.request.hooks.process(row, ids, scores);
    };
    hooks.is_finished = {};
    Context context{.stop = hooks.stop};
    const std::vector<std::vector<std::int64_t>> prompts{one.ids};
    const Hypothesis found = search(*one.decoding, prompts, options, hooks, context).front().front();
    token.id = found.ids.front();
    token.log_probability = found.log_probability;
    one.ids.push_back(token.id);
    one.result.ids.push_back(token.id);
    one.result.log_probability += found.log_probability;
    const auto& ends = options.eos_token_id;
    const bool stop = std::find(ends.begin(), ends.end(), token.id) != ends.end() ||
                      (one.request.hooks.is_finished &&
                       one.request.hooks.is_finished(0, std::span(one.ids).subspan(prompt)));
    const bool full = std::ssize(one.ids) >= one.most;
    one.finished = stop || full;
    one.result.finish_reason = stop ? FinishReason::stop : FinishReason::length;
    return token;
  }
};

Generation::Generation(const DecoderModel& model, const GenerationLimits& limits)
    : requests_(std::make_unique<Requests>(model, limits)) {}
Generation::~Generation() = default;

std::uint64_t Generation::add(GenerationRequest request) {
  check_prompt(requests_->model_, request.prompt, request.options);
  const auto prompt = std::ssize(request.prompt);
  Requests::One one{.request = std::move(request)};
  one.ids = one.request.prompt;
  one.most = std::min(resolved_max_length(one.request.options, prompt),
                      requests_->model_.max_positions().value_or(std::int64_t{1} << 40));
  requests_->all_.emplace(requests_->next_, std::move(one));
  return requests_->next_++;
}

Generation::Step Generation::step() {
  Step step;
  for (auto& [number, one] : requests_->all_) {
    if (!one.finished) {
      try {
        step.tokens.push_back(requests_->advance(number, one));
      } catch (...) {
        one.error = std::current_exception();
        one.finished = true;
      }
    }
    if (one.finished && !std::exchange(one.told, true)) step.finished.push_back(number);
  }
  return step;
}

bool Generation::idle() const {
  return std::all_of(requests_->all_.begin(), requests_->all_.end(),
                     [](const auto& each) { return each.second.told; });
}
void Generation::cancel(std::uint64_t request) { requests_->at(request).finished = true; }
std::vector<Hypothesis> Generation::remove(std::uint64_t request) {
  Requests::One one = std::move(requests_->at(request));
  requests_->all_.erase(request);
  if (one.error) std::rethrow_exception(one.error);
  return {std::move(one.result)};
}
std::int64_t Generation::running() const { return std::ssize(requests_->all_); }
std::int64_t Generation::waiting() const { return 0; }
std::int64_t Generation::cached_tokens(std::uint64_t) const { return 0; }
std::size_t Generation::cached_bytes() const { return 0; }

}  // namespace heed
