// Sparse autoencoders and transcoders.
#include "heed/inspect/features.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "core/strings.h"
#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/io/json.h"
#include "heed/io/safetensors.h"
#include "heed/models/kind.h"
#include "heed/nn/stack.h"
#include "heed/ops.h"
#include "inspect/stream_sum.h"
#include "inspect/taps.h"

namespace heed {

namespace fs = std::filesystem;

struct SparseCoder::Parts {
  enum class Norm { none, rescale, standardize };

  Tensor w_enc, b_enc;       // [inputs, features], [features]
  Tensor w_dec, b_dec;       // [features, outputs], [outputs]
  Tensor w_skip;             // [outputs, inputs], or undefined
  Tensor threshold;          // of JumpReLU, [features]
  Tensor magnitude, b_gate;  // of a gate: exp(r_mag) and b_gate, [features]; b_enc is then b_mag
  Tensor row_norms;          // of w_dec, where features are in units of them
  std::int64_t k = 0;        // the largest so many; 0: all
  bool subtracts_bias = false, transcodes = false;
  Norm norm = Norm::none;
  std::string reads, writes;
};

namespace {

/// The tensors of a file, with checked shapes, as f32.
class CoderFile {
 public:
  explicit CoderFile(const fs::path& path) : file_(SafetensorsFile::open(path)) {}
  bool contains(const std::string& name) const { return file_.contains(name); }
  /// Axes of -1 have any length.
  Tensor get(const std::string& name, const std::vector<std::int64_t>& shape) const {
    if (!file_.contains(name)) fail(name, "a tensor of that name", "none");
    const Tensor tensor = file_.get(name);
    bool fits = tensor.shape().rank() == static_cast<int>(shape.size()) && is_floating(tensor.dtype());
    for (std::size_t i = 0; fits && i < shape.size(); ++i)
      fits = tensor.size(static_cast<int>(i)) > 0 &&
             (shape[i] < 0 || tensor.size(static_cast<int>(i)) == shape[i]);
    if (!fits) {
      const auto size = [](std::int64_t n) { return n < 0 ? "n" : std::to_string(n); };
      fail(name, "floating numbers [" + joined(shape, ", ", size) + "]", tensor.str());
    }
    return tensor.to(DType::f32);
  }

 private:
  [[noreturn]] void fail(const std::string& name, const std::string& expected, const std::string& got) const {
    throw Error(file_.path().string() + ": " + name + ": expected " + expected + ", got " + got);
  }
  SafetensorsFile file_;
};

Tensor mean_of_squares(const Tensor& x) { return mean(x * x, -1, true); }

/// The number after a prefix that ends a name's part, as 8 in `blocks.8.hook`; and what follows.
struct NumberedName {
  std::int64_t number = 0;
  std::string rest;
};
std::optional<NumberedName> numbered_after(const std::string& name, const std::string& prefix) {
  const std::size_t at = name.rfind(prefix);
  if (at == std::string::npos || (at > 0 && name[at - 1] != '.')) return std::nullopt;
  std::size_t end = at + prefix.size();
  while (end < name.size() && name[end] >= '0' && name[end] <= '9') ++end;
  const std::string digits = name.substr(at + prefix.size(), end - at - prefix.size());
  if (digits.empty() || digits.size() > 6 || (end < name.size() && name[end] != '.')) return std::nullopt;
  return NumberedName{std::stoll(digits), end < name.size() ? name.substr(end + 1) : ""};
}

struct HookName {
  const char *hook, *tap;
};
constexpr std::array kHooks = std::to_array<HookName>({{"hook_resid_pre", "in"},
                                                       {"hook_resid_mid", "mid"},
                                                       {"hook_resid_post", "out"},
                                                       {"hook_mlp_in", "mid"},
                                                       {"hook_mlp_out", "feed_forward.added"},
                                                       {"hook_attn_out", "self_attn.added"},
                                                       {"attn.hook_z", "self_attn.heads"},
                                                       {"mlp.hook_post", "feed_forward.inner"},
                                                       {"ln1.hook_normalized", "self_attn.norm"},
                                                       {"ln2.hook_normalized", "feed_forward.norm"}});
// Of modules: their outputs, and what those of transcoders read.
struct ModuleName {
  const char *module, *input, *output;
};
constexpr std::array kModules =
    std::to_array<ModuleName>({{"", "in", "out"},
                               {"mlp", "feed_forward.norm", "feed_forward.out"},
                               {"feed_forward", "feed_forward.norm", "feed_forward.out"},
                               {"self_attn", "self_attn.norm", "self_attn.out"},
                               {"attn", "self_attn.norm", "self_attn.out"},
                               {"attention", "self_attn.norm", "self_attn.out"}});

std::string stack_of(const Model& model) {
  const auto* encoder = as<EncoderModel>(model);
  return encoder != nullptr ? encoder->stack_name() : "decoder";
}

std::string tap_of(const Model& model, const std::string& name, bool input) {
  const std::string layers = stack_of(model) + ".layers.";
  if (const auto block = numbered_after(name, "blocks.")) {
    for (const HookName& known : kHooks) {
      if (block->rest == known.hook) return layers + std::to_string(block->number) + "." + known.tap;
    }
  }
  for (const char* list : {"layers.", "layer.", "h."}) {
    const auto layer = numbered_after(name, list);
    for (const ModuleName& known : kModules) {
      if (layer && layer->rest == known.module)
        return layers + std::to_string(layer->number) + "." + (input ? known.input : known.output);
    }
  }
  throw Error(
      "sparse coder: expected a place in the model that is known, as blocks.8.hook_resid_pre or "
      "layers.8.mlp, got \"" +
      name + "\" (name the tap)");
}

/// A value of the model as rows of the coder's width: [B, T, D], or heads [B, H, T, d] side by side.
Tensor rows_of(const Tensor& value, std::int64_t width, const std::string& tap) {
  if (value.shape().rank() == 4 && value.size(1) * value.size(3) == width)
    return reshape(transpose(value, 1, 2).contiguous(), {value.size(0), value.size(2), width});
  if (value.shape().rank() != 3 || value.size(2) != width)
    throw Error("sparse coder: expected a coder for " + tap + " " + value.shape().str() + ", got one of " +
                std::to_string(width) + " numbers");
  return value.to(DType::f32);
}
Tensor as_value(const Tensor& rows, const Tensor& like) {
  if (like.shape().rank() == 3) return rows.to(like.dtype());
  return transpose(reshape(rows, {like.size(0), like.size(2), like.size(1), like.size(3)}), 1, 2)
      .contiguous()
      .to(like.dtype());
}

/// The k largest of each row, others 0.
Tensor keep_largest(const Tensor& x, std::int64_t k) {
  Tensor kept = Tensor::zeros(x.shape());
  const std::int64_t width = x.size(-1), rows = x.numel() / width;
  const Tensor flat = x.contiguous();
  for (std::int64_t i = 0; i < rows; ++i) {
    const float* from = flat.data<float>() + i * width;
    std::vector<std::int64_t> order(static_cast<std::size_t>(width));
    for (std::int64_t j = 0; j < width; ++j) order[static_cast<std::size_t>(j)] = j;
    const auto end = order.begin() + static_cast<std::ptrdiff_t>(std::min(k, width));
    std::nth_element(order.begin(), end - 1, order.end(), [&](std::int64_t a, std::int64_t b) {
      return from[a] != from[b] ? from[a] > from[b] : a < b;
    });
    for (auto j = order.begin(); j != end; ++j) kept.data<float>()[i * width + *j] = from[*j];
  }
  return kept;
}

/// 1 where x > limit, else 0.
Tensor above(const Tensor& x, const Tensor& limit) {
  Tensor result = Tensor::empty(x.shape());
  const Tensor flat = x.contiguous(), limits = limit.contiguous();
  const std::int64_t width = x.size(-1);
  const float *from = flat.data<float>(), *to = limits.data<float>();
  for (std::int64_t i = 0; i < x.numel(); ++i)
    result.data<float>()[i] = from[i] > to[i % width] ? 1.0F : 0.0F;
  return result;
}

}  // namespace

SparseCoder SparseCoder::load(const fs::path& directory) {
  const Config config = Config::load(directory / "cfg.json");
  auto parts = std::make_shared<Parts>();
  Parts& p = *parts;
  const auto width = [&](const char* key) { return config.required_positive_integer(key); };
  const std::int64_t inputs = width("d_in");
  const fs::path sparsify = directory / "sae.safetensors";
  if (fs::exists(sparsify)) {
    const CoderFile file(sparsify);
    p.w_enc = transpose(file.get("encoder.weight", {-1, inputs}), 0, 1).contiguous();
    const std::int64_t features = p.w_enc.size(1);
    p.b_enc = file.get("encoder.bias", {features});
    p.w_dec = file.get("W_dec", {features, -1});
    p.b_dec = file.get("b_dec", {p.w_dec.size(1)});
    p.transcodes = config.boolean("transcode", false);
    p.subtracts_bias = !p.transcodes;
    if (config.boolean("skip_connection", false)) p.w_skip = file.get("W_skip", {p.w_dec.size(1), inputs});
    const std::string activation = config.string("activation", "topk");
    if (activation != "topk") config.fail("activation", "topk");
    p.k = config.required_positive_integer("k");
    p.reads = p.writes = fs::absolute(directory).lexically_normal().filename().string();
    if (p.reads.empty())
      p.reads = p.writes = fs::absolute(directory).lexically_normal().parent_path().filename().string();
    return SparseCoder(std::move(parts));
  }
  const CoderFile file(directory / "sae_weights.safetensors");
  const std::string architecture = config.string("architecture", "standard");
  p.transcodes = architecture.find("transcoder") != std::string::npos;
  const std::int64_t features = width("d_sae"),
                     outputs = p.transcodes ? config.positive_integer("d_out", inputs) : inputs;
  p.w_enc = file.get("W_enc", {inputs, features});
  p.w_dec = file.get("W_dec", {features, outputs});
  p.b_dec = file.get("b_dec", {outputs});
  const bool gated = architecture == "gated";
  p.b_enc = file.get(gated ? "b_mag" : "b_enc", {features});
  if (gated) {
    p.magnitude = exp(file.get("r_mag", {features}));
    p.b_gate = file.get("b_gate", {features});
  } else if (architecture == "jumprelu" || architecture == "jumprelu_transcoder" ||
             architecture == "jumprelu_skip_transcoder") {
    p.threshold = file.get("threshold", {features});
  } else if (architecture == "topk") {
    const std::optional<Config> arguments = config.optional_sub("activation_fn_kwargs");
    p.k = config.has("k") ? config.required_positive_integer("k")
          : arguments     ? arguments->positive_integer("k", 0)
                          : config.required_positive_integer("k");
    if (config.boolean("rescale_acts_by_decoder_norm", false)) p.row_norms = sqrt(sum(p.w_dec * p.w_dec, 1));
  } else if (architecture != "standard" && architecture != "transcoder" &&
             architecture != "skip_transcoder") {
    config.fail("architecture",
                "standard, jumprelu, gated, topk, transcoder, skip_transcoder, jumprelu_transcoder or "
                "jumprelu_skip_transcoder");
  }
  if (architecture.find("skip") != std::string::npos) p.w_skip = file.get("W_skip", {outputs, inputs});
  if (architecture == "standard" &&
      config.string("activation_fn_str", config.string("activation_fn", "relu")) == "topk")
    p.k = config.sub("activation_fn_kwargs").required_positive_integer("k");
  p.subtracts_bias = !p.transcodes && config.boolean("apply_b_dec_to_input", true);
  const std::string norm =
      config.is_string("normalize_activations") ? config.string("normalize_activations", "none") : "none";
  if (norm == "constant_norm_rescale") {
    p.norm = Parts::Norm::rescale;
  } else if (norm == "layer_norm") {
    p.norm = Parts::Norm::standardize;
  } else if (norm != "none") {
    config.fail("normalize_activations",
                "none, constant_norm_rescale or layer_norm (fold the scale into the weights first)");
  }
  if (!config.is_off("finetuning_scaling_factor")) config.fail("finetuning_scaling_factor", "false");
  const std::optional<Config> metadata = config.optional_sub("metadata");
  const auto named = [&](const char* key) {
    return config.has(key) ? config.string(key, "") : metadata ? metadata->string(key, "") : "";
  };
  p.reads = named("hook_name");
  p.writes = p.transcodes ? named("hook_name_out") : p.reads;
  if (p.writes.empty() && p.transcodes && numbered_after(p.reads, "blocks."))
    p.writes = "blocks." + std::to_string(numbered_after(p.reads, "blocks.")->number) + ".hook_mlp_out";
  return SparseCoder(std::move(parts));
}

std::int64_t SparseCoder::inputs() const { return parts_->w_enc.size(0); }
std::int64_t SparseCoder::features() const { return parts_->w_enc.size(1); }
std::int64_t SparseCoder::outputs() const { return parts_->w_dec.size(1); }
bool SparseCoder::is_transcoder() const { return parts_->transcodes; }
const std::string& SparseCoder::reads() const { return parts_->reads; }
const std::string& SparseCoder::writes() const { return parts_->writes; }

namespace {

// The deviation that PyTorch's std() computes: of a sample.
Tensor sample_deviation(const Tensor& centered) {
  const auto n = static_cast<double>(centered.size(-1));
  return sqrt(mul(mean_of_squares(centered), n / std::max(n - 1, 1.0)));
}

}  // namespace

Tensor SparseCoder::encode(const Tensor& value) const {
  const NoGradients guard;
  const Parts& p = *parts_;
  Tensor x = value.to(DType::f32);
  if (p.norm == Parts::Norm::rescale) x = x / sqrt(mean_of_squares(x));
  if (p.norm == Parts::Norm::standardize) {
    const Tensor centered = x - mean(x, -1, true);
    x = centered / add(sample_deviation(centered), 1e-5);
  }
  if (p.subtracts_bias) x = x - p.b_dec;
  const Tensor product = matmul(x, p.w_enc);
  if (p.b_gate.defined())
    return above(product + p.b_gate, Tensor::zeros({features()})) * relu(product * p.magnitude + p.b_enc);
  Tensor f = product + p.b_enc;
  if (p.threshold.defined()) return relu(f) * above(f, p.threshold);
  if (p.row_norms.defined()) f = f * p.row_norms;
  return relu(p.k > 0 ? keep_largest(f, p.k) : f);
}

Tensor SparseCoder::decode(const Tensor& features, const Tensor& value) const {
  const NoGradients guard;
  const Parts& p = *parts_;
  const Tensor x = value.to(DType::f32);
  Tensor y = matmul(p.row_norms.defined() ? features / p.row_norms : features, p.w_dec) + p.b_dec;
  if (!p.transcodes && p.norm == Parts::Norm::rescale) y = y * sqrt(mean_of_squares(x));
  if (!p.transcodes && p.norm == Parts::Norm::standardize) {
    const Tensor middle = mean(x, -1, true);
    y = y * sample_deviation(x - middle) + middle;
  }
  return p.w_skip.defined() ? y + linear(x, p.w_skip) : y;
}

Tensor SparseCoder::direction(std::int64_t feature) const {
  inspect::check_position("feature", feature, features());
  return slice(parts_->w_dec, 0, feature, feature + 1).contiguous();
}

FeatureSites feature_sites(const Model& model, const SparseCoder& coder) {
  return {tap_of(model, coder.reads(), coder.is_transcoder()), tap_of(model, coder.writes(), false)};
}

FeatureActivations feature_activations(const Model& model, const TensorMap& inputs, const SparseCoder& coder,
                                       const FeatureSites& sites) {
  const NoGradients guard;
  Tensor x, target;
  Taps taps;
  taps.listen(sites.reads, [&](const std::string& name, Tensor& value) {
    x = rows_of(value, coder.inputs(), name).clone();
  });
  taps.listen(sites.writes, [&](const std::string& name, Tensor& value) {
    target = rows_of(value, coder.outputs(), name).clone();
  });
  Context context{.taps = &taps};
  model.forward(inputs, {.logits = false}, context);
  taps.require_all_fired();
  FeatureActivations result;
  const Tensor f = coder.encode(x), y = coder.decode(f, x);
  result.values = reshape(f, {f.size(0) * f.size(1), f.size(2)});
  const std::vector<double> made = inspect::numbers(y), wanted = inspect::numbers(target);
  const std::int64_t width = coder.outputs(), positions = std::ssize(wanted) / width;
  std::vector<double> middle(static_cast<std::size_t>(width));
  for (std::size_t i = 0; i < wanted.size(); ++i)
    middle[i % middle.size()] += wanted[i] / static_cast<double>(positions);
  double missed = 0, all = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    missed += std::pow(made[i] - wanted[i], 2);
    all += std::pow(wanted[i] - middle[i % middle.size()], 2);
  }
  result.explained = all > 0 ? 1 - missed / all : 0;
  const std::vector<float> values = result.values.to_vector<float>();
  result.active_features =
      static_cast<double>(std::count_if(values.begin(), values.end(), [](float v) { return v > 0; })) /
      static_cast<double>(positions);
  return result;
}

void scale_features(Taps& taps, const SparseCoder& coder, const FeatureSites& sites,
                    const std::map<std::int64_t, double>& factors) {
  for (const auto& [feature, factor] : factors) inspect::check_position("feature", feature, coder.features());
  // What is written more, from when it is read until it is written: of an autoencoder at once.
  const auto more = std::make_shared<Tensor>();
  const auto read = [coder, factors, more](const std::string& name, const Tensor& value) {
    const Tensor x = rows_of(value, coder.inputs(), name), f = coder.encode(x);
    Tensor scaled = f.clone();
    const std::int64_t width = coder.features();
    for (const auto& [feature, factor] : factors) {
      for (std::int64_t i = feature; i < scaled.numel(); i += width)
        scaled.data<float>()[i] *= static_cast<float>(factor);
    }
    *more = coder.decode(scaled, x) - coder.decode(f, x);
  };
  const auto write = [coder, more](const std::string& name, Tensor& value) {
    value = as_value(rows_of(value, coder.outputs(), name) + *more, value);
  };
  if (sites.reads == sites.writes) {
    taps.listen(sites.reads, [read, write](const std::string& name, Tensor& value) {
      read(name, value);
      write(name, value);
    });
    return;
  }
  taps.listen(sites.reads, [read](const std::string& name, Tensor& value) { read(name, value); });
  taps.listen(sites.writes, write);
}

std::vector<double> feature_logits(const Model& model, const SparseCoder& coder, std::int64_t feature) {
  const NoGradients guard;
  const ReadOut read_out = inspect::required_read_out(model, "features");
  const Tensor direction = coder.direction(feature);
  if (read_out.transform.dense || direction.size(1) != read_out.output.weight.size(1))
    throw Error("features: expected a coder that writes to a residual stream of " +
                std::to_string(read_out.output.weight.size(1)) +
                " numbers from which logits are read at once, got one of " +
                std::to_string(direction.size(1)));
  Tensor x = direction;
  if (read_out.norm) {
    const Norm& norm = *read_out.norm;
    if (norm.kind == NormKind::layer) x = x - mean(x, -1, true);
    x = x * (norm.offset != 0 ? add(norm.weight.to(DType::f32), norm.offset) : norm.weight.to(DType::f32));
  }
  return inspect::numbers(read_out.output.weight.linear(x, {}, Activation::none, WeightLayout::out_in));
}

}  // namespace heed
