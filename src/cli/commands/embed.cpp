// heed embed: computes vectors of texts and images.
#include "heed/tasks/embed.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <unordered_map>

#include "cli/cli.h"
#include "cli/input/input.h"
#include "cli/input/lines.h"
#include "cli/input/models.h"
#include "cli/options/option_group.h"
#include "cli/options/task_arguments.h"
#include "cli/terminal/processes.h"
#include "cli/terminal/terminal.h"
#include "data/labeled_data.h"
#include "files/input_file.h"
#include "heed/image/processor.h"
#include "heed/io/json.h"
#include "heed/io/npy.h"
#include "heed/io/safetensors.h"
#include "heed/models/registry.h"
#include "heed/ops/shape.h"
#include "heed/tasks/similarity.h"
#include "heed/text/tokenizer.h"

namespace heed::cli {
namespace {

struct EmbedArguments : TaskArguments {
  std::string pooling;
  bool normalize = false;
  std::optional<std::string> prompt;
  std::string prompt_name;
  std::int64_t max_length = 0;
  std::filesystem::path output;
  bool images = false;
  std::vector<std::string> queries;
  std::filesystem::path vectors, texts_of_vectors;
  std::optional<std::int64_t> top_k;
  bool similarity = false;
  std::string similarity_fn;
  std::filesystem::path pairs;  // whose negatives are mined
  HardNegatives mining;

  bool by_token() const { return pooling == "none"; }
};

struct EmbedSession {
  const EmbedArguments& arguments;
  const Globals& globals;
  const LoadedModel& model;
  EmbeddingRecipe recipe;

  // The vectors of texts, or of image files.
  Tensor vectors(std::span<const std::string> inputs, const TaskOptions& options) const {
    return arguments.images ? embed_images(model.model(), model.image_processor(), inputs, recipe, options)
                            : embed(model.model(), model.tokenizer(), inputs, recipe, options);
  }
};

std::string names_of(const std::map<std::string, std::string>& prompts) {
  std::string names;
  for (const auto& [name, text] : prompts) names += (names.empty() ? "the model has " : ", ") + name;
  return names.empty() ? "the model has no prompts; give --prompt TEXT" : names;
}

// Returns the model's recipe, overridden by the command line.
EmbeddingRecipe recipe_of(const EmbedArguments& arguments, const LoadedModel& model, const Globals& globals) {
  EmbeddingRecipe recipe = model.recipe();
  if (!arguments.pooling.empty() && !arguments.by_token()) {
    try {
      recipe.poolings = {pooling_named(arguments.pooling)};
    } catch (const Error& error) {
      throw UsageError(std::string("--") + error.what());
    }
  }
  const bool normalized = !recipe.steps.empty() && recipe.steps.back().normalize;
  if (arguments.normalize && !normalized) {
    EmbeddingStep step;
    step.normalize = true;
    recipe.steps.push_back(step);
  }
  if (arguments.max_length > 0) recipe.max_length = arguments.max_length;
  if (!arguments.prompt_name.empty()) {
    const auto found = recipe.prompts.find(arguments.prompt_name);
    if (found == recipe.prompts.end())
      throw UsageError("--prompt-name: " + arguments.prompt_name + " not found (" + names_of(recipe.prompts) +
                       ")");
    recipe.prompt = found->second;
  }
  if (arguments.prompt) recipe.prompt = valid_text(*arguments.prompt, "--prompt", globals.quiet);
  return recipe;
}

void print_rows(const Tensor& vectors) {
  const std::vector<float> numbers = vectors.to_vector<float>();
  const auto width = static_cast<std::size_t>(vectors.size(1));
  for (std::size_t i = 0; i < static_cast<std::size_t>(vectors.size(0)); ++i) {
    const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(i * width);
    const std::vector<float> row(begin, begin + static_cast<std::ptrdiff_t>(width));
    print_stdout("{}\n", JsonWriter().value(row).text());
  }
}

void wrote(const EmbedSession& session) {
  if (!session.globals.quiet) print_stderr("wrote " + session.arguments.output.string());
}

void print_tokens(const TokenEmbeddings& text) {
  JsonWriter json;
  json.begin_object().field("tokens", text.tokens).key("vectors").begin_array();
  const std::vector<float> numbers = text.vectors.to_vector<float>();
  const std::size_t width = numbers.size() / std::max<std::size_t>(text.tokens.size(), 1);
  for (std::size_t at = 0; at < numbers.size(); at += width)
    json.value(std::vector<float>(numbers.begin() + static_cast<std::ptrdiff_t>(at),
                                  numbers.begin() + static_cast<std::ptrdiff_t>(at + width)));
  print_stdout("{}\n", json.end_array().end_object().text());
}

void write_tokens(const std::vector<TokenEmbeddings>& texts, const std::filesystem::path& file) {
  if (file.extension() == ".npy") {
    if (texts.size() != 1)
      throw Error(
          fmt::format("{}: expected one text, whose vectors are one array, got {} (write to "
                      "FILE.safetensors)",
                      file.string(), texts.size()));
    return write_npy(file, texts.front().vectors);
  }
  std::vector<NamedTensor> tensors;
  std::map<std::string, std::string> metadata{{"format", "pt"}};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    tensors.push_back({"vectors." + std::to_string(i), texts[i].vectors});
    metadata["tokens." + std::to_string(i)] = JsonWriter().value(texts[i].tokens).text();
  }
  save_safetensors(file, tensors, metadata);
}

void embed_each_token(const EmbedSession& session) {
  const EmbedArguments& arguments = session.arguments;
  std::vector<TokenEmbeddings> all;
  for_each_line(
      arguments.texts, arguments.batch_tokens, session.globals,
      [&](const std::vector<std::string>& texts, const TaskOptions& options) {
        return embed_tokens(session.model.model(), session.model.tokenizer(), texts, session.recipe, options);
      },
      [&](TokenEmbeddings& one, const Line&) {
        if (arguments.output.empty()) return print_tokens(one);
        all.push_back(std::move(one));
      });
  if (arguments.output.empty()) return;
  write_tokens(all, arguments.output);
  wrote(session);
}

// Returns the vectors of the window's `count` texts, of which `texts` are this process's part.
Tensor embed_window(const EmbedSession& session, const std::vector<std::string>& texts, std::size_t count,
                    const TaskOptions& options) {
  Tensor own;
  if (!texts.empty()) own = session.vectors(texts, options);
  if (processes().size() == 1) return own;
  const std::vector<float> numbers =
      gather_values(processes(), own.defined() ? own.to_vector<float>() : std::vector<float>());
  return Tensor::from(
      numbers, {static_cast<std::int64_t>(count), std::ssize(numbers) / static_cast<std::int64_t>(count)});
}

constexpr std::size_t kEmbedWindow = 256;  // texts, after which progress is shown

// Returns the vectors [texts, D] of all texts, undefined if there are none, and appends the texts to `all`.
Tensor embed_all(const EmbedSession& session, std::vector<std::string>& all) {
  std::vector<Tensor> windows;
  Progress progress(session.globals.quiet || !processes().is_first());
  const auto second = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  for_each_window(
      session.arguments.texts, session.arguments.batch_tokens, session.globals,
      [&](const LineWindow& own) {
        const std::vector<std::string> window = gather_texts(processes(), own.texts);
        windows.push_back(embed_window(session, own.texts, window.size(), own.options));
        all.insert(all.end(), window.begin(), window.end());
        if (std::chrono::steady_clock::now() > second)
          progress.show(std::ssize(all), std::ssize(session.arguments.texts),
                        session.arguments.images ? "images" : "texts");
      },
      kEmbedWindow);
  return windows.empty() ? Tensor() : concat(windows, 0);
}

Similarity similarity_of(const EmbedSession& session) {
  const std::string& given = session.arguments.similarity_fn;
  try {
    return similarity_named(given.empty() ? session.recipe.similarity : given);
  } catch (const Error& error) {
    if (!given.empty()) throw UsageError("--similarity-fn: " + std::string(error.what()).substr(12));
    throw Error("config_sentence_transformers.json: similarity_fn_name: " +
                std::string(error.what()).substr(12) + " (give --similarity-fn)");
  }
}

void print_similarities(const EmbedSession& session) {
  const Similarity kind = similarity_of(session);
  std::vector<std::string> texts;
  const Tensor vectors = embed_all(session, texts);
  if (!vectors.defined()) return;
  const Tensor all = similarity(vectors, vectors, kind);
  if (session.globals.json) return print_rows(all);
  const std::vector<float> numbers = all.to_vector<float>();
  for (std::size_t i = 0; i < numbers.size(); ++i)
    print_stdout("{:.4f}{}", numbers[i], (i + 1) % texts.size() == 0 ? "\n" : "\t");
}

void print_matches(const EmbedSession& session, std::size_t query, const std::vector<Match>& matches,
                   const std::vector<std::string>& texts) {
  if (session.globals.json) {
    JsonWriter json;
    json.begin_array();
    for (const Match& one : matches) {
      json.begin_object().field("score", one.score).field("line", one.row + 1);
      if (!texts.empty()) json.field("text", texts[one.row]);
      json.end_object();
    }
    print_stdout("{}\n", json.end_array().text());
    return;
  }
  for (const Match& one : matches) {
    if (session.arguments.queries.size() > 1) print_stdout("{}\t", query + 1);
    print_stdout("{:.4f}\t{}", one.score, one.row + 1);
    print_stdout("{}\n", texts.empty() ? "" : "\t" + texts[one.row]);
  }
}

void search_texts(const EmbedSession& session) {
  const EmbedArguments& arguments = session.arguments;
  const Similarity kind = similarity_of(session);
  std::vector<std::string> texts, queries;
  const Tensor vectors = arguments.vectors.empty() ? embed_all(session, texts) : read_npy(arguments.vectors);
  if (!vectors.defined()) {
    throw Error(fmt::format(
        "embed: missing {} to search (give them on stdin, as arguments, or their --vectors FILE.npy)",
        arguments.images ? "images" : "texts"));
  }
  const std::string lines = arguments.texts_of_vectors.string();
  if (!lines.empty()) texts = read_lines(lines, session.globals.quiet);
  if (arguments.images) {
    for (std::string& file : texts) file = shown_name(file);
  }
  for (const std::string& query : arguments.queries)
    queries.push_back(valid_text(query, "--query", session.globals.quiet));
  const bool has_prompt = arguments.prompt || !arguments.prompt_name.empty();
  const EmbeddingRecipe recipe = has_prompt ? session.recipe : for_queries(session.recipe);
  const Tensor asked = embed(session.model.model(), session.model.tokenizer(), queries, recipe);
  if (vectors.rank() != 2 || vectors.size(1) != asked.size(1)) {
    throw Error(fmt::format("{}: expected vectors of {} numbers, as the model makes, got {}",
                            arguments.vectors.string(), asked.size(1), vectors.str()));
  }
  if (!lines.empty() && std::ssize(texts) != vectors.size(0)) {
    throw Error(fmt::format("{}: expected a line for each of the {} vectors of {}, got {} lines", lines,
                            vectors.size(0), arguments.vectors.string(), texts.size()));
  }
  const auto found = nearest(asked, vectors, arguments.top_k.value_or(10), kind);
  for (std::size_t i = 0; i < found.size(); ++i) print_matches(session, i, found[i], texts);
}

// The vectors of texts, with another recipe than the session's.
Tensor vectors_of(const EmbedSession& session, std::vector<std::string> texts, EmbeddingRecipe recipe) {
  EmbedArguments arguments = session.arguments;
  arguments.texts = std::move(texts);
  std::vector<std::string> read;
  return embed_all({arguments, session.globals, session.model, std::move(recipe)}, read);
}

// Prints each pair with hard negatives among the positives of all, and the texts of --texts.
void mine_negatives(const EmbedSession& session) {
  const EmbedArguments& arguments = session.arguments;
  DataOptions options;
  options.format = "jsonl";
  const ComparedEntries pairs = read_compared(arguments.pairs, options, false, {});
  std::vector<std::string> queries, texts;
  std::unordered_map<std::string, std::size_t> numbers;                 // of texts
  std::unordered_map<std::string, std::vector<std::size_t>> positives;  // of queries, also themselves
  const auto number_of = [&](const std::string& text) {
    const auto [found, is_new] = numbers.try_emplace(text, texts.size());
    if (is_new) texts.push_back(text);
    return found->second;
  };
  for (std::int64_t i = 0; i < pairs.size(); ++i) {
    const ComparedTexts pair = pairs[i];
    if (pair.texts.size() != 1 || !pair.labels.empty())
      throw Error(pairs.where(pair) + ": expected an anchor and its positive alone, got more");
    queries.push_back(pair.query);
    positives[pair.query].push_back(number_of(pair.texts.front()));
  }
  if (!arguments.texts_of_vectors.empty()) {
    for (const std::string& text : read_lines(arguments.texts_of_vectors.string(), session.globals.quiet))
      number_of(text);
  }
  for (auto& [query, own] : positives) {
    if (const auto same = numbers.find(query); same != numbers.end()) own.push_back(same->second);
  }
  std::vector<std::vector<std::size_t>> right;
  for (std::int64_t i = 0; i < pairs.size(); ++i) {
    const ComparedTexts pair = pairs[i];
    right.push_back({numbers.at(pair.texts.front())});
    const std::vector<std::size_t>& own = positives.at(pair.query);
    right.back().insert(right.back().end(), own.begin(), own.end());
  }
  const bool has_prompt = arguments.prompt || !arguments.prompt_name.empty();
  const Tensor asked =
                   vectors_of(session, queries, has_prompt ? session.recipe : for_queries(session.recipe)),
               searched =
                   vectors_of(session, texts, has_prompt ? session.recipe : for_documents(session.recipe));
  const auto mined = hard_negatives(asked, searched, right, arguments.mining, similarity_of(session));
  if (!processes().is_first()) return;
  std::size_t found = 0, whole = 0;
  for (std::size_t i = 0; i < mined.size(); ++i) {
    JsonWriter json;
    json.begin_object().field("anchor", queries[i]).field("positive", texts[right[i].front()]);
    for (std::size_t n = 0; n < mined[i].size(); ++n)
      json.field("negative_" + std::to_string(n + 1), texts[mined[i][n].row]);
    print_stdout("{}\n", json.end_object().text());
    found += mined[i].size();
    whole += std::ssize(mined[i]) == arguments.mining.count ? 1 : 0;
  }
  if (!session.globals.quiet)
    print_stderr(fmt::format("{} negatives of {} pairs; {} have all {}", found, mined.size(), whole,
                             arguments.mining.count));
}

void embed_each(const EmbedSession& session) {
  const EmbedArguments& arguments = session.arguments;
  if (!arguments.output.empty()) {
    std::vector<std::string> texts;
    const Tensor vectors = embed_all(session, texts);
    if (!vectors.defined()) throw Error("embed: missing texts (give them on stdin or as arguments)");
    if (!processes().is_first()) return;
    if (arguments.output.extension() == ".safetensors") {
      save_safetensors(arguments.output, {{"embeddings", vectors}});
    } else {
      write_npy(arguments.output, vectors);
    }
    return wrote(session);
  }
  for_each_window(arguments.texts, arguments.batch_tokens, session.globals, [&](const LineWindow& window) {
    if (window.texts.empty()) return;
    const Tensor rows = session.vectors(window.texts, window.options);
    for (std::int64_t i = 0; i < rows.size(0); ++i) {
      if (!window.failed.print_in_place_of(window.options.first_index + static_cast<std::size_t>(i)))
        print_rows(slice(rows, 0, i, i + 1));
    }
  });
}

void check_use(const EmbedArguments& arguments) {
  const bool search = !arguments.queries.empty();
  if (arguments.by_token() && !arguments.output.empty() && processes().size() > 1)
    throw UsageError("--pooling none: cannot be combined with --output and several processes");
  const auto refuse = [](bool wrong, const char* message) {
    if (wrong) throw UsageError(message);
  };
  refuse(search && arguments.similarity, "embed: expected --query or --similarity, got both");
  const bool mines = !arguments.pairs.empty();
  refuse(mines && (search || arguments.similarity || !arguments.output.empty() || arguments.by_token() ||
                   arguments.images || !arguments.vectors.empty() || !arguments.texts.empty()),
         "--mine-negatives: cannot be combined with texts, --query, --similarity, --vectors, --image, "
         "--output or "
         "--pooling none (it prints the pairs of its file; --texts FILE adds texts to search)");
  refuse(arguments.mining.range_max <= arguments.mining.range_min,
         "--range-max: expected more than --range-min");
  refuse((search || arguments.similarity) && !arguments.output.empty(),
         "--output: cannot be combined with --query or --similarity (their results go to stdout)");
  refuse(
      (search || arguments.similarity) && arguments.by_token(),
      "--pooling none: cannot be combined with --query or --similarity (they compare one vector per text)");
  refuse(arguments.by_token() && arguments.images, "--pooling none: cannot be combined with --image");
  refuse(arguments.images && !search &&
             (arguments.prompt || !arguments.prompt_name.empty() || arguments.max_length > 0),
         "--prompt, --prompt-name, --max-length: cannot be combined with --image without --query (they are "
         "about texts)");
  refuse(arguments.images && !arguments.vectors.empty(),
         "embed: expected --image or --vectors to search, got both");
  refuse(arguments.by_token() && arguments.normalize,
         "--normalize: cannot be combined with --pooling none (it scales the vectors of texts)");
  refuse(!search && !arguments.vectors.empty(), "--vectors: missing --query (the text to search for)");
  refuse(arguments.vectors.empty() && !mines && !arguments.texts_of_vectors.empty(),
         "--texts: missing --vectors (the vectors of these texts) or --mine-negatives");
  refuse(!search && arguments.top_k.has_value(), "--top-k: missing --query (the text to search for)");
  refuse(!search && !arguments.similarity && !mines && !arguments.similarity_fn.empty(),
         "--similarity-fn: missing --query, --similarity or --mine-negatives");
  refuse(!arguments.vectors.empty() && !arguments.texts.empty(),
         "embed: expected texts or --vectors to search, got both");
  const auto ending = arguments.output.extension();
  if (!ending.empty() && ending != ".npy" && ending != ".safetensors") {
    throw UsageError("--output: expected a file ending in .npy or .safetensors, got " +
                     arguments.output.string());
  }
}

void run(EmbedArguments arguments, const Globals& globals) {
  check_use(arguments);
  if (arguments.pairs.empty())
    arguments.texts =
        arguments.images ? file_arguments(arguments.texts) : text_arguments(arguments.texts, globals.quiet);
  const LoadedModel model = open_model(arguments.model, globals, arguments.weights, false);
  const bool reads_texts = !arguments.images || !arguments.queries.empty();
  if (reads_texts && !model.can(Task::embed)) refuse(model, Task::embed);
  if (arguments.images && !model.can(Task::embed_images)) refuse(model, Task::embed_images);
  warn_of_settings(model, globals);
  const EmbedSession session{arguments, globals, model, recipe_of(arguments, model, globals)};
  if (!arguments.queries.empty()) return search_texts(session);
  if (arguments.similarity) return print_similarities(session);
  if (!arguments.pairs.empty()) return mine_negatives(session);
  if (arguments.by_token()) return embed_each_token(session);
  embed_each(session);
}

}  // namespace

void add_embed(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand("embed", "Turn texts or images into vectors (sentence embeddings)");
  auto a = std::make_shared<EmbedArguments>();
  add_task_options(*command, *a,
                   "Texts, or with --image image files, - for one on stdin; without any, the lines of stdin");
  OptionGroup input(*command, "Input"), similarity(*command, "Similarity and search"),
      mining(*command, "Hard negatives for training"), output(*command, "Output");
  input.flag("--image", a->images, "The texts are names of image files; a --query is a text still");
  input.value("--prompt", a->prompt, "TEXT", "Text to put before every text");
  input.value("--prompt-name", a->prompt_name, "NAME", "Name of one of the model's own prompts to use");
  input.count("--max-length", a->max_length, 1, "Largest number of tokens of a text; longer ones are cut");
  similarity.value("--query", a->queries, "TEXT",
                   "Print the texts that are most similar to this one: score, line number and text");
  similarity.count("--top-k", a->top_k, 1, "With --query: number of texts to print (default: 10)");
  similarity.value("--vectors", a->vectors, "FILE",
                   "With --query: search the vectors of this .npy file instead of texts");
  similarity.value(
      "--texts", a->texts_of_vectors, "FILE",
      "With --vectors: their texts, or names of their images, one a line, to print beside lines; with "
      "--mine-negatives: more texts to search");
  similarity.flag("--similarity", a->similarity, "Print the similarity of every text to every text");
  similarity.value("--similarity-fn", a->similarity_fn, "cosine|dot",
                   "Similarity of two vectors (default: that of the model's files, else cosine)");
  mining.value(
      "--mine-negatives", a->pairs, "FILE",
      "Print the pairs of this JSONL file (anchor, positive) with hard negatives: texts that are near to the "
      "anchor, among the positives of others");
  mining.count("--negatives", a->mining.count, 1, "Negatives for each pair");
  mining.count("--range-min", a->mining.range_min, 0, "Pass over the nearest N texts, which may be right");
  mining.count("--range-max", a->mining.range_max, 1, "Look at the nearest N texts only");
  mining.number("--margin", a->mining.margin,
                "A negative is less similar to the anchor than its positive by at least this");
  output.value("--pooling", a->pooling, "mean|cls|last|max|mean_sqrt|weighted_mean|none",
               "How token vectors become one vector; none: a vector for each token (default: that of "
               "the model's modules.json, else mean, and last for decoders)");
  output.flag("--normalize", a->normalize, "Scale every vector to length 1");
  output.value("--output,-o", a->output, "FILE",
               "Write all vectors to this .npy or .safetensors file instead of a line of JSON for each; "
               "with --pooling none, .npy takes one text");
  command->footer(
      "Examples:\n"
      "  heed embed --model ./all-MiniLM-L6-v2 \"The cat sat on the mat.\"\n"
      "  heed embed --model bert-base-uncased --pooling cls --normalize --output vectors.npy < texts.txt\n"
      "  heed embed --model ./all-MiniLM-L6-v2 --similarity \"A cat sat.\" \"A cat was sitting.\"\n"
      "  heed embed --model ./all-MiniLM-L6-v2 --query \"Where do cats sleep?\" --top-k 3 < texts.txt\n"
      "  heed embed --model ./all-MiniLM-L6-v2 --query \"Where do cats sleep?\" --vectors vectors.npy "
      "--texts texts.txt\n"
      "  heed embed --model ./all-MiniLM-L6-v2 --mine-negatives pairs.jsonl --margin 0.05 > rows.jsonl\n"
      "  heed embed --model ./clip --image *.jpg --query \"a cat on a sofa\"");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
