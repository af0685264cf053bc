// Records the attention of one forward pass through the model's taps, and measures it.
#include "heed/inspect/record.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/models/kind.h"
#include "heed/nn/context.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/matmul.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "inspect/replacements.h"

namespace heed {
namespace {

constexpr const char* kPool = "pool";

// [1, H, ...] -> [H, ...], f32, without history.
Tensor only_row(const Tensor& x, const std::string& name) {
  if (x.size(0) != 1) throw Error(name + ": expected one row, got " + std::to_string(x.size(0)));
  return reshape(x.detach().to(DType::f32).contiguous(), {x.size(1), x.size(2), x.size(3)}).clone();
}

// For each head h: dA = dO v^T, where O = A v. heads [H, T, d], values [K, S, d].
Tensor gradient_of_weights(const Tensor& heads, const Tensor& values) {
  const std::int64_t group = heads.size(0) / values.size(0);
  const Tensor grouped = reshape(heads, {values.size(0), group * heads.size(1), heads.size(2)});
  return reshape(matmul(grouped, transpose(values, 1, 2)), {heads.size(0), heads.size(1), values.size(1)});
}

// The listeners of one kind of attention, and what they heard, by layer.
class KindRecorder {
 public:
  KindRecorder(Taps& taps, const AttentionKind& kind, const RecordOptions& options) : kind_(kind) {
    const TapSelection queries{.queries = options.queries}, keys{.queries = {}, .keys = options.keys};
    listen(taps, options, "weights", {options.heads, options.queries, options.keys},
           [](Entry& e, Tensor& x) { e.layer.weights = only_row(x, e.layer.name); });
    listen(taps, options, "heads", {}, [](Entry& e, Tensor& x) { e.layer.all_queries = x.size(2); });
    listen(taps, options, "v", {}, [](Entry& e, Tensor& x) { e.layer.all_keys = x.size(2); });
    if (options.value_norms) {
      listen(taps, options, "transformed", keys, [](Entry& e, Tensor& x) {
        const NoGradients guard;
        const Tensor f = only_row(x, e.layer.name);
        e.layer.value_norms = sqrt(sum(f * f, 2));
      });
    }
    if (options.vectors) {
      listen(taps, options, "q", queries, [](Entry& e, Tensor& x) { e.layer.q = only_row(x, e.layer.name); });
      listen(taps, options, "k", keys, [](Entry& e, Tensor& x) { e.layer.k = only_row(x, e.layer.name); });
    }
    if (options.values)
      listen(taps, options, "v", keys, [](Entry& e, Tensor& x) { e.layer.v = only_row(x, e.layer.name); });
    if (!options.gradient) return;
    listen(taps, options, "v", keys, [](Entry& e, Tensor& x) { e.values = only_row(x, e.layer.name); });
    listen(taps, options, "heads", {}, [](Entry& e, Tensor& x) {
      // The weights have no gradient of their own; that of the heads' outputs, O = A v, gives it.
      e.offset = Tensor::zeros(x.shape(), x.dtype()).set_requires_grad();
      x = x + e.offset;
    });
  }

  void finish(AttentionRecord& record, const RecordOptions& options) {
    for (auto& [index, entry] : entries_) {
      if (options.gradient && entry.offset.defined()) {
        const NoGradients guard;
        const Tensor of_heads = entry.offset.grad();
        const Tensor heads =
            only_row(of_heads.defined() ? of_heads : Tensor::zeros(entry.offset.shape()), entry.layer.name);
        const std::int64_t first = options.queries.begin, end = options.queries.end.value_or(heads.size(1));
        entry.layer.gradient = gradient_of_weights(slice(heads, 1, first, end).contiguous(), entry.values);
      }
      record.layers.push_back(std::move(entry.layer));
    }
  }

 private:
  struct Entry {
    RecordedLayer layer;
    Tensor values, offset;
  };

  void listen(Taps& taps, const RecordOptions& options, const std::string& what,
              const TapSelection& selection, const std::function<void(Entry&, Tensor&)>& keep) {
    const bool pools = kind_.part == kPool;  // once, after the layers
    const std::string prefix = kind_.stack + ".layers.", suffix = "." + kind_.part + "." + what;
    const auto add = [&](const std::string& layer) {
      taps.listen(pools ? kind_.stack + suffix : prefix + layer + suffix, selection,
                  [this, prefix, pools, keep](const std::string& name, Tensor& x) {
                    const std::int64_t index = pools ? 0 : std::stoll(name.substr(prefix.size()));
                    Entry& entry = entries_[index];
                    entry.layer.name = name.substr(0, name.rfind('.'));
                    entry.layer.kind = kind_.name;
                    entry.layer.layer = index;
                    keep(entry, x);
                  });
    };
    if (options.layers.empty() || pools) return add("*");
    for (const std::int64_t layer : options.layers) add(std::to_string(layer));
  }

  AttentionKind kind_;
  std::map<std::int64_t, Entry> entries_;
};

Tensor chosen_logit(const Tensor& logits, const LogitChoice& choice) {
  const bool tokens = logits.rank() == 3;
  const Tensor row = tokens ? slice(logits, 1, choice.position, choice.position + 1) : logits;
  return slice(row, row.rank() - 1, choice.token, choice.token + 1);
}

void check_choice(const Tensor& logits, const LogitChoice& choice) {
  if (!logits.defined()) throw Error("gradient: expected a model with logits, got one without a head");
  const std::int64_t positions = logits.rank() == 3 ? logits.size(1) : choice.position + 1;
  const std::int64_t tokens = logits.size(logits.rank() - 1);
  if (choice.position < 0 || choice.position >= positions)
    throw Error("gradient: expected a position below " + std::to_string(positions) + ", got " +
                std::to_string(choice.position));
  if (choice.token < 0 || choice.token >= tokens)
    throw Error("gradient: expected a token or label below " + std::to_string(tokens) + ", got " +
                std::to_string(choice.token));
}

const char* logits_name(const TensorMap& outputs) {
  return outputs.contains("logits_per_text") ? "logits_per_text" : "logits";
}

// The parameters' gradients are not wanted.
void zero_gradients(const Model& model) {
  for (const Parameter& parameter : model.parameters()) parameter.tensor.zero_grad();
}

// The chosen heads of a layer; none chosen: all.
std::vector<std::int64_t> heads_of(const RecordedLayer& layer, std::span<const std::int64_t> chosen) {
  std::vector<std::int64_t> heads(chosen.begin(), chosen.end());
  for (std::int64_t head = 0; chosen.empty() && head < layer.weights.size(0); ++head) heads.push_back(head);
  return heads;
}

void require_recorded(const Tensor& recorded, const RecordedLayer& layer, const char* measure) {
  if (recorded.defined()) return;
  throw Error(layer.name + ": expected attention with heads and an output projection for " + measure +
              ", got another (its weights, their mean and their maximum can be shown)");
}

std::vector<AttentionKind> kinds_of_both(const EncoderDecoderModel& both) {
  std::vector<AttentionKind> kinds;
  if (both.has_cross_attention()) kinds.push_back({"cross", "decoder", "cross_attn"});
  if (both.has_self_attention()) {
    kinds.push_back({"encoder", "encoder", "self_attn"});
    kinds.push_back({"decoder", "decoder", "self_attn"});
  }
  if (kinds.empty())
    throw Error("attend: expected a model with attention, got " + both.family() +
                " without (config.json: attention)");
  return kinds;
}

}  // namespace

std::vector<AttentionKind> attention_kinds(const Model& model) {
  using Kinds = std::vector<AttentionKind>;
  return visit(
      model,
      [](const DecoderModel&) {
        return Kinds{{"decoder", "decoder", "self_attn"}};
      },
      [](const EncoderModel& encoder) {
        return Kinds{{"encoder", encoder.stack_name(), "self_attn"}};
      },
      [](const EncoderDecoderModel& both) { return kinds_of_both(both); },
      [](const DualEncoderModel& dual) -> Kinds {
        throw Error("attend: expected a model with one encoder or decoder, got " + dual.family() +
                    " (heed attend IMAGE --text TEXT shows both towers)");
      });
}

std::vector<AttentionKind> attention_kinds(const DualEncoderModel& model) {
  std::vector<AttentionKind> kinds{{"image", "image_encoder", "self_attn"},
                                   {"text", "text_encoder", "self_attn"}};
  if (model.input().leading == 0) kinds.push_back({"pooling", "image_encoder", kPool});  // no class token
  return kinds;
}

AttentionRecord record_attention(const Model& model, const TensorMap& inputs, const RecordOptions& options) {
  Taps taps(options.taps);
  std::vector<std::unique_ptr<KindRecorder>> recorders;
  for (const AttentionKind& kind : options.kinds)
    recorders.push_back(std::make_unique<KindRecorder>(taps, kind, options));
  std::optional<NoGradients> guard;
  if (!options.gradient) guard.emplace();
  Context context{.taps = &taps, .stop = options.stop};
  const TensorMap outputs = model.forward(inputs, {}, context);
  AttentionRecord record;
  for (const auto& [name, value] : outputs) record.outputs[name] = value.detach();
  const char* const name = logits_name(outputs);
  if (const auto found = record.outputs.find(name); found != record.outputs.end())
    record.logits = found->second;
  if (options.gradient) {
    check_choice(record.logits, *options.gradient);
    const Tensor logit = chosen_logit(outputs.at(name), *options.gradient);
    logit.backward(Tensor::full(logit.shape(), 1.0, logit.dtype()));
    zero_gradients(model);
  }
  for (const auto& recorder : recorders) recorder->finish(record, options);
  return record;
}

Tensor value_weighted_norms(const RecordedLayer& layer) {
  const NoGradients guard;
  require_recorded(layer.value_norms, layer, "value-weighted norms");
  return layer.weights * unsqueeze(layer.value_norms, 1);
}

Tensor gradient_times_attention(const RecordedLayer& layer) {
  const NoGradients guard;
  require_recorded(layer.gradient, layer, "gradients");
  return layer.weights * layer.gradient;
}

std::vector<Tensor> attention_rollout(std::span<const Tensor> weights) {
  const NoGradients guard;
  std::vector<Tensor> result;
  for (const Tensor& layer : weights) {
    const std::int64_t tokens = layer.size(1);
    if (layer.size(2) != tokens) throw Error("rollout: expected weights [H, T, T], got " + layer.str());
    std::vector<float> identity(static_cast<std::size_t>(tokens * tokens));
    for (std::int64_t i = 0; i < tokens; ++i) identity[static_cast<std::size_t>(i * (tokens + 1))] = 0.5f;
    const Tensor step = mean(layer, 0) * 0.5 + Tensor::from(identity, {tokens, tokens});
    const Tensor rows = step / sum(step, 1, true);
    result.push_back(result.empty() ? rows : matmul(rows, result.back()));
  }
  return result;
}

std::vector<HeadAblation> ablate_heads(const Model& model, const TensorMap& inputs,
                                       const AttentionRecord& record, std::span<const LogitChoice> choices,
                                       const HeadAblationOptions& options) {
  const NoGradients guard;
  std::vector<double> whole;
  for (const LogitChoice& choice : choices) {
    check_choice(record.logits, choice);
    whole.push_back(chosen_logit(record.logits, choice).item());
  }
  std::int64_t passes = 0, pass = 0;
  std::set<std::string> names;
  for (const RecordedLayer& layer : record.layers) {
    passes += std::ssize(heads_of(layer, options.heads));
    names.insert(layer.name + ".heads");
  }
  const AblationOptions& ablation = options.ablation;
  const std::vector<const TensorMap*> references =
      inspect::references_of(ablation, std::vector<const TensorMap*>{&inputs});
  const inspect::Replacements values =
      inspect::ReplacementSource(model, names, ablation, references)
          .of(std::vector<inspect::ReplacedInput>{{inputs, ablation.reference.empty() ? 0 : -1, 0}});
  Taps removed;
  replace_components(removed, model, inputs, ablation);
  std::vector<HeadAblation> result;
  for (const RecordedLayer& layer : record.layers) {
    for (const std::int64_t head : heads_of(layer, options.heads)) {
      if (ablation.progress) ablation.progress(pass++, passes);
      Taps taps(&removed);
      taps.listen(layer.name + ".heads", [&](const std::string& tap, Tensor& x) {
        x = x.clone();
        inspect::replace_component(values, tap, x, 0, {.head = head}, 0);
      });
      Context context{.taps = &taps, .stop = options.stop};
      const TensorMap outputs = model.forward(inputs, {}, context);
      const Tensor& logits = outputs.at(logits_name(outputs));
      taps.require_all_fired();
      HeadAblation& one = result.emplace_back(HeadAblation{layer.kind, layer.layer, head, {}});
      for (std::size_t i = 0; i < choices.size(); ++i)
        one.change.push_back(static_cast<float>(chosen_logit(logits, choices[i]).item() - whole[i]));
    }
  }
  return result;
}

}  // namespace heed
