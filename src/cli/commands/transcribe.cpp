// heed transcribe: speech to text, file by file, with Whisper, Moonshine or wav2vec 2.0.
#include "heed/tasks/transcribe.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cli/cli.h"
#include "cli/input/input.h"
#include "cli/input/lines.h"
#include "cli/input/models.h"
#include "cli/options/generation_arguments.h"
#include "cli/options/option_group.h"
#include "cli/options/task_arguments.h"
#include "cli/terminal/exit.h"
#include "cli/terminal/terminal.h"
#include "files/input_file.h"
#include "heed/files/file.h"
#include "heed/io/json.h"
#include "heed/sound/sound.h"

namespace heed::cli {
namespace {

namespace fs = std::filesystem;

struct TranscribeArguments {
  std::vector<std::string> files;
  ModelChoice model;
  WeightArguments weights;
  TranscriptForm form = TranscriptForm::text;
  std::optional<fs::path> output_dir;
  std::string task;
  bool timestamps = true;
  TranscribeOptions options;
};

// A sound file, and the transcript's if there is one.
struct Job {
  std::string file;
  std::optional<fs::path> output;
};

const char* extension_of(TranscriptForm form) {
  switch (form) {
    case TranscriptForm::text: return ".txt";
    case TranscriptForm::srt: return ".srt";
    case TranscriptForm::vtt: return ".vtt";
    case TranscriptForm::tsv: return ".tsv";
    case TranscriptForm::json: return ".json";
  }
  HEED_ASSERT(false, "unknown form");
}

std::vector<Job> jobs_of(const TranscribeArguments& arguments, TranscriptForm form) {
  std::vector<Job> jobs;
  for (const std::string& file : file_arguments(arguments.files)) jobs.push_back({file, std::nullopt});
  if (jobs.empty()) jobs.push_back({kStandardInput, std::nullopt});
  if (!arguments.output_dir) {
    if (jobs.size() > 1 && form != TranscriptForm::text && form != TranscriptForm::json)
      throw UsageError(
          "--format: expected text or json for several files on stdout, got subtitles or a table (give a "
          "folder with --output-dir)");
    return jobs;
  }
  std::set<fs::path> outputs;
  for (Job& job : jobs) {
    job.output = *arguments.output_dir / fs::path(job.file).filename().replace_extension(extension_of(form));
    if (!outputs.insert(*job.output).second)
      throw UsageError("--output-dir: expected files with different names, got two for " +
                       job.output->string());
    std::error_code error;
    if (fs::equivalent(*job.output, job.file, error))
      throw UsageError("--output-dir: expected a folder without the sound files, got " +
                       job.output->string() + ", which is one");
  }
  return jobs;
}

// The option that a field of TranscribeOptions is given by.
std::string option_of(std::string field) {
  constexpr std::pair<const char*, const char*> kOthers[] = {
      {"translate", "task"},
      {"word_times", "word-timestamps"},
      {"temperatures", "temperature"},
      {"log_probability_threshold", "logprob-threshold"},
      {"condition_on_previous_text", "no-condition-on-previous-text"},
      {"window_seconds", "chunk-length-s"},
      {"stride_seconds", "stride-length-s"}};
  for (const auto& [name, option] : kOthers) {
    if (field == name) return std::string("--") + option;
  }
  std::replace(field.begin(), field.end(), '_', '-');
  return "--" + field;
}

// Refuses what the model does not have, by the name of the option.
void check_options(const Transcriber& transcriber, const TranscribeOptions& options) {
  try {
    transcriber.check(options);
  } catch (const Error& error) {
    const std::string_view message =
        std::string_view(error.what()).substr(std::string_view("transcribe: ").size());
    const std::size_t end = message.find(':');
    throw UsageError(option_of(std::string(message.substr(0, end))) + std::string(message.substr(end)));
  }
}

class Transcription {
 public:
  Transcription(const TranscribeArguments& arguments, TranscriptForm form, const Globals& globals)
      : arguments_(arguments),
        form_(form),
        globals_(globals),
        model_(open_model_to(Task::transcribe, arguments.model, arguments.weights, globals)),
        transcriber_(load_transcriber()),
        options_(arguments.options) {
    if (const SpeechSettings* settings = transcriber_.settings()) check_language(*settings);
    check_options(transcriber_, options_);
    options_.seed = chosen_seed(globals);
    options_.stop = &stop_flag();
  }

  void run(const Job& job, bool named) {
    Progress progress(globals_.quiet || (stdout_is_terminal() && streams(job)));
    std::int64_t number = 0;
    if (streams(job)) {
      print_stdout("{}", transcript_head(form_));
      options_.on_segment = [&](const TranscriptSegment& segment) {
        const std::string part = transcript_part(segment, ++number, form_);
        print_stdout("{}", named ? job.file + "\t" + part : part);
        flush_results();
      };
    }
    if (globals_.verbose) {
      options_.on_language = [&](const std::string& language) {
        print_stderr(printable(shown_name(job.file) + ": language " + language));
      };
    }
    options_.on_progress = [&](double done, double seconds) {
      const double share = seconds > 0 ? done / seconds : 1;
      constexpr std::int64_t kSteps = 1000;
      progress.show_text(static_cast<std::int64_t>(share * kSteps), kSteps,
                         fmt::format("{}: {} of {}", printable(shown_name(job.file)), clock_time(done),
                                     clock_time(seconds)));
    };
    const Transcript transcript =
        transcriber_(open_sound(job.file, transcriber_.rate(), globals_.quiet), options_);
    progress.finish();
    if (job.output) {
      write_file(*job.output, written(transcript, form_, job.file));
    } else if (form_ == TranscriptForm::json) {
      print_stdout("{}", written(transcript, form_, job.file));
      flush_results();
    }
  }

 private:
  bool streams(const Job& job) const { return !job.output && form_ != TranscriptForm::json; }

  Transcriber load_transcriber() const {
    std::vector<std::string> unused;
    Transcriber transcriber(model_.model(), model_.tokenizer(), model_.files(), &unused);
    for (const std::string& key : unused) {
      if (!globals_.quiet)
        warn(fmt::format("{}: {} is not supported and ignored",
                         model_.files().where("generation_config.json"), key));
    }
    return transcriber;
  }

  // Wrong options are found before the first file.
  void check_language(const SpeechSettings& settings) const {
    const std::string where = model_.directory();
    if (!settings.is_multilingual() && (options_.language || !arguments_.task.empty()))
      throw Error(
          fmt::format("{}: expected neither --language nor --task for a model of English only, got {}", where,
                      options_.language ? "--language " + *options_.language : "--task " + arguments_.task));
    try {
      if (options_.language) static_cast<void>(speech_language(settings, *options_.language));
    } catch (const Error& error) {
      throw UsageError(std::string("--") + error.what());
    }
    if (arguments_.task == "translate" && !settings.translate)
      throw Error(where + ": expected a model that translates for --task translate, got one that does not");
  }

  const TranscribeArguments& arguments_;
  TranscriptForm form_;
  const Globals& globals_;
  LoadedModel model_;
  Transcriber transcriber_;
  TranscribeOptions options_;
};

// A message that begins with the file's name.
std::string message_of(const std::string& file, const std::exception& error) {
  const std::string message = failure(error);
  return message.rfind(file, 0) == 0 ? message : file + ": " + message;
}

void run(const TranscribeArguments& arguments, const Globals& globals) {
  const TranscriptForm form = globals.json ? TranscriptForm::json : arguments.form;
  const std::vector<Job> jobs = jobs_of(arguments, form);
  Transcription session(arguments, form, globals);
  if (arguments.options.word_times && form == TranscriptForm::text && !globals.quiet)
    warn("--word-timestamps has no effect on text without times (use --format json, srt, vtt or tsv)");
  if (arguments.output_dir) fs::create_directories(*arguments.output_dir);
  bool failed = false;
  for (const Job& job : jobs) {
    try {
      session.run(job, jobs.size() > 1);
    } catch (const Error& error) {
      if (std::ferror(stdout) != 0) throw;
      failed = true;
      const std::string message = message_of(shown_name(job.file), error);
      print_stderr(printable("heed: error: " + message));
      if (form == TranscriptForm::json && !job.output)
        print_stdout(
            "{}\n",
            JsonWriter().begin_object().field("file", job.file).field("error", message).end_object().text());
    }
  }
  if (failed) throw ReportedError();
}

CLI::Option* add_threshold(CLI::App& command, const char* flag, std::optional<double>& value,
                           const char* help) {
  return command
      .add_option(
          flag,
          [&value, flag](const std::vector<std::string>& texts) {
            value.reset();
            if (texts.front() == "none") return true;
            double number = 0;
            if (!parse_number(texts.front(), number) || !std::isfinite(number))
              throw UsageError(fmt::format("{}: expected a number or none, got {}", flag, texts.front()));
            value = number;
            return true;
          },
          help)
      ->type_name("X|none")
      ->default_str(fmt::format("{}", *value))
      ->group("Windows");
}

void add_temperatures(CLI::App& command, std::vector<double>& temperatures) {
  command
      .add_option(
          "--temperature",
          [&temperatures](const std::vector<std::string>& texts) {
            temperatures.clear();
            for (std::size_t begin = 0; begin <= texts.front().size();) {
              const std::size_t end = std::min(texts.front().find(',', begin), texts.front().size());
              double number = 0;
              if (!parse_number(texts.front().substr(begin, end - begin), number) ||
                  !(number >= 0 && number <= 100))
                throw UsageError("--temperature: expected numbers from 0 to 100 such as 0,0.4,0.8, got " +
                                 texts.front());
              temperatures.push_back(number);
              begin = end + 1;
            }
            return true;
          },
          "Temperatures, tried in turn until a window's text passes the thresholds; 0 takes the likeliest "
          "tokens")
      ->type_name("X,...")
      ->default_str("0,0.2,0.4,0.6,0.8,1")
      ->group("Windows");
}

}  // namespace

void add_transcribe(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand(
      "transcribe", "Transcribe speech with Whisper, Moonshine or wav2vec 2.0; translate it with Whisper");
  auto a = std::make_shared<TranscribeArguments>();
  TranscribeOptions& o = a->options;
  command->add_option("file", a->files,
                      "Sound files (WAV, FLAC, Ogg, MP3, ...) of any length; without any, or for -, stdin");
  add_model_option(*command, a->model)->required();
  add_weight_options(*command, a->weights);
  OptionGroup speech(*command, "Speech"), output(*command, "Output"), windows(*command, "Windows");
  speech.value("--language", o.language, "LANGUAGE",
               "Language of the speech: a code or English name, fr or French (default: detected)");
  speech.word("--task", a->task, {"transcribe", "translate"}, "Transcribe, or translate into English")
      ->default_str("transcribe");
  speech.value("--prompt", o.prompt, "TEXT",
               "Text that seems to precede the recording: names, spelling, style");
  output.choice<TranscriptForm>("--format", a->form,
                                {{"text", TranscriptForm::text},
                                 {"srt", TranscriptForm::srt},
                                 {"vtt", TranscriptForm::vtt},
                                 {"tsv", TranscriptForm::tsv},
                                 {"json", TranscriptForm::json}},
                                "A line a segment, subtitles, times in milliseconds and text, or JSON");
  output.value("--output-dir,-o", a->output_dir, "DIR",
               "Write each file's transcript into this folder, under its name, instead of stdout");
  output.flag(
      "--word-timestamps", o.word_times,
      "Find the times of words: of Whisper by the cross-attention, and segments' times by their words; "
      "of CTC by the frames");
  windows
      .value("--chunk-length-s", o.window_seconds, "SECONDS",
             "Length of a window in seconds, of models other than Whisper (default: 30)")
      ->check(positive_number());
  windows
      .value("--stride-length-s", o.stride_seconds, "SECONDS",
             "CTC: seconds at each end of a window that only its neighbors are there for (default: a "
             "sixth of the window)")
      ->check(finite_number());
  CLI::Option* const timestamps = command
                                      ->add_flag("--timestamps,!--no-timestamps", a->timestamps,
                                                 "Whisper: predict the times of segments, or do not")
                                      ->default_str("true")
                                      ->group("Windows");
  windows
      .flag("--condition-on-previous-text,!--no-condition-on-previous-text", o.condition_on_previous_text,
            "Read the text so far before the next window, or do not")
      ->default_str("true");
  add_temperatures(*command, o.temperatures);
  windows.count("--best-of", o.best_of, 1, "Samples at a temperature above 0; the likeliest is taken", 1000);
  windows.count("--num-beams", o.num_beams, 1, "Number of beams at temperature 0; 1 is greedy search", 1000);
  windows.count("--max-new-tokens", o.max_new_tokens, 1,
                "Largest number of tokens of a window (default: max_length of generation_config.json)");
  add_cache_dtype_option(*command, o.cache_dtype)->group("Model");
  add_threshold(*command, "--compression-ratio-threshold", o.compression_ratio_threshold,
                "Text that zlib compresses by more than this repeats itself, and is tried again");
  add_threshold(*command, "--logprob-threshold", o.log_probability_threshold,
                "Text with a lower mean log-probability of its tokens is tried again");
  add_threshold(*command, "--no-speech-threshold", o.no_speech_threshold,
                "A window with a larger probability of no speech is silence if its text is unlikely");
  command->footer(
      "Examples:\n"
      "  heed transcribe --model whisper-base talk.mp3\n"
      "  heed transcribe --model whisper-base --language French --task translate --format srt film.flac > "
      "film.srt\n"
      "  heed transcribe --model whisper-base --word-timestamps --json a.wav b.mp3\n"
      "  heed transcribe --model whisper-base --format vtt --output-dir subtitles *.ogg\n"
      "  heed transcribe --model wav2vec2-base-960h --word-timestamps --json talk.mp3\n"
      "  arecord -f S16_LE -r 16000 -d 10 | heed transcribe --model whisper-base");
  command->callback([a, timestamps, &globals] {
    if (timestamps->count() > 0) a->options.timestamps = a->timestamps;
    if (!a->task.empty()) a->options.translate = a->task == "translate";
    run(*a, globals);
  });
}

}  // namespace heed::cli
