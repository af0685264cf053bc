// What all models have in common, whichever interface they implement: their files.
#pragma once

#include <filesystem>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "heed/models/model.h"
#include "models/gguf_model.h"
#include "models/quantize.h"
#include "models/weight_builder.h"

namespace heed {

template <class Interface>
class Assembled : public Interface {
 public:
  std::string family() const override { return files_.config.required_string("model_type"); }
  const std::vector<Parameter>& parameters() const override { return files_.weights.parameters(); }
  std::vector<std::string> unknown_settings() const override { return files_.config.unused(); }
  std::vector<std::string> unused_tensors() const override { return files_.unused; }
  void add_adapter(const std::filesystem::path& directory, double weight) override {
    heed::add_adapter(files_.weights, {directory, weight});
  }
  std::vector<Parameter> train_adapter(const LoraOptions& options, Generator& generator) override {
    files_.trained = heed::train_adapter(files_.weights, options, adapted_task(*this),
                                         base_name(files_.config.where()), generator);
    return files_.trained->parameters;
  }
  void merge_adapters() override { heed::merge_adapters(files_.weights); }
  QuantizeReport quantize(const QuantizeOptions& options, const std::function<void()>& calibrate) override {
    if (options.method == QuantizeMethod::awq && files_.scaled_layers.empty())
      throw Error(
          "quantize: expected a model in which awq can scale the inputs of maps (a decoder like LLaMA "
          "without experts), got " +
          family() + " (use gptq)");
    QuantizeReport report = heed::quantize(files_.weights, options, calibrate, files_.scaled_layers);
    files_.quantization = quantization_config(report, options);
    return report;
  }
  QuantizeReport save_gguf(const std::filesystem::path& file, GgufType type,
                           const std::filesystem::path& tokenizer) const override {
    return heed::save_gguf(files_, file, type, tokenizer);
  }
  std::int64_t use_activations(Activations type) override {
    const bool encodes_texts =
        std::is_same_v<Interface, EncoderModel> && this->input().kind == InputKind::tokens;
    if (type == Activations::automatic && !encodes_texts) type = Activations::f32;
    return heed::use_activations(files_.weights, type);
  }
  bool takes_int8() const override { return heed::takes_int8(files_.weights); }
  std::vector<QuantizedMap> int8_activation_errors(const std::function<void()>& run) override {
    return heed::int8_activation_errors(files_.weights, run);
  }
  void save(const std::filesystem::path& directory, DType dtype) const override {
    constexpr bool generates =
        std::is_same_v<Interface, DecoderModel> || std::is_same_v<Interface, EncoderDecoderModel>;
    files_.save(directory, dtype, generates);
  }

 protected:
  explicit Assembled(ModelContents files) : files_(std::move(files)) {}
  const Config& config() const { return files_.config; }

 private:
  ModelContents files_;
};

}  // namespace heed
