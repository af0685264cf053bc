// heed models: the models that --model finds by name, or what one of them is.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "cli/cli.h"
#include "cli/input/models.h"
#include "cli/options/task_arguments.h"
#include "cli/results/written_model.h"
#include "cli/terminal/terminal.h"
#include "core/strings.h"
#include "core/text_lines.h"
#include "heed/files/file.h"
#include "heed/io/json.h"
#include "heed/io/safetensors.h"
#include "heed/models/kind.h"
#include "heed/models/registry.h"
#include "tensor/impl.h"
#include "tensor/quantized_matrix.h"

namespace heed::cli {
namespace {

namespace fs = std::filesystem;

// The names of a model's sizes in the configurations of the families.
constexpr const char* kSizes[] = {"d_model",
                                  "hidden_size",
                                  "n_embd",
                                  "dim",
                                  "embedding_size",
                                  "encoder_layers",
                                  "decoder_layers",
                                  "num_hidden_layers",
                                  "num_layers",
                                  "num_decoder_layers",
                                  "n_layer",
                                  "n_layers",
                                  "encoder_attention_heads",
                                  "decoder_attention_heads",
                                  "num_attention_heads",
                                  "num_key_value_heads",
                                  "num_heads",
                                  "n_head",
                                  "n_heads",
                                  "head_dim",
                                  "d_kv",
                                  "encoder_ffn_dim",
                                  "decoder_ffn_dim",
                                  "intermediate_size",
                                  "d_ff",
                                  "n_inner",
                                  "hidden_dim",
                                  "vocab_size",
                                  "type_vocab_size",
                                  "max_position_embeddings",
                                  "n_positions",
                                  "max_seq_len",
                                  "sliding_window"};

struct Summary {
  fs::path directory;
  std::string family;
  std::vector<std::string> architectures, unknown_settings, commands;
  std::int64_t vocab_size = 0;
  std::optional<std::int64_t> max_positions, trained_positions;
  std::int64_t parameters = 0;
  std::int64_t narrow_parameters = 0;  // matrices of the file in 16 bits, which stay so
  std::int64_t matrix_parameters = 0;  // others, which --dtype bf16 makes smaller
  std::int64_t quantized_parameters = 0, quantized_bytes = 0;
  std::uint64_t bytes = 0;
  std::string dtype;  // of most of the bytes, as named by the format
  std::set<std::string> trained;
  TensorFiles files;
  std::string source;       // a repository of the hub; empty: not known
  std::string license;      // as the README.md names it; empty: not known
  std::string base;         // the model it was made from, likewise
  std::string activations;  // that quantized weights take by default, and why; empty: none are quantized
};

// What the head of a model's README.md says, in YAML: "license: mit", "datasets:" and the like, each in a
// line or as a list.
std::map<std::string, std::string> read_me_of(const fs::path& directory) {
  std::map<std::string, std::string> said;
  std::error_code error;
  if (!fs::is_regular_file(directory / "README.md", error)) return said;
  std::istringstream lines(read_file(directory / "README.md"));
  std::string line, key;
  if (!next_line(lines, line) || line.substr(0, 3) != "---") return said;
  while (next_line(lines, line) && line.substr(0, 3) != "---") {
    const std::size_t colon = line.find(':'), dash = line.find("- ");
    const bool of_list = dash != std::string::npos && line.find_first_not_of(' ') == dash;
    std::string value = line.substr(std::min(line.size(), of_list              ? dash + 2
                                                          : colon == line.npos ? 0
                                                                               : colon + 1));
    std::erase_if(value, [](char c) { return c == '[' || c == ']' || c == '"' || c == '\''; });
    value.erase(0, value.find_first_not_of(' '));
    if (!of_list && colon != line.npos && line.front() != ' ') key = line.substr(0, colon);
    if (of_list && !said[key].empty()) said[key] += ", ";
    if (of_list || line.starts_with(key)) said[key] += value;
  }
  return said;
}

// The repository of a snapshot in the Hugging Face cache: HUB/models--owner--name/snapshots/COMMIT.
std::string repository_of(const fs::path& directory) {
  constexpr std::string_view kFolder = "models--";
  if (directory.parent_path().filename() != "snapshots") return "";
  std::string name = directory.parent_path().parent_path().filename().string();
  if (!name.starts_with(kFolder)) return "";
  name.erase(0, kFolder.size());
  if (const std::size_t slash = name.find("--"); slash != name.npos) name.replace(slash, 2, "/");
  return name + "@" + directory.filename().string();
}

std::string shape_text(const TensorInfo& info) { return "[" + joined_numbers(info.shape) + "]"; }

// LoadOptions::activations of a model that was opened without asking for a type.
std::string chosen_activations(const Model& model) {
  if (model.takes_int8()) return "int8 (auto: faster on this processor)";
  const bool encodes_texts = as<EncoderModel>(model) != nullptr && model.input().kind == InputKind::tokens;
  return encodes_texts ? "f32 (auto: int8 is not known to be faster on this processor)"
                       : "f32 (auto: int8 by itself is for encoders of texts)";
}

// Tensors that are loaded as they are stored stay in the mapped file and are not read.
DType dtype_to_load(const std::string& stored) {
  if (stored == "BF16") return DType::bf16;
  if (stored == "F16") return DType::f16;
  return stored == "F64" ? DType::f64 : DType::f32;
}

Summary summarize(const fs::path& directory, const Globals& globals) {
  const Config config = load_model_config(directory);
  Summary s;
  s.directory = directory;
  s.family = config.required_string("model_type");
  s.architectures = config.strings("architectures");
  s.files = TensorFiles::open(directory);
  std::map<std::string, std::uint64_t> bytes_of;
  for (const std::string& name : s.files.names()) {
    const TensorInfo& info = s.files.info(name);
    s.bytes += info.end - info.begin;
    bytes_of[info.dtype] += info.end - info.begin;
  }
  const auto most = std::max_element(bytes_of.begin(), bytes_of.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  s.dtype = most == bytes_of.end() ? "F32" : most->first;
  const LoadedModel opened =
      heed::open_model(directory.string(), {.dtype = dtype_to_load(s.dtype), .head = true});
  const Model& model = opened.model();  // checks config against tensors
  warn_of_settings(opened, globals);
  s.unknown_settings = model.unknown_settings();
  s.commands = commands_for(model);
  if (s.commands.front() == "generate" && opened.has_tokenizer() && opened.has_chat_template())
    s.commands.insert(s.commands.begin() + 1, "chat");
  const auto said = read_me_of(directory);
  const auto look_up = [&](const char* key) {
    const auto found = said.find(key);
    return found == said.end() ? std::string() : found->second;
  };
  s.source = repository_of(directory);
  s.license = look_up("license");
  s.base = look_up("base_model");
  s.vocab_size = model.vocab_size();
  s.max_positions = model.max_positions();
  s.trained_positions = model.trained_positions();
  for (const Parameter& parameter : model.parameters()) {
    s.parameters += parameter.tensor.numel();
    if (const auto quantized = quantized_of(parameter.tensor)) {
      s.quantized_parameters += parameter.tensor.numel();
      s.quantized_bytes += quantized->bytes();
    } else if (parameter.tensor.rank() > 1) {
      const bool narrow = unwidened(parameter.tensor).defined();
      (narrow ? s.narrow_parameters : s.matrix_parameters) += parameter.tensor.numel();
    }
    s.trained.insert(parameter.name);
  }
  if (s.quantized_parameters > 0) s.activations = chosen_activations(model);
  return s;
}

// Quantized weights stay as they are.
std::int64_t bytes_in_f32(const Summary& s) {
  return 4 * (s.parameters - s.quantized_parameters) - 2 * s.narrow_parameters + s.quantized_bytes;
}
// So do biases and norms, which are f32.
std::int64_t bytes_in_bf16(const Summary& s) { return bytes_in_f32(s) - 2 * s.matrix_parameters; }

// A directory of an adapter alone: what it was trained on, and its tensors.
void print_adapter(const fs::path& directory, bool as_json) {
  const SafetensorsFile file = SafetensorsFile::open(directory / "adapter_model.safetensors");
  const std::string base = base_of_adapter(directory);
  std::int64_t parameters = 0;
  for (const TensorInfo& info : file.tensors()) parameters += file.get(info.name).numel();
  if (!as_json) {
    print_stdout("adapter     {}\nmethod      LoRA\nbase        {}\nparameters  {}\n\n", directory.string(),
                 base.empty() ? "not known" : base, parameters);
    for (const TensorInfo& info : file.tensors())
      print_stdout("{:<5} {:<14} {}\n", info.dtype, shape_text(info), info.name);
    return;
  }
  JsonWriter json;
  json.begin_object()
      .field("directory", directory.string())
      .field("adapter", "LORA")
      .field("base", base)
      .field("parameters", parameters)
      .key("tensors")
      .begin_array();
  for (const TensorInfo& info : file.tensors())
    json.begin_object()
        .field("name", info.name)
        .field("dtype", info.dtype)
        .field("shape", info.shape)
        .end_object();
  print_stdout("{}\n", json.end_array().end_object().text());
}

void print_summary_json(const Summary& s) {
  JsonWriter json;
  json.begin_object()
      .field("directory", s.directory.string())
      .field("model_type", s.family)
      .field("architectures", s.architectures)
      .field("commands", s.commands)
      .field("source", s.source)
      .field("license", s.license)
      .field("base_model", s.base)
      .field("unknown_settings", s.unknown_settings)
      .field("vocab_size", s.vocab_size)
      .field("max_positions", s.max_positions)
      .field("trained_positions", s.trained_positions)
      .field("parameters", s.parameters)
      .field("dtype", s.dtype)
      .field("files", s.files.file_count())
      .field("bytes", s.bytes)
      .field("bytes_f32", bytes_in_f32(s))
      .field("bytes_bf16", bytes_in_bf16(s))
      .field("activations", s.activations);
  json.key("tensors").begin_array();
  for (const std::string& name : s.files.names()) {
    const TensorInfo& info = s.files.info(name);
    json.begin_object()
        .field("name", name)
        .field("dtype", info.dtype)
        .field("shape", info.shape)
        .field("trained", s.trained.contains(name))
        .end_object();
  }
  print_stdout("{}\n", json.end_array().end_object().text());
}

std::string positions(const Summary& s) {
  if (s.max_positions) return std::to_string(*s.max_positions);
  return s.trained_positions ? fmt::format("trained on {}; no hard limit", *s.trained_positions) : "no limit";
}

void print_summary(const Summary& s) {
  print_stdout("model       {}\nfamily      {}\nparameters  {}\n", s.directory.string(),
               s.architectures.empty() ? s.family : s.family + ", " + s.architectures.front(), s.parameters);
  if (!s.source.empty()) print_stdout("source      {}\n", printable(s.source));
  if (!s.base.empty()) print_stdout("made from   {}\n", printable(s.base));
  std::error_code error;
  const bool read_me = fs::exists(s.directory / "README.md", error);
  if (!s.license.empty() || read_me)
    print_stdout("license     {}{}\n", s.license.empty() ? "not named" : printable(s.license),
                 read_me ? " (" + (s.directory / "README.md").string() + ")" : "");
  print_stdout("commands    {}\n", joined(s.commands));
  print_stdout("file        {:.1f} MB ({}{})\n", static_cast<double>(s.bytes) / 1e6, s.dtype,
               s.files.file_count() > 1 ? fmt::format(", {} files", s.files.file_count()) : "");
  print_stdout("in memory   {:.1f} MB (f32), {:.1f} MB (bf16)\n", 1e-6 * static_cast<double>(bytes_in_f32(s)),
               1e-6 * static_cast<double>(bytes_in_bf16(s)));
  if (!s.activations.empty()) print_stdout("activations {}\n", s.activations);
  print_stdout("positions   {}\n\n", positions(s));
  const Config config = load_model_config(s.directory);
  for (const char* key : kSizes) {
    if (config.has(key)) print_stdout("{:<26}{}\n", key, config.integer(key, 0));
  }
  print_stdout("\n");
  for (const std::string& name : s.files.names()) {
    const TensorInfo& info = s.files.info(name);
    print_stdout("{:<5} {:<14} {}{}\n", info.dtype, shape_text(info), name,
                 s.trained.contains(name) ? "" : "  (not trained)");
  }
}

// Or an adapter.
void print_model(const fs::path& directory, const Globals& globals) {
  if (is_adapter(directory)) return print_adapter(directory, globals.json);
  const Summary summary = summarize(directory, globals);
  globals.json ? print_summary_json(summary) : print_summary(summary);
}

struct ModelRow {
  std::string name, family, command;
  std::uint64_t bytes = 0;  // of the weights
  fs::path directory;
};

// A model whose files cannot be read is listed all the same: with what is to be done.
ModelRow row_of(const KnownModel& model) {
  ModelRow row{model.name, "", "", bytes_of_weights(model.directory), model.directory};
  try {
    if (model.directory.empty()) {
      row.family = "incomplete";
      row.command = "pull";
    } else if (is_adapter(model.directory)) {
      row.family = "adapter of " + base_of_adapter(model.directory);
      row.command = "convert";
    } else {
      const LoadedModel opened = heed::open_model(model.directory.string(), {.head = true});
      row.family = opened.model().family();  // which reads no weights
      row.command = commands_for(opened.model()).front();
    }
  } catch (const Error&) {
    row.family = "unreadable";
    row.command = "models";
  }
  return row;
}

std::string size_of_weights(std::uint64_t bytes) {
  return bytes < 1'000'000'000 ? fmt::format("{:.1f} MB", 1e-6 * static_cast<double>(bytes))
                               : fmt::format("{:.2f} GB", 1e-9 * static_cast<double>(bytes));
}

void print_table(const std::vector<ModelRow>& rows) {
  std::vector<std::vector<std::string>> lines{{"model", "family", "command", "size", "directory"}};
  for (const ModelRow& row : rows)
    lines.push_back({row.name, row.family, row.command, size_of_weights(row.bytes), row.directory.string()});
  std::vector<std::size_t> widths(lines.front().size(), 0);
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  for (const auto& line : lines) {
    print_stdout("{:<{}}  {:<{}}  {:<{}}  {:>{}}  {}\n", line[0], widths[0], line[1], widths[1], line[2],
                 widths[2], line[3], widths[3], printable(line[4]));
  }
}

void list_models(const Globals& globals) {
  std::vector<ModelRow> rows;
  for (const KnownModel& model : known_models()) rows.push_back(row_of(model));
  if (globals.json) {
    for (const ModelRow& row : rows) {
      JsonWriter json;
      json.begin_object()
          .field("model", row.name)
          .field("model_type", row.family)
          .field("command", row.command)
          .field("bytes", row.bytes)
          .field("directory", row.directory.string());
      print_stdout("{}\n", json.end_object().text());
    }
  } else if (!rows.empty()) {
    print_table(rows);
  } else if (!globals.quiet) {
    print_stderr(
        "no models are here (heed pull OWNER/MODEL downloads one; HEED_MODELS names folders of models)");
  }
}

}  // namespace

void add_models(CLI::App& app, const Globals& globals) {
  CLI::App* command =
      app.add_subcommand("models", "List the models that are here, or describe one: sizes, memory, commands");
  auto name = std::make_shared<std::string>();
  add_model_argument(*command, *name);
  command->footer(
      "Without a model, lists those that a name finds, each with its family, the command that runs it, and "
      "the\n"
      "size of its weights.\n\n"
      "A model is, here and in other commands, a directory in the layout of Hugging Face, a GGUF file, or a\n"
      "name, which is looked up in the folders of HEED_MODELS, among the models installed with heed, and in\n"
      "the Hugging Face cache. A LoRA adapter that names its base is a model as well.\n"
      "\n"
      "Examples:\n"
      "  heed models\n"
      "  heed models en-fr\n"
      "  heed models ./checkpoint --json");
  command->callback([name, command, &globals] {
    command->count("--model") > 0 ? print_model(path_of_model(*name), globals) : list_models(globals);
  });
}

}  // namespace heed::cli
