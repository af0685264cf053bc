// T5's span corruption, and BART's sentence permutation and text infilling.
#include "data/denoising.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

namespace heed {
namespace {

constexpr const char* kBlankMark = "\u2581";                         // SentencePiece: before a word
constexpr const char *kSpaceMark = "\u0120", *kLineMark = "\u010A";  // byte-level BPE: space, line end

// Half to even, as the packages that the formulas come from round.
std::int64_t rounded(double value) { return static_cast<std::int64_t>(std::nearbyint(value)); }

// `parts` positive lengths with the given sum: a random choice of the places where the parts end.
std::vector<std::int64_t> random_partition(std::int64_t sum, std::int64_t parts, Draws& draws) {
  std::vector<std::int64_t> lengths(1, 1);
  std::int64_t ends = parts - 1;
  for (std::int64_t left = sum - 1; left > 0; --left) {
    if (draws.takes(ends, left)) lengths.push_back(0);
    ++lengths.back();
  }
  return lengths;
}

template <class T>
void shuffle_in_place(std::vector<T>& items, Draws& draws) {
  for (std::size_t i = items.size(); i > 1; --i)
    std::swap(items[i - 1], items[static_cast<std::size_t>(draws.below(static_cast<std::int64_t>(i)))]);
}

// The lengths of the spans that infill() hides.
std::vector<std::int64_t> span_lengths(std::int64_t hidden, double mean, Draws& draws) {
  std::vector<std::int64_t> lengths;
  std::int64_t empty = 0;
  for (std::int64_t left = hidden; left > 0;) {
    const std::int64_t length = std::min(draws.poisson(mean), left);
    left -= length;
    if (length == 0) {
      ++empty;
    } else {
      lengths.push_back(length);
    }
  }
  empty = std::min(empty, hidden - static_cast<std::int64_t>(lengths.size()));
  lengths.insert(lengths.end(), static_cast<std::size_t>(empty), 0);
  shuffle_in_place(lengths, draws);
  return lengths;
}

// The special tokens before (or after) the text of an encoding.
std::vector<std::int64_t> framing(const Encoding& encoding, bool before) {
  std::vector<std::int64_t> ids;
  bool text_seen = false;
  for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
    const bool special = encoding.special_tokens_mask[i] == 1;
    text_seen |= !special;
    if (special && text_seen != before) ids.push_back(encoding.ids[i]);
  }
  return ids;
}

template <class Ids>
void append(std::vector<std::int64_t>& to, const Ids& ids) {
  to.insert(to.end(), ids.begin(), ids.end());
}

}  // namespace

std::int64_t Draws::poisson(double mean) {
  const double uniform = stream_.word(next_++) * 0x1.0p-32;
  double probability = std::exp(-mean), sum = probability;
  std::int64_t n = 0;
  for (; sum <= uniform && probability > 0; ++n) {
    probability *= mean / static_cast<double>(n + 1);
    sum += probability;
  }
  return n;
}

SpanCounts span_counts(std::int64_t length, const NoiseAmount& amount) {
  SpanCounts counts;
  counts.tokens =
      std::clamp<std::int64_t>(rounded(static_cast<double>(length) * amount.density), 1, length - 1);
  counts.spans = std::max<std::int64_t>(rounded(static_cast<double>(counts.tokens) / amount.span_length), 1);
  counts.spans = std::min({counts.spans, counts.tokens, length - counts.tokens});
  return counts;
}

std::vector<bool> random_spans(std::int64_t length, const NoiseAmount& amount, Draws& draws) {
  const SpanCounts counts = span_counts(length, amount);
  const auto hidden = random_partition(counts.tokens, counts.spans, draws),
             left = random_partition(length - counts.tokens, counts.spans, draws);
  std::vector<bool> mask;
  for (std::size_t i = 0; i < hidden.size(); ++i) {
    mask.insert(mask.end(), static_cast<std::size_t>(left[i]), false);
    mask.insert(mask.end(), static_cast<std::size_t>(hidden[i]), true);
  }
  return mask;
}

std::vector<bool> word_continuations(const Tokenizer& tokenizer) {
  const auto size = static_cast<std::size_t>(tokenizer.vocab_size());
  std::vector<std::string> tokens(size);
  bool marks_begin = false;
  const auto begins = [](const std::string& token) {
    return token.starts_with(kBlankMark) || token.starts_with(kSpaceMark);
  };
  for (std::size_t id = 0; id < size; ++id) {
    tokens[id] = tokenizer.token(static_cast<std::int64_t>(id));
    marks_begin |= begins(tokens[id]);
  }
  std::vector<bool> continues(size);
  for (std::size_t id = 0; id < size; ++id)
    continues[id] = marks_begin ? !begins(tokens[id]) : tokens[id].starts_with("##");
  return continues;
}

NoiseTokens noise_tokens(const Tokenizer& tokenizer) {
  NoiseTokens tokens;
  const Encoding any = tokenizer.encode("a");
  tokens.begin = framing(any, true);
  tokens.end = framing(any, false);
  while (const auto id = tokenizer.token_to_id("<extra_id_" + std::to_string(tokens.sentinels.size()) + ">"))
    tokens.sentinels.push_back(*id);
  tokens.mask = tokenizer.mask_id().value_or(-1);
  tokens.begins_word = word_continuations(tokenizer);
  tokens.begins_word.flip();
  for (std::int64_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string token = tokenizer.token(id);
    tokens.full_stop.push_back(token.ends_with('.'));
    if (token.starts_with(kLineMark)) tokens.begins_word[static_cast<std::size_t>(id)] = true;
  }
  return tokens;
}

NoisePair corrupt_spans(std::span<const std::int32_t> text, const NoiseTokens& tokens,
                        const NoiseAmount& amount, Draws& draws) {
  const std::vector<bool> hidden = random_spans(static_cast<std::int64_t>(text.size()), amount, draws);
  NoisePair pair{tokens.begin, tokens.begin};
  std::size_t span = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (hidden[i] && !hidden[i - 1]) {  // the first token is never hidden
      pair.input.push_back(tokens.sentinels[span]);
      pair.target.push_back(tokens.sentinels[span++]);
    }
    (hidden[i] ? pair.target : pair.input).push_back(text[i]);
  }
  append(pair.input, tokens.end);
  append(pair.target, tokens.end);
  return pair;
}

std::pair<std::int64_t, std::int64_t> corrupted_lengths(std::int64_t length, const NoiseTokens& tokens,
                                                        const NoiseAmount& amount) {
  const SpanCounts counts = span_counts(length, amount);
  const auto added = static_cast<std::int64_t>(tokens.begin.size() + tokens.end.size()) + counts.spans;
  return {length - counts.tokens + added, counts.tokens + added};
}

std::vector<std::int64_t> permute_sentences(std::span<const std::int32_t> text, const NoiseTokens& tokens,
                                            Draws& draws) {
  std::vector<std::span<const std::int32_t>> sentences;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool last = i + 1 == text.size();
    const bool ends = last || (tokens.full_stop[static_cast<std::size_t>(text[i])] &&
                               tokens.begins_word[static_cast<std::size_t>(text[i + 1])]);
    if (!ends) continue;
    sentences.push_back(text.subspan(begin, i + 1 - begin));
    begin = i + 1;
  }
  shuffle_in_place(sentences, draws);
  std::vector<std::int64_t> permuted;
  for (const auto& sentence : sentences) append(permuted, sentence);
  return permuted;
}

std::vector<std::int64_t> infill(std::span<const std::int64_t> text, std::int64_t mask,
                                 const NoiseAmount& amount, Draws& draws) {
  const auto length = static_cast<std::int64_t>(text.size());
  const std::int64_t hidden =
      std::clamp<std::int64_t>(rounded(static_cast<double>(length) * amount.density), 1, length);
  const std::vector<std::int64_t> lengths = span_lengths(hidden, amount.span_length, draws);
  // Spans and left tokens in a row: a random choice of the places of the spans.
  std::vector<std::int64_t> noised;
  auto spans = static_cast<std::int64_t>(lengths.size());
  std::size_t next = 0, at = 0;
  for (std::int64_t places = length - hidden + spans; places > 0; --places) {
    if (draws.takes(spans, places)) {
      noised.push_back(mask);
      at += static_cast<std::size_t>(lengths[next++]);
    } else {
      noised.push_back(text[at++]);
    }
  }
  return noised;
}

NoisePair corrupt_bart(std::span<const std::int32_t> text, const NoiseTokens& tokens,
                       const NoiseAmount& amount, bool permute, Draws& draws) {
  const std::vector<std::int64_t> ordered =
      permute ? permute_sentences(text, tokens, draws) : std::vector<std::int64_t>(text.begin(), text.end());
  NoisePair pair{tokens.begin, tokens.begin};
  append(pair.input, infill(ordered, tokens.mask, amount, draws));
  append(pair.target, text);
  append(pair.input, tokens.end);
  append(pair.target, tokens.end);
  return pair;
}

}  // namespace heed
