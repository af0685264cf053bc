// The weights of every family are the plain formula's: softmax of scaled products of the tapped queries and
// keys, in doubles, with the masks and biases that the config asks for, written out here.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "heed/autograd.h"
#include "heed/models/registry.h"
#include "models/taps_fixtures.h"
#include "reference/json.h"
#include "reference/tensors.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// One attention of one layer.
struct Attended {
  std::string stack, part;
  std::int64_t layer = 0;
  bool self() const { return part == "self_attn"; }
  std::string tap(const char* what) const {
    return stack + ".layers." + std::to_string(layer) + "." + part + "." + what;
  }
};

// A matrix or vector of the model's file.
struct Numbers {
  std::vector<double> values;
  std::size_t columns = 0;
  double at(std::size_t row, std::size_t column) const { return values[row * columns + column]; }
};

class FamilyWeights : public testing::TestWithParam<std::string> {
 protected:
  fs::path folder = fs::path(HEED_FIXTURES) / GetParam();
  Json config = read_json(folder / "config.json");
  std::unique_ptr<Model> model = load_model(folder);
  TensorMap inputs = read_tensors(folder / "inputs.safetensors");
  std::string family = config.value("model_type", "");
  NoGradients guard;

  std::optional<Numbers> parameter(const std::string& name) const {
    for (const Parameter& p : model->parameters()) {
      if (p.name != name) continue;
      return Numbers{doubles(p.tensor.detach()),
                     static_cast<std::size_t>(p.tensor.size(p.tensor.rank() - 1))};
    }
    return std::nullopt;
  }

  // The number of a setting that may be absent or null.
  double number(const char* key, double otherwise) const {
    return config.contains(key) && config[key].is_number() ? config[key].get<double>() : otherwise;
  }

  double scale(const Attended& a, std::int64_t d) const {
    if (family == "t5") return 1;
    if (family == "granite") return number("attention_multiplier", 1);
    if (family == "deberta-v2") return 1 / std::sqrt(3.0 * static_cast<double>(d));
    const double usual = 1 / std::sqrt(number("query_pre_attn_scalar", static_cast<double>(d)));
    return config.value("scale_attn_by_inverse_layer_idx", false) ? usual / static_cast<double>(a.layer + 1)
                                                                  : usual;
  }

  // Keys at this distance and beyond are not seen; 0: all are.
  std::int64_t window(const Attended& a) const {
    const std::string kind = config.value("attention", Json()).is_string() ? config["attention"] : Json("");
    if (kind == "window") return a.self() ? config["attention_window"].get<std::int64_t>() : 0;
    if (config.contains("layer_types")) {
      if (config["layer_types"][static_cast<std::size_t>(a.layer)] != "sliding_attention") return 0;
      if (family == "modernbert") return config["local_attention"].get<std::int64_t>() / 2 + 1;
    }
    if (!config.value("use_sliding_window", true)) return 0;
    return static_cast<std::int64_t>(number("sliding_window", 0));
  }

  // The mask of frames of sound by that of samples: wav2vec 2.0 takes as many frames as the samples of a row
  // give, Moonshine looks at the first sample of each.
  std::vector<std::int64_t> shown_frames(const std::vector<std::int64_t>& samples,
                                         std::int64_t frames) const {
    const auto length = static_cast<std::size_t>(inputs.at("attention_mask").size(1));
    std::vector<std::int64_t> shown;
    for (std::size_t row = 0; row < samples.size(); row += length) {
      const auto begin = samples.begin() + static_cast<std::ptrdiff_t>(row);
      std::int64_t count = std::count(begin, begin + static_cast<std::ptrdiff_t>(length), 1);
      for (std::size_t i = 0; family == "wav2vec2" && i < config["conv_kernel"].size(); ++i)
        count = (count - config["conv_kernel"][i].get<std::int64_t>()) /
                    config["conv_stride"][i].get<std::int64_t>() +
                1;
      for (std::int64_t s = 0; s < frames; ++s)
        shown.push_back(family == "wav2vec2" ? s < count : begin[s * 64 * 3 * 2]);
    }
    return shown;
  }

  // Which keys a layer's pattern and mask show.
  std::function<bool(std::int64_t, std::int64_t, std::int64_t)> visible(const Attended& a,
                                                                        std::int64_t keys) const {
    const bool causal = (a.stack == "decoder" || (family == "clip" && a.stack == "text_encoder")) && a.self();
    const bool of_target = causal && dynamic_cast<const EncoderDecoderModel*>(model.get()) != nullptr;
    std::vector<std::int64_t> shown;
    const bool of_patches = inputs.contains("pixel_attention_mask");
    const char* mask = of_patches && a.stack != "text_encoder" ? "pixel_attention_mask" : "attention_mask";
    if (!of_target && (of_patches || a.stack != "image_encoder") && inputs.contains(mask))
      shown = inputs.at(mask).to_vector<std::int64_t>();
    if (model->input().kind == InputKind::waveform && !shown.empty()) shown = shown_frames(shown, keys);
    const std::string pattern =
        a.self() && config.value("attention", Json()).is_string() ? config["attention"] : Json("");
    const std::int64_t far = window(a);
    return [=](std::int64_t b, std::int64_t t, std::int64_t s) {
      if (causal && s > t) return false;
      if (far > 0 && std::abs(t - s) >= far) return false;
      if (pattern == "strided" && t - s >= 4 && (t - s) % 4 != 0) return false;
      if (pattern == "fixed" && s / 4 != t / 4 && s % 4 < 2) return false;
      return shown.empty() || shown[static_cast<std::size_t>(b * keys + s)] != 0;
    };
  }

  // Raffel et al. 2020, by transformers' modeling_t5.py.
  static std::size_t t5_bucket(std::int64_t offset, bool both_ways) {
    std::int64_t count = 32, bucket = 0;
    if (both_ways) {
      count /= 2;
      if (offset > 0) bucket = count;
      offset = std::abs(offset);
    } else {
      offset = std::max<std::int64_t>(0, -offset);
    }
    const std::int64_t exact = count / 2;
    if (offset < exact) return static_cast<std::size_t>(bucket + offset);
    const double far = std::log(static_cast<double>(offset) / static_cast<double>(exact)) /
                       std::log(128.0 / static_cast<double>(exact)) * static_cast<double>(count - exact);
    return static_cast<std::size_t>(bucket + std::min(exact + static_cast<std::int64_t>(far), count - 1));
  }

  // What is added to the score of head h, for a key `offset` positions after the query.
  std::function<double(std::int64_t, std::int64_t)> bias(const Attended& a, std::int64_t heads) const {
    const bool alibi = family == "bloom" || (family == "mpt" && config["attn_config"]["alibi"]) ||
                       (a.self() && config.value("position_embedding_type", "") == "alibi");
    if (alibi) {
      return [heads](std::int64_t h, std::int64_t offset) {
        return -std::pow(2.0, -8.0 * static_cast<double>(h + 1) / static_cast<double>(heads)) *
               static_cast<double>(std::abs(offset));
      };
    }
    const auto table =
        family == "mpnet" ? parameter("mpnet.encoder.relative_attention_bias.weight")
        : family == "t5" && a.self()
            ? parameter(a.stack + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight")
            : std::nullopt;
    EXPECT_EQ(table.has_value(), family == "mpnet" || (family == "t5" && a.self()));
    if (!table) return [](std::int64_t, std::int64_t) { return 0.0; };
    return [table, both_ways = a.stack == "encoder"](std::int64_t h, std::int64_t offset) {
      return table->at(t5_bucket(offset, both_ways), static_cast<std::size_t>(h));
    };
  }

  // DeBERTa's rows of positions, through a layer's projection of keys or queries: [2 span, D].
  Numbers projected_positions(std::int64_t layer, const char* projection) const {
    Numbers table = parameter("deberta.encoder.rel_embeddings.weight").value();
    const Numbers gain = parameter("deberta.encoder.LayerNorm.weight").value(),
                  shift = parameter("deberta.encoder.LayerNorm.bias").value();
    const std::string name =
        "deberta.encoder.layer." + std::to_string(layer) + ".attention.self." + projection;
    const Numbers weight = parameter(name + ".weight").value(), added = parameter(name + ".bias").value();
    const std::size_t d = table.columns;
    Numbers result{{}, d};
    for (std::size_t row = 0; row * d < table.values.size(); ++row) {
      double mean = 0, variance = 0;
      for (std::size_t i = 0; i < d; ++i) mean += table.at(row, i) / static_cast<double>(d);
      for (std::size_t i = 0; i < d; ++i)
        variance += (table.at(row, i) - mean) * (table.at(row, i) - mean) / static_cast<double>(d);
      for (std::size_t o = 0; o < d; ++o) {
        double sum = added.values[o];
        for (std::size_t i = 0; i < d; ++i)
          sum += weight.at(o, i) *
                 ((table.at(row, i) - mean) / std::sqrt(variance + 1e-7) * gain.values[i] + shift.values[i]);
        result.values.push_back(sum);
      }
    }
    return result;
  }

  // The row of distance t - s: make_log_bucket_position of transformers' modeling_deberta_v2.py.
  std::size_t deberta_row(std::int64_t distance) const {
    const double span = number("position_buckets", 0), middle = span / 2,
                 far = number("max_position_embeddings", 0);
    const double size = std::abs(static_cast<double>(distance));
    double row = static_cast<double>(distance);
    if (size > middle) {
      row = std::ceil(std::log(size / middle) / std::log((far - 1) / middle) * (middle - 1)) + middle;
      row = distance < 0 ? -row : row;
    }
    return static_cast<std::size_t>(std::clamp(row + span, 0.0, 2 * span - 1));
  }

  // Rows of weights [B, H, T, S] of queries [B, H, T, d] and keys [B, K, S, d].
  Tensor formula(const Attended& a, const Tensor& queries, const Tensor& keys) const {
    const std::int64_t heads = queries.size(1), time = queries.size(2), d = queries.size(3);
    const std::int64_t kv_heads = keys.size(1), length = keys.size(2);
    const auto q = doubles(queries), k = doubles(keys);
    const auto sees = visible(a, length);
    const auto added = bias(a, heads);
    const bool linear = a.self() && config.value("attention", Json()) == "linear",
               deberta = family == "deberta-v2";
    const double factor = scale(a, d), cap = number("attn_logit_softcapping", 0);
    const Numbers position_keys = deberta ? projected_positions(a.layer, "key_proj") : Numbers{},
                  position_queries = deberta ? projected_positions(a.layer, "query_proj") : Numbers{};
    const auto feature = [&](double x) { return !linear ? x : x > 0 ? x + 1 : std::exp(x); };
    const auto score = [&](std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t s) {
      const double* query = q.data() + ((b * heads + h) * time + t) * d;
      const double* key = k.data() + ((b * kv_heads + h / (heads / kv_heads)) * length + s) * d;
      double product = 0;
      for (std::int64_t i = 0; i < d; ++i) product += feature(query[i]) * feature(key[i]);
      for (std::int64_t i = 0; deberta && i < d; ++i) {
        const auto column = static_cast<std::size_t>(h * d + i);
        const std::size_t row = deberta_row(t - s);
        product += query[i] * position_keys.at(row, column) + key[i] * position_queries.at(row, column);
      }
      if (linear) return product;
      const double scaled = factor * product;
      return (cap > 0 ? cap * std::tanh(scaled / cap) : scaled) + added(h, s - t);
    };
    std::vector<double> weights;
    for (std::int64_t row = 0; row < queries.size(0) * heads * time; ++row) {
      const std::int64_t b = row / time / heads, h = row / time % heads, t = row % time;
      std::vector<double> scores;
      double largest = -INFINITY, total = 0;
      for (std::int64_t s = 0; s < length; ++s) {
        const bool masked_query = deberta && !sees(b, t, t);  // DeBERTa's attend to all tokens equally
        scores.push_back(masked_query ? 0 : sees(b, t, s) ? score(b, h, t, s) : -INFINITY);
        largest = std::max(largest, scores.back());
      }
      for (double& x : scores) {
        x = x == -INFINITY ? 0 : linear ? x : std::exp(x - largest);
        total += x;
      }
      for (const double x : scores) weights.push_back(total > 0 ? x / total : 0);
    }
    return Tensor::from(weights, {queries.size(0), heads, time, length});
  }
};

std::vector<std::string> transformers() {
  std::vector<std::string> names = fixtures_with_inputs();
  std::erase_if(names, [](const std::string& name) { return name.starts_with("recurrent"); });
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, FamilyWeights, testing::ValuesIn(transformers()),
                         [](const auto& info) { return as_test_name(info.param); });

TEST_P(FamilyWeights, AreTheFormulaOfTheirQueriesAndKeysInDoubles) {
  TensorMap heard;
  Taps taps;
  for (const char* what : {"*_attn.q", "*_attn.k", "*_attn.weights"})
    taps.listen(what, [&](const std::string& name, Tensor& value) { heard[name] = value.contiguous(); });
  Context context{.taps = &taps};
  model->forward(inputs, {}, context);
  taps.require_all_fired();
  std::size_t compared = 0;
  for (const std::string stack : {"encoder", "decoder", "text_encoder", "image_encoder"}) {
    for (const std::string part : {"self_attn", "cross_attn"}) {
      for (Attended a{stack, part}; heard.contains(a.tap("weights")); ++a.layer, ++compared) {
        const Tensor expected = formula(a, heard.at(a.tap("q")), heard.at(a.tap("k")));
        EXPECT_LE(largest_difference(heard.at(a.tap("weights")), expected), 1e-5) << a.tap("weights");
      }
    }
  }
  EXPECT_EQ(compared * 3, heard.size());
}

}  // namespace
}  // namespace heed
