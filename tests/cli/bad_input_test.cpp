// Bad input gives one line that states what was expected, status 1 (2 for a wrong command line), and no
// output file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "bad_input.h"

namespace heed::cli_test {
namespace bad_input {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Words translate(const Words& more) { return with({"translate", "--model", tiny_model(), "a b"}, more); }
Words attend(const Words& more) { return with({"attend", "--model", tiny_model(), "a b"}, more); }
Words prompt(const std::string& ids) { return {"translate", "--model", tiny_model(), "--prompt-ids=" + ids}; }

TEST(BadInput, WrongCommandLines) {
  expect_errors({
      {2, {"translat"}, "command line: unknown command translat (did you mean translate?"},
      {2, {"doctor"}, "command line: missing model for heed doctor (heed models lists those that are here;"},
      {2, {"convert", "x"}, "missing --output for heed convert"},
      {2, translate({"--bogus"}), "unknown option --bogus for heed translate"},
      {2, translate({"--model"}), "--model: missing its value"},
      {2, translate({"--threads", "0"}), "--threads: expected a whole number from 1 to 4096, got 0"},
      {2, translate({"--seed", "-1"}), "--seed: expected"},
      {2, translate({"--seed", "99999999999999999999"}),
       "--seed: expected a whole number from 0 to 9223372036854775807, got 99999999999999999999"},
      {2, translate({"--batch-tokens", "0"}), "--batch-tokens: expected a whole number of at least 1, got 0"},
      {2, translate({"--dtype", "f8"}), "--dtype: expected f32 or bf16, got f8"},
      {2, translate({"--long-lines", "fold"}), "--long-lines: expected cut, split or error, got fold"},
      {2, translate({"--long-lines", "split", "--attention", "x.svg"}),
       "--attention: cannot be combined with --long-lines split"},
      {2, {"translate", "--model", "", "a"}, "--model: expected a directory"},
      {2, {"evaluate"}, "missing --reference"},
      {2, {"evaluate", "--reference", "x"}, "missing --source (with --model) or --hypothesis"},
      {2, {"evaluate", "--reference", "x", "--source", "x"}, "missing --model, which --source needs"},
      {2, {"evaluate", "--reference", "x", "--hypothesis", "x", "--by-length", "5"}, "missing --source"},
      {2, {"evaluate", "--reference", "x", "--hypothesis", "x", "--output", "x"}, "missing --by-length"},
      {2,
       {"evaluate", "--reference", "x", "--hypothesis", "x", "--scores", "meteor"},
       "--scores: expected bleu, chrf or rouge, got meteor"},
      {2,
       {"evaluate", "--reference", "x", "--hypothesis", "x", "--stemmer"},
       "--stemmer: missing --scores rouge"},
      {2,
       {"evaluate", "--reference", "x", "--hypothesis", "x", "--prefix", "p"},
       "--prefix: missing --source"},
      {2,
       {"evaluate", "--reference", "x", "--hypothesis", "x", "--tokenize", "mine"},
       "--tokenize: expected 13a"},
      {2, attend({"--show", "weight"}), "--show: expected weights, norms, rollout or gradient, got weight"},
      {2, attend({"--palette", "green"}), "--palette: expected blue, red or grey, got green"},
      {2, attend({"--kind", "mine"}), "--kind: expected self"},
      {2, attend({"--layers", "x"}), "--layers: expected whole numbers separated by commas, got \"x\""},
      {2, attend({"--layers", "7"}), "--layers: 7 not found"},
      {2, attend({"--heads", "2"}), "--heads: expected heads below 2, got 2"},
      {2, attend({"--show", "rollout", "--kind", "cross"}), "--show rollout: expected self-attention"},
      {2, attend({"--show", "gradient", "--position", "99"}), "--position: expected a position below"},
      {2, attend({"--show", "gradient", "--token", "no such"}),
       "--token: expected one token of the vocabulary"},
      {2, attend({"--position", "0"}), "--position: needs --show gradient"},
      {2, attend({"--ablate"}), "--ablate: needs --output FILE.html or FILE.json, or --json"},
      {2, attend({"--vectors"}), "--vectors: needs --output FILE.html"},
      {2, attend({"--pair", "c"}), "--pair: expected an encoder"},
      {2, attend({"--target", "c", "--max-new-tokens", "3"}),
       "--max-new-tokens: cannot be combined with --target"},
      {2,
       {"tokenize", "--model", tiny_model(), "--decode", "5,3000000000"},
       "--decode: expected ids from 0 to 2147483647, got 3000000000"},
      {2,
       {"tokenize", "--model", tiny_model(), "--decode", "5", "a b"},
       "expected text or --decode, got both"},
  });
}

TEST(BadInput, GenerationOptions) {
  expect_errors({
      {2, translate({"--length-penalty", "nan"}), "--length-penalty: expected a number, got nan"},
      {2, translate({"--temperature", "inf"}), "--temperature: expected a number, got inf"},
      {2, translate({"--temperature", "0"}), "--temperature: expected a number above 0"},
      {2, translate({"--top-p", "2"}), "--top-p: expected a number from 0 to 1, got 2"},
      {2, translate({"--top-h", "2"}), "--top-h: expected a number above 0 and at most 1, got 2"},
      {2, translate({"--encoder-repetition-penalty", "0"}),
       "--encoder-repetition-penalty: expected a number above 0, got 0"},
      {2, translate({"--num-beams", "0"}), "--num-beams: expected a whole number from 1 to 1000, got 0"},
      {2, translate({"--num-beams", "1001"}),
       "--num-beams: expected a whole number from 1 to 1000, got 1001"},
      {2, translate({"--num-beams", "two"}), "--num-beams: expected a whole number"},
      {2, translate({"--num-return-sequences", "2"}), "--num-return-sequences: expected 1 in greedy search"},
      {2, translate({"--max-length", "0"}), "--max-length: expected a whole number of at least 1, got 0"},
      {2, translate({"--max-new-tokens", "4", "--min-new-tokens", "5"}),
       "--min-new-tokens: expected at most"},
      {2, translate({"--early-stopping", "maybe"}), "--early-stopping: expected true, false or never"},
      {2, translate({"--eos-token-id", "36"}),
       "--eos-token-id: expected token ids below the vocabulary's size 36"},
      {2, translate({"--bad-words-ids", "5,,6"}), "--bad-words-ids: expected whole numbers"},
      {2, prompt("5,36"), "--prompt-ids: expected ids from 0 to 35, got 36"},
      {2, prompt("-1"), "--prompt-ids: expected ids from 0 to 35, got -1"},
      {2, prompt("5,"), "--prompt-ids: expected whole numbers"},
      {2, prompt(""), "--prompt-ids"},
      {2, with(prompt("5"), {"a b"}), "expected one of text, --prompt-ids and --input, got several"},
  });
  std::string ids = "5";
  for (int i = 0; i < 64; ++i) ids += ",5";
  expect_errors({{2, prompt(ids), "--prompt-ids: expected at most 64 ids, the model's positions, got 65"}});
  // More beams than words, and a length beyond all positions, are not errors.
  EXPECT_EQ(run(translate({"--num-beams", "50", "--max-new-tokens", "4"})).status, 0);
  EXPECT_EQ(run(translate({"--max-new-tokens", "9223372036854775807"})).status, 0);
}

TEST(BadInput, Models) {
  const Folder folder;
  const auto broken = [&](const std::string& name, const std::string& file,
                          const std::function<std::string(std::string)>& change) {
    std::filesystem::copy(marian(), folder / name);
    spill(folder / (name + "/" + file), change(slurp(marian() + "/" + file)));
    return folder / name;
  };
  const auto replaced = [](const std::string& from, const std::string& to) {
    return [=](std::string text) { return text.replace(text.find(from), from.size(), to); };
  };
  const std::string weights = "model.safetensors", config = "config.json";
  std::filesystem::create_directory(folder / "empty");
  expect_errors({
      {1, {"models", "/nowhere"}, "model /nowhere: not found (check the path)"},
      {1, {"models", folder / "empty"}, "empty: no model: config.json not found in it ("},
      {1,
       {"models", broken("cut", weights, [](std::string s) { return s.substr(0, 100000); })},
       "the file is cut off"},
      {1, {"models", broken("longer", weights, [](std::string s) { return s + "x"; })}, "trailing bytes"},
      {1, {"models", broken("nothing", weights, [](std::string) { return ""; })}, "got 0 bytes"},
      {1,
       {"models", broken("header", weights, [](std::string s) { return s.replace(0, 8, 8, '\xff'); })},
       "header of at most 100000000 bytes"},
      {1,
       {"models", broken("shape", config, replaced("\"d_model\": 48", "\"d_model\": 64"))},
       "model.shared.weight: expected floating numbers [541, 64]"},
      {1,
       {"models", broken("layers", config, replaced("\"encoder_layers\": 2", "\"encoder_layers\": 3"))},
       "not found: model.encoder.layers.2"},
      {1,
       {"models", broken("family", config, replaced("\"marian\"", "\"grandma\""))},
       "config.json: model_type: expected one of "},
      {1,
       {"models", broken("json", config, [](std::string s) { return s.substr(0, 50); })},
       "config.json: expected"},
      {1,
       {"translate", "--prompt-ids", "5", "--json", "--model",
        broken("options", "generation_config.json",
               replaced("\"eos_token_id\": 0", "\"eos_token_id\": \"x\""))},
       "generation_config.json: eos_token_id: expected"},
      {1,
       {"translate", "--prompt-ids", "5", "--json", "--model",
        broken("vocabulary", "generation_config.json",
               replaced("\"forced_eos_token_id\": 0", "\"forced_eos_token_id\": 541"))},
       "generation_config.json: generation options: forced_eos_token_id: expected token ids below"},
      {1, {"translate", "--model", marian(), "a"}, "no tokenizer found"},
      {1, {"convert", tiny_model(), marian(), "--output", folder / "mean"}, "as " + tiny_model()},
  });
  EXPECT_FALSE(std::filesystem::exists(folder / "mean"));
}

TEST(BadInput, Files) {
  const Folder folder;
  const std::string inputs = marian() + "/inputs.safetensors", out = folder / "out.safetensors";
  const std::string ids = folder / "ids.safetensors";
  ASSERT_EQ(run({"tokenize", "--model", tiny_model(), "--output", ids, "a b"}).status, 0);
  spill(folder / "two", "a\nb\n");
  spill(folder / "one", "a\n");
  spill(folder / "none", "");
  expect_errors({
      {2,
       {"forward", "--model", marian(), "--input", inputs, "--output", out, "--gradients", "--dtype", "bf16"},
       "--gradients: expected weights in f32, got --dtype bf16"},
      {1,
       {"forward", "--model", tiny_model(), "--input", ids, "--output", out},
       "ids.safetensors: expected decoder_input_ids or labels for the decoder of marian, got neither (add "
       "one of "
       "them to the file, or use --text ... --target ...)"},
      {1,
       {"forward", "--model", marian(), "--input", folder / "missing", "--output", out},
       "missing: not found"},
      {1,
       {"forward", "--model", marian(), "--input", folder / "two", "--output", out},
       "shorter than any header"},
      {1,
       {"forward", "--model", marian(), "--input", marian() + "/model.safetensors", "--output", out},
       "expected inputs this model takes (attention_mask, decoder_attention_mask, decoder_input_ids, "
       "input_ids, "
       "labels)"},
      {1,
       {"forward", "--model", tiny_model(), "--input", inputs, "--output", out},
       "expected ids in [0, 36)"},
      {1,
       {"forward", "--model", marian(), "--input", inputs, "--output", folder / "no/out.safetensors"},
       "No such file or directory"},
      {1,
       {"forward", "--model", marian(), "--input", inputs, "--output", "/dev/full"},
       "No space left on device"},
      {1, {"evaluate", "--hypothesis", folder / "two", "--reference", folder / "one"}, "expected 2 lines"},
      {1,
       {"evaluate", "--model", tiny_model(), "--source", folder / "two", "--reference", folder / "one"},
       "expected 2 lines"},
      {1, {"evaluate", "--hypothesis", folder / "none", "--reference", folder / "none"}, "no lines to score"},
      {1, {"convert", tiny_model(), tiny_model(), "--output", folder / "one"}, "Not a directory"},
      {1, attend({"--output", folder / "no/map.svg"}), "/no not found (create it first)"},
      {2, attend({"--output", folder / "map.gif"}),
       "expected a file ending in .html, .svg, .pdf, .png, .json or .npy"},
      {2,
       {"translate", "--model", tiny_model(), "--input", folder / "two"},
       "--input: expected a safetensors file with the features of sounds, got"},
      {2, translate({"--attention", folder / "map.gif"}), "expected a file ending in .html"},
      {1, translate({"--attention", folder / "no/map.svg"}), "/no not found (create it first)"},
  });
  EXPECT_EQ(listing(folder.path()), (Words{"ids.safetensors", "none", "one", "two"}));
}

TEST(BadInput, OtherCommands) {
  const Folder folder;
  spill(folder / "none", "");
  spill(folder / "labels", "text\tlabel\na\tnobody\n");
  const std::string fill = fixture("encoders/bert-mlm"), classify = fixture("encoders/bert-classify"),
                    tag = fixture("encoders/bert-tag"), answer = fixture("encoders/bert-qa"),
                    embed = fixture("encoders/bert"), generate = fixture("decoders/gpt2");
  const auto ask = [&](const Words& more) { return with({"answer", "--model", answer}, more); };
  const auto go_on = [&](const Words& more) {
    return with({"generate", "--model", generate, "--json", "--prompt-ids", "1,2"}, more);
  };
  expect_errors({
      {2, go_on({"--temperature", "nan"}), "--temperature: expected a number, got nan"},
      {2, go_on({"--top-p", "nan"}), "--top-p: expected a number, got nan"},
      {2, go_on({"--min-p", "-1"}), "--min-p: expected a number from 0 to 1, got -1"},
      {2, go_on({"--typical-p", "0"}), "--typical-p: expected a number above 0 and at most 1, got 0"},
      {2, go_on({"--top-k", "-1"}), "--top-k: expected a whole number of at least 0, got -1"},
      {2, go_on({"--max-new-tokens", "-5"}), "--max-new-tokens: expected a whole number of at least 1"},
      {2, go_on({"--repetition-penalty", "0"}), "--repetition-penalty: expected a number above 0"},
      {2, go_on({"--sequence-bias", "512:1"}), "--sequence-bias: expected token ids below"},
      {2, go_on({"--sequence-bias", "5:nan"}), "--sequence-bias: expected IDS:NUMBER"},
      {2, go_on({"--prompt-ids", "512"}), "--prompt-ids: expected ids from 0 to 511, got 512"},
      {1, go_on({"--do-sample", "--temperature", "1e-300"}), "search: expected finite scores"},
      {1,
       {"generate", "--model", embed, "--prompt-ids", "1", "--json"},
       "encoders/bert: a bert encoder cannot continue text (use heed embed)"},
      {1,
       {"translate", "--model", generate, "a"},
       "decoders/gpt2: a gpt2 decoder cannot translate (use heed generate)"},
      {1,
       {"translate", "--model", HEED_FIXTURES "/vit", "a"},
       "a vit image model cannot translate (use heed classify)"},
      {1,
       {"embed", "--model", HEED_FIXTURES "/vit", "a"},
       "a vit image model cannot embed texts (use heed embed --image)"},
      {1,
       {"fill", "--model", HEED_FIXTURES "/wav2vec2-ctc", "a"},
       "a wav2vec2 speech recognizer cannot fill masks (use heed transcribe)"},
      {1, {"attend", "--model", HEED_FIXTURES "/wav2vec2-ctc", "a"}, "a: not found"},
      {1, {"bench", "encode", "--model", HEED_FIXTURES "/clip"}, "expected one encoder, got clip"},
      {1,
       {"classify", "--model", HEED_FIXTURES "/vit-model", "photo.jpg"},
       "a vit image model cannot classify images (use heed embed --image)"},
      {2,
       {"classify", "--model", HEED_FIXTURES "/vit", "photo.jpg", "--pair", "b"},
       "--pair, --tab-pairs: expected neither for images and sounds, got one"},
      {1, {"generate", "--model", generate, "a"}, "no tokenizer found"},
      {1, {"fill", "--model", generate, "a"}, " decoder cannot fill masks (use heed generate)"},
      {2,
       {"fill", "--model", fill, "--top-k", "0", "[MASK]"},
       "--top-k: expected a whole number of at least 1"},
      {1,
       {"classify", "--model", fill, "a"},
       "a bert masked language model cannot classify texts (use heed fill)"},
      {2, {"classify", "--model", classify, "--top-k", "-1", "a"}, "--top-k: expected"},
      {2,
       {"classify", "--model", classify, "--aggregation", "first", "a"},
       "--aggregation: expected a model that labels tokens, got a bert sequence classifier"},
      {2,
       {"classify", "--model", tag, "--top-k", "2", "a"},
       "--top-k: expected a model that labels whole texts or files, got a bert token classifier"},
      {2,
       {"classify", "--model", tag, "--stride", "-1", "a"},
       "--stride: expected a whole number of at least 0"},
      {2, {"classify", "--model", tag, "--aggregation", "most", "a"}, "--aggregation: expected none"},
      {2, ask({"--question", "a"}), "missing --context or --context-file"},
      {1, ask({"--question", "a", "--context-file", folder / "no"}), ": not found"},
      {2, {"embed", "--model", embed, "--pooling", "most", "a"}, "--pooling: expected cls"},
      {2, {"embed", "--model", embed, "--max-length", "0", "a"}, "--max-length: expected"},
      {2,
       {"embed", "--model", embed, "--output", folder / "v.txt", "a"},
       "--output: expected a file ending in .npy or .safetensors, got "},
      {2,
       {"forward", "--model", embed, "--output", folder / "o.npy", "--text", "a"},
       "--output: expected a file ending in .safetensors, got "},
      {1,
       {"forward", "--model", embed, "--output", folder / "o", "--text", "a", "--gradients"},
       "labels come with --input"},
      {1, {"embed", "--model", embed, "--output", "/dev/full", "a"}, "No space left on device"},
      {1, {"embed", "--model", embed, "--output", folder.path().string(), "a"}, "expected a file to write"},
      {1,
       {"embed", "--model", embed, "--output", "/proc/v.npy", "a"},
       "cannot be created: No such file or directory"},
      {1, {"embed", "--model", embed, "--output", folder / "v.npy"}, "embed: missing texts"},
      {1, {"tokenize", "--model", "/nowhere", "a"}, "model /nowhere: not found"},
      {1, {"tokenize", "--model", folder / "labels", "a"}, "labels: expected a tokenizer.json, a .model"},
      {2, {"tokenize", "--model", embed, "--decode", "1,x"}, "--decode: expected whole numbers"},
      {1,
       {"evaluate", "--model", classify, "--data", folder / "none"},
       "none: expected labeled texts, got none"},
      {1,
       {"evaluate", "--model", classify, "--data", folder / "labels"},
       "labels:1: expected one of the model's"},
      {1, {"evaluate", "--model", classify, "--data", folder / "missing"}, "missing: not found"},
      {1, {"convert", embed, embed, "--output", embed}, "expected a folder other than those to average"},
      {2, {"bench", "speed"}, "unknown command speed of heed bench"},
      {2, {"bench", "gemm", "--m", "0"}, "--m: expected a whole number from 1"},
      {2, {"bench", "gemm", "--seconds", "nan"}, "--seconds: expected a number above 0, got nan"},
#ifndef __SANITIZE_ADDRESS__  // the sanitizer's operator new aborts instead of throwing
      {1,
       {"bench", "gemm", "--m", "2147483648", "--n", "2147483648", "--repeats", "1"},
       "memory: not enough"},
#endif
      {1, {"bench", "encode", "--model", "/nowhere"}, "model /nowhere: not found"},
  });
  EXPECT_EQ(listing(folder.path()), (Words{"labels", "none"}));
}

TEST(BadInput, FilesOfOptionsAreNamedWithTheOption) {
  const std::string model = HEED_SOURCE "/models/shakespeare", none = "/nonexistent";
  for (const auto& [words, option] : std::vector<std::pair<Words, std::string>>{
           {{"generate", "--model", model, "--json-schema", none, "a"}, "--json-schema"},
           {{"generate", "--model", model, "--messages", none}, "--messages"},
           {{"attend", "--model", model, "--steer", none, "a"}, "--steer"},
           {{"serve", model, "--steer", "a=" + none, "--port", "0"}, "--steer"},
           {{"serve", model, "--api-key-file", none, "--port", "0"}, "--api-key-file"}})
    expect_error(1, words, option + ": /nonexistent: not found (check the path)");
}

TEST(BadInput, MaskedModelsAreMeasuredByAToken) {
  const Words heads{"ablate", "--model", HEED_SOURCE "/models/reviews-mlm", "A [MASK] film."};
  const auto with = [&](const Words& more) {
    Words all = heads;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  expect_error(2, with({}), "--token: missing (a masked language model is measured by one token");
  expect_error(1, with({"--remove", "99.0", "--token", "good"}),
               "ablation: expected a layer below 4, got 99.0");
}

TEST(BadInput, LinesWithoutAnAnswer) {
  const std::string fill = fixture("encoders/bert-mlm"), answer = fixture("encoders/bert-qa");
  for (const auto& [words, message] : std::vector<std::pair<Words, std::string>>{
           {{"fill", "--model", fill, "a"}, "no [MASK] in the text (put it where a word is to be filled in)"},
           {{"answer", "--model", answer, "--question", "a", "--context", ""},
            "expected a context, got an empty one"},
           {{"answer", "--model", answer, "--question", "", "--context", "a"},
            "expected a question, got an empty one"}}) {
    const Result result = run(words);
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(result.out, "\n");
    EXPECT_EQ(result.err, "heed: error: line 1: " + message + "\n");
  }
}

}  // namespace
}  // namespace bad_input
}  // namespace heed::cli_test
