// heed info: what a model is made of.
#include <fmt/core.h>

#include "cli/cli.h"
#include "cli/models.h"
#include "heed/io/json.h"
#include "heed/io/safetensors.h"
#include "heed/models/registry.h"

namespace heed::cli {
namespace {

struct Summary {
  std::filesystem::path directory;
  std::string family;
  std::int64_t parameters = 0;
  std::uint64_t bytes = 0;
  TensorFiles files;
};

std::string shape_text(const TensorInfo& info) {
  std::string text = "[";
  for (std::size_t i = 0; i < info.shape.size(); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(info.shape[i]);
  return text + "]";
}

Summary summarise(const std::filesystem::path& directory) {
  const auto model = load_model(directory);  // checks config and tensors against each other
  Summary s{directory, model->family(), 0, 0, TensorFiles::open(directory)};
  for (const Parameter& parameter : model->parameters()) s.parameters += parameter.tensor.numel();
  for (const std::string& name : s.files.names())
    s.bytes += s.files.info(name).end - s.files.info(name).begin;
  return s;
}

void print_json(const Summary& s) {
  JsonWriter json;
  json.begin_object()
      .field("directory", s.directory.string())
      .field("model_type", s.family)
      .field("parameters", s.parameters)
      .field("bytes", s.bytes)
      .field("bytes_f32", 4 * s.parameters);
  json.key("tensors").begin_array();
  for (const std::string& name : s.files.names()) {
    const TensorInfo& info = s.files.info(name);
    json.begin_object()
        .field("name", name)
        .field("dtype", info.dtype)
        .field("shape", info.shape)
        .end_object();
  }
  fmt::print("{}\n", json.end_array().end_object().text());
}

void print_text(const Summary& s) {
  fmt::print(
      "model       {}\nfamily      {}\nparameters  {}\nfile        {:.1f} MB\nin memory   {:.1f} MB (f32), "
      "{:.1f} MB (bf16)\n\n",
      s.directory.string(), s.family, s.parameters, static_cast<double>(s.bytes) / 1e6,
      4e-6 * static_cast<double>(s.parameters), 2e-6 * static_cast<double>(s.parameters));
  const Config config = Config::load(s.directory / "config.json");
  for (const char* key :
       {"d_model", "encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads",
        "encoder_ffn_dim", "decoder_ffn_dim", "vocab_size", "max_position_embeddings"}) {
    if (config.has(key)) fmt::print("{:<26}{}\n", key, config.integer(key, 0));
  }
  fmt::print("\n");
  for (const std::string& name : s.files.names()) {
    const TensorInfo& info = s.files.info(name);
    fmt::print("{:<5} {:<14} {}\n", info.dtype, shape_text(info), name);
  }
}

}  // namespace

void add_info(CLI::App& app, const Globals& globals) {
  CLI::App* command =
      app.add_subcommand("info", "Describe a model: family, shape, parameters, memory, tensors");
  auto name = std::make_shared<std::string>();
  command->add_option("model,--model,-m", *name, "Model directory or name")->required();
  command->footer("Examples:\n  heed info en-fr\n  heed info ./checkpoint --json");
  command->callback([name, &globals] {
    const Summary summary = summarise(locate_model(*name));
    if (globals.json) {
      print_json(summary);
    } else {
      print_text(summary);
    }
  });
}

}  // namespace heed::cli
