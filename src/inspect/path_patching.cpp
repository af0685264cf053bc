// Path patching along direct paths.
#include "heed/inspect/path_patching.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/nn/stack.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/shape.h"
#include "inspect/measured_run.h"
#include "inspect/stream_sum.h"
#include "inspect/taps.h"

namespace heed {
namespace {

using inspect::StreamPoint;

constexpr double kSameStream = 1e-3;  // of what sums in f32 leave

// Where the senders add to: the stack, up to the point that the receiver reads.
struct SenderStack {
  const Stack* stack = nullptr;
  StreamPoint point = {};
  bool of_memory = false;  // the encoder, whose output the receiver reads
};

[[noreturn]] void fail_receiver(const Model& model, const PathOptions& options) {
  const Component& r = options.receiver;
  const std::string number = std::to_string(r.layer) + "." + (r.head < 0 ? "ff" : std::to_string(r.head));
  throw Error("path: expected a head or feed-forward network in the " + r.stack + " of " + model.family() +
              " as receiver, got " + number);
}

SenderStack sender_stack(const Model& model, const PathOptions& options) {
  const Component& receiver = options.receiver;
  const Stack* stack = model.stack_named(receiver.stack);
  if (stack == nullptr || stack->layers.empty())
    throw Error("path: expected a model with residual streams in its " + receiver.stack + ", got " +
                model.family());
  if (options.input == PathInput::logits) return {stack, inspect::end_of(*stack)};
  if (receiver.layer < 0 || receiver.layer >= std::ssize(stack->layers)) fail_receiver(model, options);
  if (receiver.part == "cross_attn" && options.input != PathInput::query) {
    const Stack* encoder = model.stack_named("encoder");
    if (encoder == nullptr) fail_receiver(model, options);
    return {encoder, inspect::end_of(*encoder), true};
  }
  const auto& steps = stack->layers[static_cast<std::size_t>(receiver.layer)].steps;
  for (std::size_t step = 0; step < steps.size(); ++step) {
    for (const Sublayer& sublayer : steps[step].sublayers) {
      if (sublayer.name == receiver.part) return {stack, {receiver.layer, step}};
    }
  }
  fail_receiver(model, options);
}

// What the stream gets of what a part gives (Sublayer).
Tensor added_of(const Sublayer& sublayer, Tensor y) {
  if (sublayer.norm_after) y = (*sublayer.norm_after)(y);
  if (sublayer.multiplier != 1.0) y = y * sublayer.multiplier;
  return sublayer.scale.defined() ? y * sublayer.scale : y;
}

// What the sublayers of a stack add in one run, and its stream at the point.
class SenderRecord {
 public:
  struct Added {
    Tensor added, out, contributions;  // [1, T, D], [1, T, D], [1, H, T, D] of an attention
  };

  void listen(const SenderStack& senders, Taps& taps) {
    const auto keep = [&](const std::string& tap, Tensor& place) {
      taps.listen(tap, [&place](const std::string&, Tensor& value) { place = value.clone(); });
    };
    keep(senders.stack->name + ".embed", embed);
    keep(inspect::tap_of(*senders.stack, senders.point), stream);
    for (std::int64_t layer = 0; layer < std::ssize(senders.stack->layers); ++layer) {
      for (const ResidualStep& step : senders.stack->layers[static_cast<std::size_t>(layer)].steps) {
        for (const Sublayer& sublayer : step.sublayers) {
          if (layer > senders.point.layer) continue;
          Added& place = added[{layer, sublayer.name}];
          const std::string name =
              senders.stack->name + ".layers." + std::to_string(layer) + "." + sublayer.name;
          keep(name + ".added", place.added);
          keep(name + ".out", place.out);
          keep(name + ".contributions", place.contributions);
        }
      }
    }
  }

  Tensor embed, stream;
  std::map<std::pair<std::int64_t, std::string>, Added> added;
};

// The stream at the receiver, for one sender after the other: every other part adds what it adds in the base
// run.
class DirectStreams {
 public:
  DirectStreams(const SenderStack& senders, const SenderRecord& base, const SenderRecord& donor)
      : stack_(*senders.stack), point_(senders.point), base_(base), donor_(donor) {
    Tensor x = base.embed;
    for (std::int64_t layer = 0; layer < std::ssize(stack_.layers); ++layer) {
      const auto& steps = stack_.layers[static_cast<std::size_t>(layer)].steps;
      for (std::size_t step = 0; step < steps.size() && is_before(layer, step); ++step) {
        before_.push_back({layer, step, x});
        x = after(layer, steps[step], x, nullptr, {});
      }
    }
    double largest = 0, error = 0;
    for (const double value : inspect::numbers(base.stream)) largest = std::max(largest, std::abs(value));
    for (const double value : inspect::numbers(x - base.stream)) error = std::max(error, std::abs(value));
    HEED_ASSERT(!(error > kSameStream * largest), "the parts of a stream make it");
  }

  /// The number of senders.
  std::int64_t count() const {
    std::int64_t sum = 1;  // the embeddings
    for (const Before& before : before_) {
      const auto& steps = stack_.layers[static_cast<std::size_t>(before.layer)].steps;
      for (const Sublayer& sublayer : steps[before.step].sublayers) {
        const Tensor& heads = base_.added.at({before.layer, sublayer.name}).contributions;
        sum += heads.defined() ? heads.size(1) : 1;
      }
    }
    return sum;
  }
  /// Calls visit(names, streams [N, T, D]) for the senders of one sublayer after the other.
  template <class Visit>
  void each(Visit visit) const {
    visit(std::vector<StreamPart>{{.name = "embed"}}, walked(0, donor_.embed));
    for (std::size_t i = 0; i < before_.size(); ++i) {
      const auto& [layer, number, x] = before_[i];
      const ResidualStep& step = stack_.layers[static_cast<std::size_t>(layer)].steps[number];
      for (const Sublayer& sublayer : step.sublayers) {
        const SenderRecord::Added& own = base_.added.at({layer, sublayer.name});
        const SenderRecord::Added& theirs = donor_.added.at({layer, sublayer.name});
        std::vector<StreamPart> names;
        Tensor added = theirs.added;
        if (own.contributions.defined()) {
          const std::int64_t heads = own.contributions.size(1);
          for (std::int64_t head = 0; head < heads; ++head) names.push_back({sublayer.name, layer, head});
          const Tensor changes =
              reshape(theirs.contributions - own.contributions, {heads, own.out.size(1), own.out.size(2)});
          added = added_of(sublayer, own.out + changes);
        } else {
          names.push_back({.name = sublayer.name, .layer = layer});
        }
        visit(names, walked(i + 1, after(layer, step, x, &sublayer, added)));
      }
    }
  }

 private:
  struct Before {
    std::int64_t layer;
    std::size_t step;
    Tensor x;
  };

  bool is_before(std::int64_t layer, std::size_t step) const {
    return layer < point_.layer || (layer == point_.layer && step < point_.step);
  }
  // A residual step as the model computes it, of frozen sublayers, but for `changed`.
  Tensor after(std::int64_t layer, const ResidualStep& step, Tensor x, const Sublayer* changed,
               const Tensor& added) const {
    if (step.norm_input) x = (*step.norm_input)(x);
    for (const Sublayer& sublayer : step.sublayers)
      x = x + (&sublayer == changed ? added : base_.added.at({layer, sublayer.name}).added);
    return step.norm_sum ? (*step.norm_sum)(x) : x;
  }
  // From the step of that index on.
  Tensor walked(std::size_t index, Tensor x) const {
    for (std::size_t i = index; i < before_.size(); ++i) {
      const auto& [layer, number, base] = before_[i];
      x = after(layer, stack_.layers[static_cast<std::size_t>(layer)].steps[number], x, nullptr, {});
    }
    return x;
  }

  const Stack& stack_;
  StreamPoint point_;
  const SenderRecord &base_, &donor_;
  std::vector<Before> before_;  // of the base run
};

// Rows [begin, end) of the value become those of `by`.
void put_rows(const Tensor& value, std::int64_t begin, std::int64_t end, const Tensor& by) {
  slice(value, 0, begin, end).copy_from(by);
}

class PathRuns {
 public:
  PathRuns(const Model& model, const TensorMap& base, const TensorMap& donor, const PathOptions& options)
      : model_(model),
        options_(options),
        base_{base, options.metric},
        donor_{donor, options.metric},
        senders_(sender_stack(model, options)) {
    inspect::check_same_shapes(base, donor, "path");
    inspect::check_metric(model, base_, "path");
  }

  PathResult run() {
    inspect::RunRow row{&base_};
    if (options_.metric.kind == MetricKind::kl)
      reference_ = row.reference = inspect::log_probabilities(model_, {&row, 1}).front();
    SenderRecord of_base, of_donor;
    {
      Taps taps;
      of_base.listen(senders_, taps);
      layers_.listen(model_, taps);
      taps.listen(receiver_tap(), [&](const std::string&, Tensor& value) {
        if (options_.receiver.head >= value.size(1)) fail_receiver(model_, options_);
      });
      result_.base = measured(row, taps);
    }
    {
      Taps taps;
      of_donor.listen(senders_, taps);
      result_.donor = measured({&donor_, reference_}, taps);
    }
    inspect::check_metrics_differ(result_.base, result_.donor, "path");
    const DirectStreams streams(senders_, of_base, of_donor);
    streams.each([&](const std::vector<StreamPart>& names, const Tensor& all) {
      result_.senders.insert(result_.senders.end(), names.begin(), names.end());
      const std::int64_t most = std::max<std::int64_t>(1, inspect::rows_at_once(all.size(1)) / 2);
      for (std::int64_t begin = 0; begin < all.size(0); begin += most) {
        const Tensor some = slice(all, 0, begin, std::min(all.size(0), begin + most)).contiguous();
        const std::vector<double> values =
            options_.input == PathInput::logits ? run_to_logits(some) : run_to_receiver(some);
        result_.patched.insert(result_.patched.end(), values.begin(), values.end());
      }
      if (options_.progress) options_.progress(std::ssize(result_.senders), streams.count());
    });
    return std::move(result_);
  }

 private:
  std::string receiver_tap() const {
    const Component& r = options_.receiver;
    if (options_.input == PathInput::logits)
      return r.stack + ".layers." + std::to_string(std::ssize(senders_.stack->layers) - 1) + ".out";
    return receiver_name() + (r.head < 0 ? ".added" : ".heads");
  }
  std::string receiver_name() const {
    return options_.receiver.stack + ".layers." + std::to_string(options_.receiver.layer) + "." +
           options_.receiver.part;
  }
  double measured(const inspect::RunRow& row, Taps& taps) const {
    return inspect::numbers(inspect::run_measured(model_, {&row, 1}, &taps)).front();
  }
  std::vector<double> run_rows(std::int64_t count, Taps& taps) const {
    const std::vector<inspect::RunRow> rows(static_cast<std::size_t>(count),
                                            inspect::RunRow{&base_, reference_});
    return inspect::numbers(inspect::run_measured(model_, rows, &taps));
  }

  std::vector<double> run_to_logits(const Tensor& streams) const {
    Taps taps;
    taps.listen(receiver_tap(), replace_by(streams));
    const auto resumed = layers_.resume(options_.receiver.stack, std::ssize(senders_.stack->layers) - 1,
                                        std::vector<std::int64_t>(static_cast<std::size_t>(streams.size(0))));
    return run_rows(streams.size(0), taps);
  }

  // Two rows for each stream: in the first the receiver reads it, in the second it gives what it gave there.
  std::vector<double> run_to_receiver(const Tensor& streams) const {
    const std::int64_t count = streams.size(0);
    Taps taps;
    const auto listen = [&](const std::string& tap, auto change) {
      taps.listen(tap, [change](const std::string&, Tensor& value) {
        value = value.clone();
        change(value);
      });
    };
    const std::vector<std::int64_t> rows(static_cast<std::size_t>(2 * count));
    const auto resumed = layers_.resume(options_.receiver.stack, options_.receiver.layer, rows);
    std::optional<StackResume> memory;
    if (senders_.of_memory) {
      const Tensor base =
          layers_.end(senders_.stack->name, std::vector<std::int64_t>(static_cast<std::size_t>(count)));
      memory.emplace(senders_.stack->name, std::ssize(senders_.stack->layers), concat({streams, base}, 0));
    } else {
      listen(inspect::tap_of(*senders_.stack, senders_.point),
             [&](const Tensor& value) { put_rows(value, 0, count, streams); });
    }
    constexpr std::pair<PathInput, const char*> kInputs[] = {
        {PathInput::query, ".q"}, {PathInput::key, ".k"}, {PathInput::value, ".v"}};
    for (const auto& [input, tap] : kInputs) {
      if (options_.receiver.head < 0 || input == options_.input) continue;
      listen(receiver_name() + tap,
             [&](const Tensor& value) { put_rows(value, 0, count, slice(value, 0, count, 2 * count)); });
    }
    listen(receiver_tap(), [&](const Tensor& value) {
      const std::int64_t head = options_.receiver.head;
      const Tensor own = head < 0 ? value : slice(value, 1, head, head + 1);
      put_rows(own, count, 2 * count, slice(own, 0, 0, count));
    });
    const std::vector<double> values = run_rows(2 * count, taps);
    return {values.begin() + count, values.end()};
  }

  const Model& model_;
  const PathOptions& options_;
  MeasuredInput base_, donor_;
  SenderStack senders_;
  inspect::LayerInputs layers_;  // of the base run
  Tensor reference_;
  PathResult result_;
};

}  // namespace

double PathResult::effect(std::size_t sender) const { return (patched[sender] - base) / (donor - base); }

PathResult patch_paths(const Model& model, const TensorMap& base, const TensorMap& donor,
                       const PathOptions& options) {
  const NoGradients guard;
  return PathRuns(model, base, donor, options).run();
}

}  // namespace heed
