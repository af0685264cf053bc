// Checks of what must not change a result: padding, other rows of the batch, and the number of threads.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "doctor/examination.h"
#include "heed/error.h"
#include "heed/ops/shape.h"
#include "heed/threads.h"

namespace heed::doctor {
namespace {

constexpr std::int64_t kRowTokens = 12;
constexpr std::int64_t kPadding = 5;
constexpr double kPaddingRounding = 1e-3;  // relative; padding in front changes the order of sums

struct PaddedRow {
  Tensor ids, mask, positions;
};

// Row 0 of `ids` with padding of the id `filler` at one end.
PaddedRow padded(const Tensor& ids, std::int64_t filler, bool left) {
  const std::int64_t time = ids.size(1), total = time + kPadding, first = left ? kPadding : 0;
  std::vector<std::int64_t> all(static_cast<std::size_t>(total), filler),
      mask(static_cast<std::size_t>(total), 0), positions(static_cast<std::size_t>(total), 0);
  for (std::int64_t t = 0; t < time; ++t) {
    const auto at = static_cast<std::size_t>(first + t);
    all[at] = ids.data<std::int64_t>()[t];
    mask[at] = 1;
    positions[at] = t;
  }
  return {Tensor::from(all, {1, total}), Tensor::from(mask, {1, total}), Tensor::from(positions, {1, total})};
}

// The outputs of the real tokens; all outputs of a source, whose outputs are those of the decoder.
Tensor real_outputs(const Pathway& pathway, const PaddedRow& row, std::int64_t time, bool left) {
  Context context;
  const Tensor all = pathway.run(row.ids, row.mask, left ? row.positions : Tensor(), context);
  if (!pathway.is_stack()) return all;
  return left ? slice(all, 1, kPadding, kPadding + time) : slice(all, 1, 0, time);
}

Finding padding_of(Examination& e, const Pathway& pathway, bool left) {
  const std::int64_t time = e.length(kRowTokens + kPadding) - kPadding;
  if (time < 2) return skip("the model has too few positions");
  const Tensor ids = e.ids(1, time);
  const std::int64_t pad = e.pad_id();
  const Tensor one = real_outputs(pathway, padded(ids, pad, left), time, left);
  const Tensor other = real_outputs(pathway, padded(ids, e.other_id(pad), left), time, left);
  Context context;
  const Tensor alone = pathway.run(ids, Tensor::full(ids.shape(), 1, DType::i64), {}, context);
  const double reached = relative_difference(one, other), moved = relative_difference(alone, one);
  Finding found{.values = {{"reached", reached}, {"moved", moved}}};
  if (!same_bits(one, other)) {
    found.status = CheckStatus::failed;
    found.measurement =
        fmt::format("outputs of real tokens change by {} with the content of the padding", percent(reached));
    found.advice = "padding is attended to: hand the attention mask on to every attention";
    return found;
  }
  found.measurement = fmt::format("padding changes {} tokens by {}", time, percent(moved));
  if (moved <= kPaddingRounding) return found;
  found.status = left ? CheckStatus::warning : CheckStatus::failed;
  found.advice = left ? "the model counts positions from the padding: pad on the right, or give position ids"
                      : "padding at the end moves the tokens before it: look at how positions are counted";
  return found;
}

// Decoders alone are padded on the left: encoders, and the decoder of an encoder-decoder, begin at the left.
std::string why_not_padded(Examination& e, const Pathway& pathway, bool left) {
  if (!pathway.tokens)
    return e.model().input().kind == InputKind::waveform ? "it reads no padding ids" : "rows have one size";
  if (!pathway.masks) return "it takes no mask";
  if (left && !pathway.causal) return "rows begin at the left";
  const auto* decoder = as<DecoderModel>(e.model());
  if (decoder != nullptr && !decoder->rows_are_independent())
    return "rotary frequencies follow the longest row";
  return {};
}

Finding check_padding(Examination& e, bool left) {
  Finding total;
  for (const Pathway& pathway : e.pathways()) {
    const std::string reason = why_not_padded(e, pathway, left);
    add(total, pathway.name, reason.empty() ? padding_of(e, pathway, left) : skip(reason));
  }
  return total.measurement.empty() ? skip("the model reads no tokens") : total;
}

Finding judge_equal(const std::string& what, bool same, double difference) {
  Finding found{
      .measurement = what + (same ? ": the same bits" : fmt::format(": differ by {}", percent(difference))),
      .values = {{"difference", difference}}};
  return found;
}

Finding batch_of(Examination& e, const Pathway& pathway) {
  const std::int64_t rows = pathway.tokens ? 3 : 2;
  const Tensor ids = e.ids(rows, e.length(kRowTokens));
  const Tensor together = pathway(ids);
  double difference = 0;
  bool same = true;
  for (std::int64_t r = 0; r < rows; ++r) {
    const Tensor alone = pathway(slice(ids, 0, r, r + 1).contiguous()), row = slice(together, 0, r, r + 1);
    same = same && same_bits(alone, row);
    difference = std::max(difference, relative_difference(alone, row));
  }
  Finding found = judge_equal(fmt::format("{} rows alone and together", rows), same, difference);
  if (same) return found;
  found.status = CheckStatus::failed;
  found.advice = "a row sees the others: look for a norm, a mask or a shape that mixes rows";
  return found;
}

// Sets the number of threads back.
class ThreadCount {
 public:
  ~ThreadCount() { set_threads(before_); }

 private:
  int before_ = threads();
};

Finding threads_of(Examination& e, const Pathway& pathway) {
  const Tensor ids = e.ids(pathway.tokens ? 2 : 1, e.length(kRowTokens));
  const ThreadCount restored;
  set_threads(1);
  const Tensor one = pathway(ids);
  double difference = 0;
  bool same = true;
  for (const int count : {2, 3}) {
    set_threads(count);
    const Tensor several = pathway(ids);
    same = same && same_bits(one, several);
    difference = std::max(difference, relative_difference(one, several));
  }
  Finding found = judge_equal("1, 2 and 3 threads", same, difference);
  if (same) return found;
  found.status = CheckStatus::failed;
  found.advice =
      "an operation adds in the order in which threads finish: report it with the model's config.json";
  return found;
}

}  // namespace

Finding check_right_padding(Examination& e) { return check_padding(e, false); }
Finding check_left_padding(Examination& e) { return check_padding(e, true); }

Finding check_batch(Examination& e) {
  Finding total;
  for (const Pathway& pathway : e.pathways()) add(total, pathway.name, batch_of(e, pathway));
  return total.measurement.empty() ? skip("the model's inputs are not known without its config.json") : total;
}

Finding check_threads(Examination& e) {
  Finding total;
  for (const Pathway& pathway : e.pathways()) add(total, pathway.name, threads_of(e, pathway));
  return total.measurement.empty() ? skip("the model's inputs are not known without its config.json") : total;
}

}  // namespace heed::doctor
