// Stacks of layers, and their state while decoding.
#include "heed/nn/stack.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/pause_point.h"
#include "heed/autograd.h"
#include "heed/nn/attention.h"
#include "heed/nn/feed_forward.h"
#include "heed/nn/linear.h"
#include "heed/nn/weight.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/shape.h"
#include "nn/norm_when_read.h"
#include "nn/stack_resume.h"
#include "ops/recording.h"
#include "tensor/impl.h"

namespace heed {
namespace {

thread_local std::vector<const StackResume*> resumes;

// Whether a part computes each token without the others.
bool is_token_wise(const Part& part) {
  return part.as<FeedForward>() != nullptr || part.as<Experts>() != nullptr ||
         part.as<CrossAttention>() != nullptr;
}

// The norm of x, or of x + residual: where nobody listens, computed by the product that reads it.
Tensor normed(const Norm& norm, const Pass& pass, Tensor x, const Tensor& residual = {}) {
  if (pass.context.taps == nullptr) return norm_when_read(norm, std::move(x), residual);
  return residual.defined() ? norm.of_sum(x, residual) : norm(x);
}

// The part's results for the tokens Pass::read, [B, 1, D].
Tensor of_read_tokens(const Part& part, const Tensor& x, Pass& pass, PartState* state) {
  if (const auto* attention = part.as<SelfAttention>()) return attention->of_read_tokens(x, pass, state);
  return tokens_at(part(x, pass, state), pass.read);
}

// `reads`: for the tokens Pass::read alone.
Tensor run(const Sublayer& sublayer, const Tensor& x, Pass& pass, PartState* state, bool reads) {
  pause_point();
  Tensor input = x;
  if (sublayer.norm_before) {
    input = normed(*sublayer.norm_before, pass, x);
    pass.tap("norm", input);
  }
  Tensor y = reads ? of_read_tokens(sublayer.part, input, pass, state) : sublayer.part(input, pass, state);
  if (sublayer.norm_after) {
    y = (*sublayer.norm_after)(y);
    pass.tap("norm_after", y);
  }
  if (sublayer.multiplier != 1.0) y = y * sublayer.multiplier;
  if (sublayer.scale.defined()) y = y * sublayer.scale;
  pass.tap("added", y);
  return apply_dropout(y, sublayer.dropout, pass.context);
}

// Pass::tap of a layer or sublayer.
void tap_of(Pass& pass, const std::string& name, const char* what, Tensor& value) {
  if (pass.context.taps == nullptr) return;
  pass.name = name;
  pass.tap(what, value);
}

// The last step in which tokens depend on others; the first one if there is none.
std::size_t last_mixing_step(const Layer& layer) {
  for (std::size_t i = layer.steps.size(); i > 0; --i) {
    for (const Sublayer& sublayer : layer.steps[i - 1].sublayers)
      if (!is_token_wise(sublayer.part)) return i - 1;
  }
  return 0;
}

// `parts` are the states of the stack's parts from this layer's first on, or null. `reads`: after the step in
// which tokens read others for the last time, those of Pass::read go on alone.
Tensor run(const Layer& layer, const std::string& name, Tensor x, Pass& pass,
           const std::unique_ptr<PartState>* parts = nullptr, bool reads = false) {
  tap_of(pass, name, "in", x);
  pass.layer_input = x;
  const std::size_t last = reads ? last_mixing_step(layer) : layer.steps.size();
  for (std::size_t i = 0; i < layer.steps.size(); ++i) {
    const ResidualStep& step = layer.steps[i];
    if (i > 0) tap_of(pass, name, i == 1 ? "mid" : "mid2", x);
    if (step.norm_input) {
      x = normed(*step.norm_input, pass, x);
      tap_of(pass, name + "." + step.sublayers.front().name, "norm", x);
    }
    const Tensor all = x;
    if (i == last) x = tokens_at(all, pass.read);
    Tensor sum;
    for (const Sublayer& sublayer : step.sublayers) {
      pass.name = name + "." + sublayer.name;
      const bool mixes = i == last && !is_token_wise(sublayer.part);
      const Tensor y =
          run(sublayer, mixes ? all : x, pass, parts != nullptr ? (parts++)->get() : nullptr, mixes);
      sum = sum.defined() ? y + sum : y;
    }
    x = step.norm_sum ? normed(*step.norm_sum, pass, std::move(sum), x) : sum + x;
    if (const Tensor& mask = pass.self.key_mask; step.clears_padding && mask.defined()) {
      const Tensor shown = unsqueeze(mask, 2).to(x.dtype());
      x = x * (i < last ? shown : tokens_at(shown, pass.read));
    }
  }
  return layer.steering.defined() ? x + layer.steering.to(x.dtype()) : x;
}

// What a layer gives: the result, then what its parts hand to the model.
std::vector<Tensor> results_of(const Tensor& y, const Pass& pass) {
  std::vector<Tensor> results{y};
  for (const auto& [kind, tensors] : pass.collected)
    results.insert(results.end(), tensors.begin(), tensors.end());
  return results;
}

// Computes a layer once more, with gradients, and walks it back.
struct Recomputation {
  Layer layer;
  std::string name;
  std::shared_ptr<Pass> pass;
  bool training;
  bool adapter_dropout;
  std::optional<Generator> generator;  // where it was before the layer
  std::vector<Tensor> inputs;          // x, then what all layers share
  std::size_t weights = 0;             // inputs of the record that the second computation adds to by itself

  std::vector<Tensor> operator()(std::vector<Tensor> gradients) const {
    const RecordGradients on;
    std::optional<Generator> streams = generator;
    Context context{.training = training, .generator = streams ? &*streams : nullptr};
    std::optional<AdapterDropout> adapters;
    if (adapter_dropout) adapters.emplace(context);
    Pass again(context, *pass);
    std::vector<Tensor> copies;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      copies.push_back(inputs[i].defined() ? inputs[i].detach() : Tensor());
      if (!inputs[i].defined() || !inputs[i].requires_grad()) continue;
      copies[i].set_requires_grad();
      copies[i].set_grad(take_gradient_so_far(i));  // so that sums are in the order of one whole graph
    }
    const std::vector<Tensor*> shared = again.differentiable();
    for (std::size_t i = 0; i < shared.size(); ++i) *shared[i] = copies[i + 1];
    const Tensor y = run(layer, name, copies[0], again);
    Tensor root = Tensor::zeros({}, y.dtype());
    record(root, "gradient checkpointing", results_of(y, again),
           [&gradients](const Tensor&) { return std::exchange(gradients, {}); });
    root.backward();
    std::vector<Tensor> found(inputs.size() + weights);
    for (std::size_t i = 0; i < copies.size(); ++i) {
      if (copies[i].defined() && copies[i].requires_grad()) found[i] = copies[i].grad();
    }
    return found;
  }
};

// run() that keeps nothing of the layer but its inputs.
Tensor run_checkpointed(const Layer& layer, const std::string& name, const Tensor& x, Pass& pass) {
  Recomputation again{.layer = layer,
                      .name = name,
                      .pass = nullptr,
                      .training = pass.context.training,
                      .adapter_dropout = AdapterDropout::active(),
                      .generator = {},
                      .inputs = {x}};
  if (pass.context.generator != nullptr) again.generator = *pass.context.generator;
  const auto earlier = std::exchange(pass.collected, {});
  const Tensor y = run(layer, name, x, pass);
  std::vector<Tensor> results = results_of(y, pass);
  if (y.requires_grad()) {
    for (const Tensor* shared : pass.differentiable()) again.inputs.push_back(*shared);
    again.pass = std::make_shared<Pass>(pass.context, pass);
    const std::vector<Tensor> graph = results;
    for (Tensor& result : results) result = result.detach();
    // The weights, whose gradients the second computation adds to; a graph that does not name them as inputs
    // would seem to be done with them too early.
    std::vector<Tensor> inputs = again.inputs;
    const std::vector<Tensor> weights = leaves_between(inputs, graph);
    again.weights = weights.size();
    inputs.insert(inputs.end(), weights.begin(), weights.end());
    record_results(results, "gradient checkpointing", inputs, std::move(again));
  }
  std::size_t next = 1;
  const auto mine = std::exchange(pass.collected, earlier);
  for (const auto& [kind, tensors] : mine) {
    for (std::size_t i = 0; i < tensors.size(); ++i) pass.collected[kind].push_back(results[next++]);
  }
  return results[0];
}

}  // namespace

StackResume::StackResume(std::string stack, std::int64_t layer, Tensor x)
    : stack_(std::move(stack)), layer_(layer), x_(std::move(x)) {
  resumes.push_back(this);
}

StackResume::~StackResume() { std::erase(resumes, this); }

const StackResume* StackResume::of(const std::string& stack) {
  const auto found = std::find_if(resumes.rbegin(), resumes.rend(),
                                  [&](const StackResume* resume) { return resume->stack_ == stack; });
  return found == resumes.rend() ? nullptr : *found;
}

ResidualStep pre_norm(std::string name, Norm norm, Part part, double dropout) {
  return {.sublayers = {{.name = std::move(name),
                         .norm_before = std::move(norm),
                         .part = std::move(part),
                         .dropout = dropout}}};
}

ResidualStep post_norm(std::string name, Norm norm, Part part, double dropout) {
  return {.sublayers = {{.name = std::move(name), .part = std::move(part), .dropout = dropout}},
          .norm_sum = std::move(norm)};
}

Tensor Stack::operator()(Tensor x, Pass& pass, StackState* state) const {
  const std::int64_t time = x.size(1);
  if (state != nullptr) state->begin(pass, time);
  if (pass.context.taps != nullptr) pass.context.taps->begin_at(pass.past.longest);
  pass.name = name;
  pass.tap("embed", x);
  const Context& context = pass.context;
  const bool checkpoints =
      context.gradient_checkpointing && context.taps == nullptr && state == nullptr && gradients_enabled();
  const bool reads =
      !pass.read.empty() && time > 1 && context.taps == nullptr && !context.training && !gradients_enabled();
  std::size_t part = 0, first = 0;
  bool has_read = false;
  if (const StackResume* resume = StackResume::of(name)) {
    HEED_ASSERT(state == nullptr, "a decoding does not begin within a stack");
    first = static_cast<std::size_t>(resume->layer());
    x = resume->input();
  }
  for (std::size_t i = first; i < layers.size(); ++i) {
    context.check_stop();
    const std::string layer = name + ".layers." + std::to_string(i);
    if (checkpoints) {
      x = run_checkpointed(layers[i], layer, x, pass);
    } else {
      has_read = reads && i + 1 == layers.size();
      x = run(layers[i], layer, x, pass, state != nullptr ? state->parts_.data() + part : nullptr, has_read);
    }
    for (const ResidualStep& step : layers[i].steps) part += step.sublayers.size();
    tap_of(pass, layer, "out", x);
  }
  if (state != nullptr) state->advance(pass, time);
  if (final_norm) {
    x = (*final_norm)(x);
    tap_of(pass, name, "final_norm", x);
  }
  x.raw_data();  // what reads it need not be a product
  return pass.read.empty() || has_read ? x : tokens_at(x, pass.read);
}

StackState::StackState(const Stack& stack, std::int64_t rows, const Tensor& memory)
    : sources_(static_cast<std::size_t>(rows)), history_(static_cast<std::size_t>(rows)) {
  std::iota(sources_.begin(), sources_.end(), std::int64_t{0});
  for (const Layer& layer : stack.layers) {
    for (const ResidualStep& step : layer.steps) {
      for (const Sublayer& sublayer : step.sublayers) parts_.push_back(sublayer.part.make_state(memory));
    }
  }
}

PositionIds StackState::positions() const {
  if (lengths_.each.empty()) return PositionIds(lengths_.longest);
  return PositionIds(Tensor::from(lengths_.each, {rows()}));
}

void StackState::begin(Pass& pass, std::int64_t time) const {
  pass.past = lengths_;
  if (lengths_.each.empty()) return;
  std::vector<std::int64_t> ends = lengths_.each;
  for (std::int64_t& end : ends) end += time;
  pass.self.query_offsets = Tensor::from(lengths_.each, {rows()});
  pass.self.key_lengths = Tensor::from(ends, {rows()});
}

void StackState::advance(const Pass& pass, std::int64_t time) {
  if (!pass.lengths.empty() && lengths_.each.empty()) lengths_.each.assign(history_.size(), lengths_.longest);
  lengths_.longest += time;
  for (std::size_t row = 0; row < history_.size(); ++row) {
    const std::int64_t count = pass.lengths.empty() ? time : pass.lengths[row];
    for (std::int64_t t = 0; t < count; ++t) history_[row].push_back(tokens_seen_++);
    if (!lengths_.each.empty()) lengths_.each[row] += count;
  }
  if (!lengths_.each.empty())
    lengths_.longest = *std::max_element(lengths_.each.begin(), lengths_.each.end());
}

void StackState::reorder(std::span<const std::int64_t> rows) {
  RowReorder order{.from = {rows.begin(), rows.end()}, .old_rows = this->rows()};
  std::vector<std::vector<std::int64_t>> history;
  std::vector<std::int64_t> sources;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (rows[row] < 0 || rows[row] >= order.old_rows) {
      throw Error("decoding: expected rows below " + std::to_string(order.old_rows) + ", got " +
                  std::to_string(rows[row]));
    }
    const auto from = static_cast<std::size_t>(rows[row]);
    const std::vector<std::int64_t>& taken = history_[from];
    const bool old = row < history_.size();
    const auto common =
        !old ? taken.begin()
             : std::mismatch(taken.begin(), taken.end(), history_[row].begin(), history_[row].end()).first;
    order.common.push_back(common - taken.begin());
    order.lengths.push_back(lengths_.of(rows[row]));
    order.same_source.push_back(old && sources_[row] == sources_[from]);
    history.push_back(taken);
    sources.push_back(sources_[from]);
  }
  for (const auto& part : parts_) {
    if (part != nullptr) part->reorder(order);
  }
  history_ = std::move(history);
  sources_ = std::move(sources);
  if (lengths_.each.empty() || rows.empty()) return;
  lengths_.each = std::move(order.lengths);
  lengths_.longest = *std::max_element(lengths_.each.begin(), lengths_.each.end());
}

void StackState::truncate(std::int64_t length) {
  for (std::int64_t row = 0; row < rows(); ++row) {
    if (length < 0 || length > lengths_.of(row)) {
      throw Error("decoding: expected to keep at most " + std::to_string(lengths_.of(row)) + " tokens, got " +
                  std::to_string(length));
    }
  }
  if (length == lengths_.longest) return;
  for (const auto& part : parts_) {
    if (part != nullptr) part->truncate(length);
  }
  for (auto& row : history_) row.resize(static_cast<std::size_t>(length));
  lengths_ = {.longest = length};
}

void StackState::join(const StackState& other) {
  HEED_ASSERT(lengths_.longest > 0 && other.lengths_.longest > 0, "joined rows have tokens");
  const RowJoin join{rows(), other.rows(), lengths_.longest, other.lengths_.longest};
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i] != nullptr) parts_[i]->join(*other.parts_[i], join);
  }
  if (!lengths_.each.empty() || !other.lengths_.each.empty() || join.longest != join.more_longest) {
    std::vector<std::int64_t> each;
    for (std::int64_t row = 0; row < join.rows; ++row) each.push_back(lengths_.of(row));
    for (std::int64_t row = 0; row < join.more_rows; ++row) each.push_back(other.lengths_.of(row));
    lengths_ = {std::max(join.longest, join.more_longest), std::move(each)};
  }
  const auto last = std::max_element(sources_.begin(), sources_.end());
  const std::int64_t sources = last == sources_.end() ? 0 : *last + 1;
  for (const std::int64_t source : other.sources_) sources_.push_back(sources + source);
  for (std::vector<std::int64_t> tokens : other.history_) {
    for (std::int64_t& token : tokens) token += tokens_seen_;
    history_.push_back(std::move(tokens));
  }
  tokens_seen_ += other.tokens_seen_;
}

StackState StackState::copy_row(std::int64_t row, std::int64_t length) const {
  if (row < 0 || row >= rows() || length < 1 || length > lengths_.of(row)) {
    throw Error("decoding: expected a row below " + std::to_string(rows()) +
                " and at least one of its tokens, got " + std::to_string(length) + " tokens of row " +
                std::to_string(row));
  }
  StackState copy;
  for (const auto& part : parts_)
    copy.parts_.push_back(part != nullptr ? part->copy_row(row, lengths_.of(row), length) : nullptr);
  copy.lengths_.longest = copy.tokens_seen_ = length;
  copy.sources_ = {0};
  copy.history_.resize(1);
  for (std::int64_t token = 0; token < length; ++token) copy.history_[0].push_back(token);
  return copy;
}

std::int64_t StackState::chunk_size() const {
  std::int64_t chunk_size = 1;
  for (const auto& part : parts_) {
    if (part == nullptr) continue;
    const std::int64_t own = part->chunk_size();
    if (own == 0) return 0;
    chunk_size = std::lcm(chunk_size, own);
  }
  return chunk_size;
}

std::size_t StackState::bytes() const {
  std::size_t sum = 0;
  for (const auto& part : parts_) sum += part != nullptr ? part->bytes() : 0;
  return sum;
}

}  // namespace heed
