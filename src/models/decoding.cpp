// Decoding step by step, of decoders and encoder-decoders.
#include <algorithm>

#include "heed/autograd.h"
#include "heed/ops/shape.h"
#include "models/decoder.h"
#include "models/named_tensors.h"

namespace heed {
namespace {

class StackDecoding final : public Decoding {
 public:
  StackDecoding(const DecoderParts& parts, std::int64_t rows, const Tensor& memory, Tensor memory_mask)
      : parts_(parts),
        state_(parts.stack, rows, memory),
        memory_length_(memory.defined() ? memory.size(1) : 0),
        memory_mask_(std::move(memory_mask)) {
    cross_ = masked_keys(memory_mask_);
    fed_.resize(parts.recompute_beyond > 0 ? static_cast<std::size_t>(rows) : 0);
  }

  // One row of another decoding.
  StackDecoding(const DecoderParts& parts, StackState state) : parts_(parts), state_(std::move(state)) {}

  Tensor step(const Tensor& ids, Context& context) override {
    const NoGradients guard;
    if (changes_frequencies(ids, {})) return recompute(ids, {}, context);
    return parts_.logits(feed(ids, {}, context), context);  // [R, V]
  }

  Tensor step_ragged(const Tensor& ids, std::span<const std::int64_t> lengths, Context& context) override {
    bool fit = static_cast<std::int64_t>(lengths.size()) == rows();
    for (const std::int64_t length : lengths) fit = fit && length >= 1 && length <= ids.size(1);
    if (!fit) {
      throw Error("decoding: expected for each of " + std::to_string(rows()) +
                  " rows at least one of the ids " + ids.str() + ", got other lengths");
    }
    const NoGradients guard;
    if (changes_frequencies(ids, lengths)) return recompute(ids, lengths, context);
    return parts_.logits(feed(ids, lengths, context), context);  // [R, V]
  }

  void reorder(std::span<const std::int64_t> rows) override {
    const std::vector<std::int64_t> before = state_.sources();
    state_.reorder(rows);
    if (!fed_.empty()) {
      std::vector<std::vector<std::int64_t>> taken;
      for (const std::int64_t row : rows) taken.push_back(fed_[static_cast<std::size_t>(row)]);
      fed_ = std::move(taken);
    }
    if (!memory_mask_.defined() || state_.sources() == before) return;
    memory_mask_ = gather(memory_mask_, 0, Tensor::from(rows, {this->rows()}));
    cross_ = masked_keys(memory_mask_);
  }

  void truncate(std::int64_t length) override {
    state_.truncate(length);
    for (auto& row : fed_) row.resize(static_cast<std::size_t>(length));
  }

  void join(const Decoding& other) override {
    const auto* same = dynamic_cast<const StackDecoding*>(&other);
    if (same == nullptr || &same->parts_ != &parts_ || chunk_size() == 0 || same == this) refuse_rows();
    const std::int64_t longest = std::max(memory_length_, same->memory_length_);
    if (memory_mask_.defined() || same->memory_mask_.defined() || memory_length_ != same->memory_length_) {
      memory_mask_ = concat({mask_within(longest), same->mask_within(longest)}, 0);
      cross_ = masked_keys(memory_mask_);
    }
    memory_length_ = longest;
    state_.join(same->state_);
  }

  std::unique_ptr<Decoding> copy_row(std::int64_t row, std::int64_t length) const override {
    if (chunk_size() == 0 || memory_length_ > 0) refuse_rows();
    return std::make_unique<StackDecoding>(parts_, state_.copy_row(row, length));
  }

  std::int64_t chunk_size() const override { return parts_.recompute_beyond > 0 ? 0 : state_.chunk_size(); }
  std::size_t bytes() const override { return state_.bytes(); }
  std::int64_t rows() const override { return state_.rows(); }
  std::int64_t length() const override { return state_.lengths().longest; }

 private:
  [[noreturn]] static void refuse_rows() {
    throw Error(
        "decoding: expected rows of one decoder that depend on their tokens alone, got a source, another "
        "model or frequencies that depend on the length");
  }

  // The mask of all rows' memories, padded to `length` positions.
  Tensor mask_within(std::int64_t length) const {
    const Tensor mask = Tensor::zeros({rows(), length}, DType::i64);
    slice(mask, 1, 0, memory_length_)
        .copy_from(memory_mask_.defined() ? memory_mask_
                                          : Tensor::full({rows(), memory_length_}, 1, DType::i64));
    return mask;
  }

  // Whether this step takes the longest row past the length from which on frequencies differ.
  bool changes_frequencies(const Tensor& ids, std::span<const std::int64_t> lengths) const {
    std::int64_t longest = 0;
    for (std::size_t row = 0; row < fed_.size(); ++row) {
      const std::int64_t more = lengths.empty() ? ids.size(1) : lengths[row];
      longest = std::max(longest, static_cast<std::int64_t>(fed_[row].size()) + more);
    }
    return length() > 0 && length() <= parts_.recompute_beyond && longest > parts_.recompute_beyond;
  }

  // Feeds the earlier tokens and the new ones in one pass, to an empty state.
  Tensor recompute(const Tensor& ids, std::span<const std::int64_t> lengths, Context& context) {
    remember(ids, lengths);
    const std::vector<std::vector<std::int64_t>> rows = std::move(fed_);
    std::vector<std::int64_t> ends;
    for (const auto& row : rows) ends.push_back(static_cast<std::int64_t>(row.size()));
    const std::int64_t longest = *std::max_element(ends.begin(), ends.end());
    const Tensor all = Tensor::zeros({this->rows(), longest}, DType::i64);
    for (std::size_t row = 0; row < rows.size(); ++row)
      std::copy(rows[row].begin(), rows[row].end(),
                all.data<std::int64_t>() + static_cast<std::int64_t>(row) * longest);
    state_ = StackState(parts_.stack, this->rows());
    fed_.assign(rows.size(), {});
    const bool even = std::all_of(ends.begin(), ends.end(), [&](std::int64_t end) { return end == longest; });
    return even ? step(all, context) : step_ragged(all, ends, context);
  }

  void remember(const Tensor& ids, std::span<const std::int64_t> lengths) {
    if (fed_.empty()) return;
    if (ids.rank() == 3)
      throw Error("decoding: expected ids, as this model computes earlier tokens again, got embeddings");
    const Tensor dense = ids.contiguous();
    for (std::size_t row = 0; row < fed_.size(); ++row) {
      const std::int64_t* from = dense.data<std::int64_t>() + static_cast<std::int64_t>(row) * ids.size(1);
      fed_[row].insert(fed_[row].end(), from, from + (lengths.empty() ? ids.size(1) : lengths[row]));
    }
  }

  // The last hidden state of each row's last token, [R, D].
  Tensor feed(const Tensor& ids, std::span<const std::int64_t> lengths, Context& context) {
    const bool embeddings = ids.rank() == 3 && is_floating(ids.dtype());
    if ((ids.rank() != 2 && !embeddings) || ids.size(0) != rows() || ids.size(1) < 1) {
      throw Error("decoding: expected ids [" + std::to_string(rows()) + ", T], or embeddings [" +
                  std::to_string(rows()) + ", T, E], got " + ids.str());
    }
    Pass pass(context);
    pass.positions = state_.positions();
    pass.lengths.assign(lengths.begin(), lengths.end());
    for (std::int64_t row = 0; row < rows(); ++row)
      pass.read.push_back((lengths.empty() ? ids.size(1) : lengths[static_cast<std::size_t>(row)]) - 1);
    pass.cross = cross_;
    remember(ids, lengths);
    const Tensor hidden =
        parts_(embeddings ? ModelInput{.embeddings = ids} : ModelInput{.ids = ids}, pass, &state_);
    return reshape(hidden, {rows(), hidden.size(2)});
  }

  const DecoderParts& parts_;
  StackState state_;
  std::int64_t memory_length_ = 0;
  Tensor memory_mask_;  // [R, memory_length_], or undefined
  AttentionOptions cross_;
  std::vector<std::vector<std::int64_t>> fed_;  // the tokens of each row, where they may be computed again
};

}  // namespace

void Decoding::truncate(std::int64_t length) {
  if (length != this->length())
    throw Error("decoding: expected a model that can forget its last tokens, got one that cannot");
}

void Decoding::join(const Decoding&) {
  throw Error("decoding: expected a model that can join the rows of two decodings, got one that cannot");
}

std::unique_ptr<Decoding> Decoding::copy_row(std::int64_t, std::int64_t) const {
  throw Error("decoding: expected a model that can copy a row, got one that cannot");
}

std::unique_ptr<Decoding> start_decoding(const DecoderParts& parts, std::int64_t rows, const Tensor& memory,
                                         const Tensor& memory_mask) {
  return std::make_unique<StackDecoding>(parts, rows, memory, memory_mask);
}

}  // namespace heed
