// Shared by the commands: the common options, and the functions that add each command to the program.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "heed/error.h"

namespace heed::cli {

/// Wrong use that is only detected while the command runs. The exit status is 2 instead of 1.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// The options that every command has.
struct Globals {
  bool quiet = false;
  bool verbose = false;
  bool json = false;
  int threads = 0;  // 0: all that the process may use
  std::optional<std::uint64_t> seed;
};

void add_answer(CLI::App& app, const Globals& globals);
void add_attend(CLI::App& app, const Globals& globals);
void add_attribute(CLI::App& app, const Globals& globals);
void add_average(CLI::App& app, const Globals& globals);
void add_bench(CLI::App& app, const Globals& globals);
void add_chat(CLI::App& app, const Globals& globals);
void add_circuits(CLI::App& app, const Globals& globals);
void add_classify(CLI::App& app, const Globals& globals);
void add_doctor(CLI::App& app, const Globals& globals);
void add_embed(CLI::App& app, const Globals& globals);
void add_evaluate(CLI::App& app, const Globals& globals);
void add_explore(CLI::App& app, const Globals& globals);
void add_fill(CLI::App& app, const Globals& globals);
void add_forward(CLI::App& app, const Globals& globals);
void add_generate(CLI::App& app, const Globals& globals);
void add_heads(CLI::App& app, const Globals& globals);
void add_info(CLI::App& app, const Globals& globals);
void add_lens(CLI::App& app, const Globals& globals);
void add_merge(CLI::App& app, const Globals& globals);
void add_models(CLI::App& app, const Globals& globals);
void add_patch(CLI::App& app, const Globals& globals);
void add_why(CLI::App& app, const Globals& globals);
void add_features(CLI::App& app, const Globals& globals);
void add_pull(CLI::App& app, const Globals& globals);
void add_quantize(CLI::App& app, const Globals& globals);
void add_serve(CLI::App& app, const Globals& globals);
void add_steer(CLI::App& app, const Globals& globals);
void add_tag(CLI::App& app, const Globals& globals);
void add_tokenize(CLI::App& app, const Globals& globals);
void add_train(CLI::App& app, const Globals& globals);
void add_caption(CLI::App& app, const Globals& globals);
void add_transcribe(CLI::App& app, const Globals& globals);
void add_translate(CLI::App& app, const Globals& globals);

}  // namespace heed::cli
