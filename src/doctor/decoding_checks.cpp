// Checks of decoding: a cached step equals the full pass, reordered beams continue what they took over, and
// the decoder begins with the token of its training.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "doctor/examination.h"
#include "heed/generate/options.h"
#include "heed/ops/shape.h"

namespace heed::doctor {
namespace {

constexpr std::int64_t kPrompt = 8;
constexpr std::int64_t kSteps = 4;
// Relative to the largest logit. A step and a full pass add the same numbers, in an order that may differ.
constexpr double kStepRounding = 1e-4;

Tensor columns(const Tensor& ids, std::int64_t begin, std::int64_t end) {
  return slice(ids, 1, begin, end).contiguous();
}

// Why the model does not decode; empty if it does.
std::string why_not_decoded(Examination& e) {
  if (!e.decodes()) return "the model does not decode";
  if (e.length(kPrompt + kSteps) < kPrompt + kSteps) return "the model has too few positions";
  return e.full_logits(e.ids(1, 1)).defined() ? "" : "the model has no output map";
}

constexpr const char* kSources[] = {"The old dog slept near the door.",
                                    "She wrote that the river was high again.",
                                    "In the morning he walked down to the water."};
constexpr std::int64_t kMostTarget = 16;
constexpr double kBetterStart = 0.5;  // nats of a sentence, in the mean, by which another start must be surer
constexpr double kSureOfToken = -0.75;  // mean log-probability of a token that a trained model reaches

struct Guess {
  double log_probability = 0;
  std::int64_t tokens = 0;
};

// Greedy search from `start` for a source, as far as kMostTarget tokens.
Guess greedy(const EncoderDecoderModel& model, const std::vector<std::int64_t>& source, std::int64_t start) {
  Context context;
  const Tensor ids = Tensor::from(source, {1, std::ssize(source)});
  const auto decoding = model.decode({.ids = ids, .mask = Tensor::full(ids.shape(), 1, DType::i64)}, context);
  Guess guess;
  for (std::int64_t next = start;
       guess.tokens < kMostTarget && (guess.tokens == 0 || next != model.eos_id());) {
    const std::vector<float> logits =
        decoding->step(Tensor::from(std::vector<std::int64_t>{next}, {1, 1}), context).to_vector<float>();
    const auto best = std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit - *best));
    guess.log_probability -= std::log(sum);
    ++guess.tokens;
    next = best - logits.begin();
  }
  return guess;
}

}  // namespace

// A wrong start is a token that the decoder never began with in training, so that it is less sure of what
// follows: another special token that makes it surer of every sentence is the right one.
Finding check_decoder_start(Examination& e) {
  const auto* model = as<EncoderDecoderModel>(e.model());
  if (model == nullptr) return skip("the model has no decoder with a source");
  if (model->input().kind != InputKind::tokens || e.tokenizer() == nullptr)
    return skip("no text to decode from");
  GenerationOptions options;
  if (e.checked.files) options = load_generation_options(*e.checked.files);
  if (options.forced_bos_token_id) return skip("the first token is forced");
  const std::int64_t start = options.decoder_start_token_id.value_or(model->decoder_start_id());
  std::set<std::int64_t> starts{start, model->pad_id(), model->eos_id()};
  if (const auto bos = e.tokenizer()->bos_id()) starts.insert(*bos);
  std::vector<std::vector<std::int64_t>> sources;
  for (const char* source : kSources) {
    sources.push_back(e.tokenizer()->encode(source).ids);
    for (const std::int64_t id : sources.back()) {
      if (id >= e.id_limit()) return skip("the tokenizer has ids that the model lacks");
    }
    if (std::ssize(sources.back()) > e.length(std::ssize(sources.back())))
      return skip("the model has too few positions");
  }
  std::vector<Guess> own;
  double total = 0;
  for (const auto& source : sources) {
    own.push_back(greedy(*model, source, start));
    total += own.back().log_probability;
  }
  const auto named = [&](std::int64_t id) { return fmt::format("{} ({})", id, e.tokenizer()->token(id)); };
  Finding found{.measurement = fmt::format("{} sentences from {}: log-probability {:.2f}", own.size(),
                                           named(start), total),
                .values = {{"log_probability", total}}};
  for (const std::int64_t other : starts) {
    if (other == start || other < 0 || other >= e.id_limit()) continue;
    double sum = 0;
    std::int64_t tokens = 0, better = 0;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const Guess guess = greedy(*model, sources[i], other);
      sum += guess.log_probability;
      tokens += guess.tokens;
      better += guess.log_probability > own[i].log_probability;
    }
    const double least = total + kBetterStart * static_cast<double>(sources.size());
    if (better < std::ssize(sources) || sum < least || sum < kSureOfToken * static_cast<double>(tokens))
      continue;
    found.status = CheckStatus::warning;
    found.measurement += fmt::format(", from {}: {:.2f}", named(other), sum);
    found.advice =
        "decoder_start_token_id is not the token of training: set it to the one that the model is surer of";
    return found;
  }
  return found;
}

Finding check_cache(Examination& e) {
  if (const std::string reason = why_not_decoded(e); !reason.empty()) return skip(reason);
  const Tensor ids = e.ids(1, kPrompt + kSteps);
  const auto decoding = e.decode(1);
  double worst = 0;
  std::int64_t worst_step = 0;
  for (std::int64_t step = 0; step <= kSteps; ++step) {
    Context context;
    const std::int64_t end = kPrompt + step;
    const Tensor cached =
        decoding->step(step == 0 ? columns(ids, 0, end) : columns(ids, end - 1, end), context);
    const double difference = relative_difference(e.full_logits(columns(ids, 0, end)), cached);
    if (difference > worst) {
      worst = difference;
      worst_step = step;
    }
  }
  Finding found{
      .measurement = fmt::format("{} steps differ from the full pass by {} at most", kSteps, percent(worst)),
      .values = {{"difference", worst}}};
  if (worst <= kStepRounding) return found;
  found.status = CheckStatus::failed;
  found.measurement += worst_step == 0 ? ", the prompt already" : fmt::format(", at step {}", worst_step);
  found.advice =
      "look at the positions of the new token and of the keys in the cache, and at whether keys are kept "
      "rotated";
  return found;
}

Finding check_beams(Examination& e) {
  if (const std::string reason = why_not_decoded(e); !reason.empty()) return skip(reason);
  const std::vector<std::int64_t> from{2, 0, 0, 1};
  const auto rows = static_cast<std::int64_t>(from.size());
  const Tensor prompts = e.ids(3, kPrompt), next = e.ids(rows, 1);
  Context context;
  const auto beams = e.decode(3);
  beams->step(prompts, context);
  beams->reorder(from);
  const Tensor continued = beams->step(next, context);
  const auto afresh = e.decode(rows);
  afresh->step(gather(prompts, 0, Tensor::from(from, {rows})), context);
  const double difference = relative_difference(afresh->step(next, context), continued);
  Finding found{
      .measurement = fmt::format("reordered rows differ from decoding afresh by {}", percent(difference)),
      .values = {{"difference", difference}}};
  if (difference <= kStepRounding) return found;
  found.status = CheckStatus::failed;
  found.advice = "what a part remembers is not reordered with its rows (PartState::reorder)";
  return found;
}

}  // namespace heed::doctor
