// Decoding step by step, of decoders and encoder-decoders.
#include "heed/autograd.h"
#include "heed/ops/shape.h"
#include "models/decoder.h"
#include "models/named_tensors.h"

namespace heed {
namespace {

class StackDecoding final : public Decoding {
 public:
  StackDecoding(const DecoderParts& parts, std::int64_t rows, const Tensor& memory, Tensor memory_mask)
      : parts_(parts), state_(parts.stack, rows, memory), memory_mask_(std::move(memory_mask)) {
    cross_ = see_only(memory_mask_);
  }

  Tensor step(const Tensor& ids, Context& context) override {
    const NoGradients guard;
    const Tensor hidden = feed(ids, {}, context);
    const std::int64_t time = ids.size(1);
    return parts_.logits(reshape(slice(hidden, 1, time - 1, time), {rows(), hidden.size(2)}));  // [R, V]
  }

  Tensor step_ragged(const Tensor& ids, std::span<const std::int64_t> lengths, Context& context) override {
    bool fit = static_cast<std::int64_t>(lengths.size()) == rows();
    for (const std::int64_t length : lengths) fit = fit && length >= 1 && length <= ids.size(1);
    if (!fit) {
      throw Error("decoding: expected for each of " + std::to_string(rows()) +
                  " rows at least one of the ids " + ids.str() + ", got other lengths");
    }
    const NoGradients guard;
    const Tensor hidden = feed(ids, lengths, context);
    const std::int64_t time = ids.size(1);
    std::vector<std::int64_t> last;
    for (std::int64_t row = 0; row < rows(); ++row)
      last.push_back(row * time + lengths[static_cast<std::size_t>(row)] - 1);
    const Tensor flat = reshape(hidden, {rows() * time, hidden.size(2)});
    return parts_.logits(gather(flat, 0, Tensor::from(last, {rows()})));  // [R, V]
  }

  void reorder(std::span<const std::int64_t> rows) override {
    const std::vector<std::int64_t> before = state_.sources();
    state_.reorder(rows);
    if (!memory_mask_.defined() || state_.sources() == before) return;
    cross_ = see_only(gather(memory_mask_, 0, Tensor::from(state_.sources(), {this->rows()})));
  }

  std::int64_t rows() const override { return state_.rows(); }
  std::int64_t length() const override { return state_.lengths().longest; }

 private:
  // The last hidden state [R, T, D].
  Tensor feed(const Tensor& ids, std::span<const std::int64_t> lengths, Context& context) {
    if (ids.rank() != 2 || ids.size(0) != rows() || ids.size(1) < 1) {
      throw Error("decoding: expected ids [" + std::to_string(rows()) + ", T], got " + ids.str());
    }
    Pass pass(context);
    pass.positions = state_.positions();
    pass.lengths.assign(lengths.begin(), lengths.end());
    pass.cross = cross_;
    return parts_(ids, pass, &state_);
  }

  const DecoderParts& parts_;
  StackState state_;
  Tensor memory_mask_;  // [B, S]
  AttentionOptions cross_;
};

}  // namespace

std::unique_ptr<Decoding> start_decoding(const DecoderParts& parts, std::int64_t rows, const Tensor& memory,
                                         const Tensor& memory_mask) {
  return std::make_unique<StackDecoding>(parts, rows, memory, memory_mask);
}

}  // namespace heed
