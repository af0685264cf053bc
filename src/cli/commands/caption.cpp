// heed caption: describes images, or reads the text they show, file by file. The caption of a single image is
// streamed.
#include "heed/tasks/caption.h"

#include <fmt/core.h>

#include "cli/cli.h"
#include "cli/input/input.h"
#include "cli/input/lines.h"
#include "cli/input/models.h"
#include "cli/options/generation_arguments.h"
#include "cli/options/option_values.h"
#include "cli/options/task_arguments.h"
#include "cli/results/results.h"
#include "cli/terminal/terminal.h"
#include "heed/error.h"
#include "heed/image/processor.h"

namespace heed::cli {
namespace {

struct CaptionArguments : TaskArguments {
  GenerationArguments generation;
};

void print_captions(const std::vector<Caption>& captions, std::size_t index, bool json,
                    const GenerationOptions& options) {
  std::vector<Hypothesis> hypotheses;
  std::vector<std::optional<std::string>> texts;
  for (const Caption& caption : captions) {
    hypotheses.push_back(caption.hypothesis);
    texts.emplace_back(json ? caption.text : escape_newlines(caption.text));
  }
  print_hypotheses(json, index, hypotheses, texts, options);
}

void run(const CaptionArguments& arguments, const Globals& globals) {
  const LoadedModel model = open_model(arguments.model, globals, arguments.weights, true);
  CaptionOptions options;
  options.generation = arguments.generation.load(model.directory(), globals);
  require_task(model, Task::caption, globals);
  check_tokens(arguments.generation, options.generation, model.model().vocab_size(), model.directory(),
               globals.quiet);
  const GenerationOptions& generation = options.generation;
  const bool may_stream = !globals.json && generation.num_return_sequences == 1 && generation.num_beams == 1;
  bool streamed = false;  // a part of the last caption is on stdout
  const auto compute = [&](const std::vector<std::string>& files, const TaskOptions& of_lines) {
    options.task = of_lines;
    options.on_text = {};
    streamed = false;
    if (may_stream && files.size() == 1) {
      options.on_text = [&](std::size_t, std::size_t, const std::string& text) {
        streamed = true;
        if (text.empty()) return true;
        print_stdout("{}", escape_newlines(text));
        flush_results();
        return true;
      };
    }
    try {
      return model.caption(files, options);
    } catch (const Canceled&) {
      if (streamed) print_stdout("\n");
      throw;
    }
  };
  const auto print = [&](const std::vector<Caption>& captions, const Line& line) {
    streamed ? print_stdout("\n") : print_captions(captions, line.index, globals.json, generation);
  };
  for_each_line(file_arguments(arguments.texts), arguments.batch_tokens, globals, compute, print);
}

}  // namespace

void add_caption(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand(
      "caption", "Describe images, or read the line of text in them, with an encoder-decoder");
  auto a = std::make_shared<CaptionArguments>();
  command->add_option("file", a->texts,
                      "Image files (PNG, JPEG, WebP, GIF, PNM), - for one on stdin; without any, their names "
                      "from the lines of stdin");
  add_model_options(*command, *a)->required();
  a->generation.add_to(*command, kLongestTarget);
  command->footer(std::string(kGenerationNote) +
                  "Examples:\n"
                  "  heed caption --model vit-gpt2-image-captioning photo.jpg\n"
                  "  heed caption --model vit-gpt2-image-captioning --num-beams 4 --max-new-tokens 16 *.jpg\n"
                  "  heed caption --model trocr-base-handwritten line.png\n"
                  "  ls scans/*.png | heed caption --model trocr-base-printed --json > lines.jsonl");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
