// The loss by position, within the trained length and beyond it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <sstream>

#include "core/text_lines.h"
#include "doctor/examination.h"
#include "heed/error.h"
#include "heed/io/safetensors.h"
#include "heed/ops/loss.h"
#include "heed/ops/shape.h"

namespace heed::doctor {
namespace {

constexpr double kWork = 2e11;  // products of one run: some ten seconds of a slow core
constexpr std::int64_t kLongest = 2048;
constexpr double kRise = 0.5;       // nats beyond the trained length that are worth a warning
constexpr std::int64_t kParts = 4;  // of the trained length
// How far a right program's loss may be from the expected one, in nats.
constexpr double kRoundedLoss = 0.005;   // a loss is given with two decimals
constexpr double kHalfPrecision = 0.05;  // of a token, where the other program multiplies in 16 or 8 bits
constexpr double kOtherWindows = 0.05;  // of the loss, at most, where another program cuts the text elsewhere
constexpr double kDeviations = 3;       // standard errors of a mean

// -log p of the labels [T] by logits [T, V].
std::vector<double> losses(const Tensor& logits, const std::vector<std::int64_t>& labels) {
  const Tensor dense = logits.to(DType::f32).contiguous();
  const std::int64_t vocabulary = dense.size(1);
  std::vector<double> all;
  const float* row = dense.data<float>();
  for (const std::int64_t label : labels) {
    const float largest = *std::max_element(row, row + vocabulary);
    double sum = 0;
    for (std::int64_t v = 0; v < vocabulary; ++v) sum += static_cast<double>(std::exp(row[v] - largest));
    all.push_back(std::log(sum) + static_cast<double>(largest - row[label]));
    row += vocabulary;
  }
  return all;
}

struct Window {
  std::int64_t trained = 0;  // positions within the trained length
  std::int64_t length = 0;   // of a window, with those beyond
  std::int64_t count = 0;
};

Window choose_window(Examination& e, std::int64_t tokens) {
  std::int64_t parameters = 1;
  for (const Parameter& p : e.model().parameters()) parameters += p.tensor.numel();
  const auto budget =
      std::max<std::int64_t>(64, static_cast<std::int64_t>(kWork / static_cast<double>(parameters)));
  const std::int64_t trained = trained_length(e.model(), *e.tokenizer()).value_or(kLongest);
  const std::int64_t most = std::min({tokens - 1, budget, e.length(kLongest + kLongest / 2)});
  Window w{.trained = std::min({trained, most, kLongest})};
  w.length = trained > w.trained ? w.trained : std::min(most, trained + trained / 2);
  w.count = std::clamp<std::int64_t>(std::min(budget / w.length, (tokens - 1) / w.length), 1, 8);
  return w;
}

// The losses of two models that know only the text up to each token: how often each token came, mixed with
// guessing; and how often which token followed the one before it, mixed with that. The shares of the mixtures
// are those that Witten and Bell give to what is new ("The zero-frequency problem", 1991, method C).
class TextCounts {
 public:
  explicit TextCounts(std::int64_t vocabulary) : vocabulary_(vocabulary) {}
  void add(const std::vector<std::int64_t>& tokens) {
    for (const std::int64_t token : tokens) {
      const double alone = all_.mixed(token, 1.0 / static_cast<double>(vocabulary_));
      single_loss_ -= std::log(alone);
      pair_loss_ -= std::log(followers_[previous_].mixed(token, alone));
      ++read_;
      followers_[previous_].add(token);
      all_.add(token);
      previous_ = token;
    }
  }
  double singles() const { return single_loss_ / static_cast<double>(read_); }
  double pairs() const { return pair_loss_ / static_cast<double>(read_); }

 private:
  struct Followers {
    std::map<std::int64_t, std::int64_t> counts;
    std::int64_t total = 0;
    void add(std::int64_t token) {
      ++counts[token];
      ++total;
    }
    double mixed(std::int64_t token, double other) const {
      const auto seen = counts.find(token);
      const auto kinds = static_cast<double>(counts.size()), all = static_cast<double>(total);
      const double count = seen == counts.end() ? 0.0 : static_cast<double>(seen->second);
      return total == 0 ? other : (count + kinds * other) / (all + kinds);
    }
  };
  std::int64_t vocabulary_, previous_ = -1, read_ = 0;
  std::map<std::int64_t, Followers> followers_;
  Followers all_;
  double single_loss_ = 0, pair_loss_ = 0;
};

// Losses summed by position.
struct PositionLosses {
  std::vector<double> sum;
  std::vector<std::int64_t> count;
  std::vector<std::int64_t> labels = {};  // all of them
  bool whole_text = true;  // in one window: any program reads the same tokens after the same ones
  double squares = 0;      // of all losses
  double bytes = 0;        // of their text

  explicit PositionLosses(std::int64_t length)
      : sum(static_cast<std::size_t>(length), 0.0), count(static_cast<std::size_t>(length), 0) {}
  void add(const Tensor& logits, const std::vector<std::int64_t>& read) {
    labels.insert(labels.end(), read.begin(), read.end());
    const std::vector<double> all = losses(reshape(logits, {logits.size(1), logits.size(2)}), read);
    for (std::size_t t = 0; t < all.size(); ++t) {
      sum[t] += all[t];
      squares += all[t] * all[t];
      ++count[t];
    }
  }
  std::int64_t tokens(std::int64_t begin, std::int64_t end) const {
    return std::accumulate(count.begin() + begin, count.begin() + end, std::int64_t{0});
  }
  /// The standard error of the mean loss over all tokens.
  double error() const {
    const auto count_of_all = static_cast<double>(labels.size());
    const double average = std::accumulate(sum.begin(), sum.end(), 0.0) / count_of_all;
    return std::sqrt(std::max(0.0, squares / count_of_all - average * average) / count_of_all);
  }
  double mean(std::int64_t begin, std::int64_t end) const {
    return std::accumulate(sum.begin() + begin, sum.begin() + end, 0.0) /
           static_cast<double>(tokens(begin, end));
  }
};

Tensor row_of_ids(const std::vector<std::int64_t>& ids) {
  return Tensor::from(ids, {1, static_cast<std::int64_t>(ids.size())});
}

// Of windows of the text, one after the other.
PositionLosses losses_of_text(const DecoderModel& model, const std::vector<std::int64_t>& ids, double bytes,
                              const Window& w) {
  PositionLosses all(w.length);
  for (std::int64_t i = 0; i < w.count; ++i) {
    const auto begin = ids.begin() + i * w.length;
    Context context;
    const TensorMap outputs =
        model.forward({{"input_ids", row_of_ids({begin, begin + w.length})}}, {}, context);
    all.add(outputs.at("logits"), {begin + 1, begin + w.length + 1});
  }
  all.bytes = bytes * static_cast<double>(all.labels.size()) / static_cast<double>(ids.size());
  all.whole_text = w.count == 1 && w.length == w.trained && std::ssize(ids) == w.length + 1;
  return all;
}

struct EncodedPair {
  std::string source, target;
  std::vector<std::int64_t> source_ids, target_ids;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; next_line(stream, line);) lines.push_back(line);
  return lines;
}

// The lines of the text and of its translation, those that are empty left out.
std::vector<EncodedPair> pairs_of(Examination& e) {
  const std::vector<std::string> sources = lines_of(e.checked.text), targets = lines_of(e.checked.reference);
  if (sources.size() != targets.size())
    throw Error(fmt::format("lengths: expected a translation of each of the {} lines of the text, got {}",
                            sources.size(), targets.size()));
  std::vector<EncodedPair> pairs;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].empty() || targets[i].empty()) continue;
    pairs.push_back({sources[i], targets[i], e.tokenizer()->encode(sources[i]).ids,
                     e.tokenizer()->encode_target(targets[i]).ids});
  }
  return pairs;
}

// Consecutive pairs from `next` on, joined as long as source and target fit in a window; one in any case.
EncodedPair joined_pair(Examination& e, const std::vector<EncodedPair>& pairs, std::size_t& next,
                        std::int64_t length) {
  EncodedPair joined = pairs[next];
  std::size_t sources = joined.source_ids.size(), targets = joined.target_ids.size();
  const auto fits = [&](std::size_t size) { return static_cast<std::int64_t>(size) <= length; };
  const std::size_t first = next++;
  for (; next < pairs.size(); ++next) {
    sources += pairs[next].source_ids.size();
    targets += pairs[next].target_ids.size();
    if (!fits(sources) || !fits(targets)) break;
    joined.source += " " + pairs[next].source;
    joined.target += " " + pairs[next].target;
  }
  if (next == first + 1) return joined;
  joined.source_ids = e.tokenizer()->encode(joined.source).ids;
  joined.target_ids = e.tokenizer()->encode_target(joined.target).ids;
  return joined;
}

// Of translations, each as long as consecutive lines joined allow; a longer line is not read.
PositionLosses losses_of_pairs(Examination& e, const EncoderDecoderModel& model,
                               const std::vector<EncodedPair>& pairs, const Window& w) {
  PositionLosses all(w.length);
  std::size_t next = 0;
  for (std::int64_t i = 0; i < w.count && next < pairs.size();) {
    const EncodedPair pair = joined_pair(e, pairs, next, w.length);
    if (std::max(std::ssize(pair.source_ids), std::ssize(pair.target_ids)) > w.length) continue;
    const Tensor labels = row_of_ids(pair.target_ids);
    Context context;
    const TensorMap outputs = model.forward(
        {{"input_ids", row_of_ids(pair.source_ids)},
         {"decoder_input_ids", model.decoder_inputs(labels, CrossEntropyOptions().ignore_index)}},
        {}, context);
    all.add(outputs.at("logits"), pair.target_ids);
    all.whole_text = false;  // another program reads the lines alone
    all.bytes += static_cast<double>(pair.target.size());
    ++i;
  }
  return all;
}

// Whether weights are stored in fewer than 32 bits, so that another program may multiply in as many.
bool stored_below_f32(Examination& e) {
  if (!e.checked.files) return false;
  const TensorFiles files = TensorFiles::open(*e.checked.files);
  const std::vector<std::string> names = files.names();
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return files.info(name).dtype != "F32" && files.info(name).dtype != "F64";
  });
}

// How far the loss of a right program may be from the expected one.
double tolerance(const PositionLosses& losses, Examination& e) {
  const double expected = *e.checked.expected_loss;
  double most = kRoundedLoss;
  if (stored_below_f32(e))
    most += kDeviations * kHalfPrecision / std::sqrt(static_cast<double>(losses.labels.size()));
  if (!losses.whole_text) most += std::min(kDeviations * losses.error(), kOtherWindows * expected);
  return most;
}

// Compares the loss within the trained length with what other ways of predicting the text lose.
void judge_whole(double loss, const PositionLosses& losses, Examination& e, Finding& found) {
  const std::int64_t vocabulary = e.model().vocab_size();
  const std::optional<double>& expected = e.checked.expected_loss;
  TextCounts counts(vocabulary);
  counts.add(losses.labels);
  const double chance = std::log(static_cast<double>(vocabulary)), singles = counts.singles(),
               pairs = counts.pairs();
  const double bits = loss * static_cast<double>(losses.labels.size()) / std::log(2.0) / losses.bytes;
  found.measurement += fmt::format("; perplexity {:.4g}, {:.3g} bits per byte", std::exp(loss), bits);
  for (const auto& [name, value] :
       {std::pair{"loss", loss}, {"bits_per_byte", bits}, {"singles", singles}, {"pairs", pairs}})
    found.values.emplace_back(name, value);
  const auto report = [&](CheckStatus status, const std::string& measurement, const std::string& advice) {
    found.status = status;
    found.measurement += "; " + measurement;
    found.advice = advice;
  };
  constexpr const char* kSuspects =
      "look at the base and kind of rotary positions, activation, eps of norms, number of heads, the order "
      "of "
      "layers, and at queries, keys and matrices that were exchanged or transposed in a conversion";
  if (expected) {
    const double most = tolerance(losses, e);
    found.values.emplace_back("tolerance", most);
    if (loss > *expected + most)
      return report(CheckStatus::failed,
                    fmt::format("expected a loss of {:.3f} ± {:.2g}, got {:.3f}", *expected, most, loss),
                    kSuspects);
    if (loss < *expected - most)
      return report(
          CheckStatus::warning,
          fmt::format("expected a loss of {:.3f} ± {:.2g}, got {:.3f}", *expected, most, loss),
          "the expected loss is of another text or of other tokens (special ones are not read here)");
  }
  if (loss > chance)
    return report(CheckStatus::failed, fmt::format("guessing would lose {:.2f}", chance),
                  std::string("the model is not trained, the tokenizer is that of another, or ") + kSuspects);
  if (loss > singles)
    return report(CheckStatus::failed,
                  fmt::format("counting the tokens of the text itself would lose {:.2f}", singles),
                  std::string("unless the text is unlike those of training, ") + kSuspects);
  if (!expected && loss > pairs)
    report(CheckStatus::warning,
           fmt::format("counting pairs of tokens in the text itself would lose {:.2f}", pairs),
           std::string("unless the text is unlike those of training, ") + kSuspects);
}

// What the losses say: by quarters of the trained length, and beyond it.
Finding judge(const PositionLosses& losses, const Window& w, Examination& e) {
  Finding found;
  double last = 0;
  for (std::int64_t part = 0; part < kParts; ++part) {
    const std::int64_t begin = part * w.trained / kParts, end = (part + 1) * w.trained / kParts;
    if (losses.tokens(begin, end) == 0) continue;
    last = losses.mean(begin, end);
    found.measurement +=
        fmt::format("{}{:.2f} at {} to {}", found.measurement.empty() ? "loss " : ", ", last, begin + 1, end);
    found.values.emplace_back(fmt::format("{}-{}", begin + 1, end), last);
  }
  if (found.values.empty()) return skip("no text fits in the model's positions");
  judge_whole(losses.mean(0, w.trained), losses, e, found);
  if (losses.tokens(w.trained, w.length) == 0) return found;
  std::int64_t end = w.length;
  while (losses.tokens(end - 1, end) == 0) --end;
  const double beyond = losses.mean(w.trained, end);
  found.measurement += fmt::format(", {:.2f} beyond the trained length, to {}", beyond, end);
  found.values.emplace_back("beyond", beyond);
  if (beyond <= last + kRise || found.status != CheckStatus::ok) return found;
  found.status = CheckStatus::warning;
  found.advice = fmt::format("keep texts within {} tokens, or train with longer ones", w.trained);
  return found;
}

Finding outside_vocabulary(std::int64_t id) {
  return {CheckStatus::failed, fmt::format("the text has token {}, outside the vocabulary", id),
          "take the tokenizer that the model was trained with"};
}

Finding check_translations(Examination& e, const EncoderDecoderModel& model) {
  if (model.input().kind != InputKind::tokens) return skip("the model's source is audio, not text");
  if (e.checked.reference.empty()) return skip("no translation of the text (give one with --reference FILE)");
  const std::vector<EncodedPair> pairs = pairs_of(e);
  std::int64_t tokens = 0;
  for (const EncodedPair& pair : pairs) {
    tokens += std::ssize(pair.target_ids);
    for (const auto* ids : {&pair.source_ids, &pair.target_ids}) {
      for (const std::int64_t id : *ids) {
        if (id >= model.vocab_size()) return outside_vocabulary(id);
      }
    }
  }
  if (tokens < 2 * kParts) return skip(fmt::format("the translation has {} tokens", tokens));
  const Window w = choose_window(e, tokens);
  return judge(losses_of_pairs(e, model, pairs, w), w, e);
}

Finding check_text(Examination& e, const DecoderModel& model) {
  if (!e.full_logits(e.ids(1, 1)).defined()) return skip("the model has no output map");
  const std::vector<std::int64_t> ids = e.tokenizer()->encode(e.checked.text, false).ids;
  if (std::ssize(ids) < 2 * kParts) return skip(fmt::format("the text has {} tokens", ids.size()));
  for (const std::int64_t id : ids) {
    if (id >= model.vocab_size()) return outside_vocabulary(id);
  }
  const Window w = choose_window(e, std::ssize(ids));
  const auto bytes = static_cast<double>(e.checked.text.size());
  return judge(losses_of_text(model, ids, bytes, w), w, e);
}

}  // namespace

Finding check_lengths(Examination& e) {
  return visit(
      e.model(), [&](const EncoderDecoderModel& both) { return check_translations(e, both); },
      [&](const DecoderModel& decoder) { return check_text(e, decoder); },
      [](const Model&) { return skip("the model does not continue text"); });
}

}  // namespace heed::doctor
