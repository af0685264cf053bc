// Which options need which other options.
#include "cli/unused_options.h"

#include <algorithm>
#include <string>

#include "cli/terminal.h"
#include "cli/usage_errors.h"

namespace heed::cli {
namespace {

constexpr const char *kSampling = "--do-sample", *kBeams = "--num-beams above 1";

struct Need {
  const char* option;
  const char* needs;  // another option; kSampling and kBeams may also be enabled by the model's files
};
constexpr Need kNeeds[] = {
    {"--seed", kSampling},
    {"--temperature", kSampling},
    {"--top-k", kSampling},
    {"--top-p", kSampling},
    {"--top-h", kSampling},
    {"--min-p", kSampling},
    {"--typical-p", kSampling},
    {"--epsilon-cutoff", kSampling},
    {"--eta-cutoff", kSampling},
    {"--length-penalty", kBeams},
    {"--early-stopping", kBeams},
    {"--skip-special-tokens", "--decode"},
    {"--null-threshold", "--impossible"},
};

// Commands that use random numbers outside of generation: train, attend, which may sample a target, and
// heads, which may make a sequence.
constexpr const char* kRandomCommands[] = {"train", "attend", "heads"};

bool is_setting(const Need& need) { return need.needs == kSampling || need.needs == kBeams; }

bool given(const CLI::App& command, const char* name) {
  for (const CLI::App* app = &command; app != nullptr; app = app->get_parent()) {
    const CLI::Option* option = app->get_option_no_throw(name);
    if (option != nullptr) return option->count() > 0;
  }
  return false;
}

void warn_of(const Need& need) { warn(std::string(need.option) + " has no effect without " + need.needs); }

}  // namespace

void warn_of_idle_options(const CLI::App& command, const Globals& globals) {
  if (globals.quiet) return;
  for (const Need& need : kNeeds) {
    if (is_setting(need) || command.get_option_no_throw(need.needs) == nullptr) continue;
    if (given(command, need.option) && !given(command, need.needs)) warn_of(need);
  }
  const auto is_named = [&](const char* name) { return command.get_name() == name; };
  const bool random = command.get_option_no_throw(kSampling) != nullptr ||
                      std::any_of(std::begin(kRandomCommands), std::end(kRandomCommands), is_named);
  if (globals.seed && !random) warn("--seed has no effect on " + full_name(command));
}

void warn_of_idle_options(const CLI::App& command, const GenerationOptions& options, const Globals& globals) {
  if (globals.quiet) return;
  for (const Need& need : kNeeds) {
    if (!is_setting(need)) continue;
    const bool acts = need.needs == kSampling ? options.do_sample : options.num_beams > 1;
    if (!acts && given(command, need.option)) warn_of(need);
  }
}

}  // namespace heed::cli
