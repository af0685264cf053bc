// The interface of all models: parameters by their names in the file, a forward pass from named tensors to
// named tensors, and saving in Hugging Face layout. Encoders, decoders and encoder-decoders add the
// interfaces for tasks, decoding and training. Inference on one model is safe from several threads;
// backward() is not.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heed/error.h"
#include "heed/export.h"
#include "heed/models/adapter.h"
#include "heed/models/input.h"
#include "heed/models/quantize.h"
#include "heed/models/read_out.h"
#include "heed/nn/context.h"
#include "heed/ops/activation.h"
#include "heed/ops/loss.h"
#include "heed/tensor.h"

namespace HEED_API heed {

struct Stack;

/// A trained tensor under its name in model.safetensors.
struct Parameter {
  std::string name;
  Tensor tensor;
  bool decays = true;  ///< false for norms and biases: no weight decay
};

/// Additional outputs of a forward pass, with the names of transformers: `attentions.0`, `hidden_states.1`,
/// ... They are the taps of all layers, whole (heed/nn/tap.h); for chosen layers, heads and positions, and to
/// replace values, listen to taps.
struct ForwardOptions {
  bool hidden_states = false;
  bool attentions = false;
  /// False for a pass that is run only for its taps: logits over a vocabulary and the loss are not computed,
  /// unless `logits` has a listener.
  bool logits = true;
};

/// Threads: several may run const functions of one model at once, each with its own Context, within
/// NoGradients; the first use included. Training (a forward pass with gradients, backward(), changed weights)
/// is for one thread.
class Model {
 public:
  virtual ~Model() = default;

  /// The config's model_type, e.g. "marian".
  virtual std::string family() const = 0;
  /// The trained tensors, tied ones once, in the order of the file.
  virtual const std::vector<Parameter>& parameters() const = 0;
  /// Inputs and outputs are named as in Hugging Face transformers: `input_ids`, `attention_mask`, `labels`,
  /// ... in; `logits`, `loss` (when there are labels), `encoder_hidden_states.0`, `cross_attentions.1`, ...
  /// out. Throws Error when an input is missing, unknown, of the wrong dtype or shape, or out of range.
  virtual TensorMap forward(const TensorMap& inputs, const ForwardOptions& options,
                            Context& context) const = 0;
  /// The same with a context of its own: no dropout, no taps. As every computation it records gradients,
  /// except within NoGradients.
  TensorMap forward(const TensorMap& inputs, const ForwardOptions& options = {}) const {
    Context context;
    return forward(inputs, options, context);
  }
  /// Writes config.json, generation_config.json and model.safetensors into an existing directory; `dtype` is
  /// that of the file. After train_adapter(), adapter_config.json and adapter_model.safetensors are written
  /// instead of the model. Throws Error for a model with adapters that are not merged.
  virtual void save(const std::filesystem::path& directory, DType dtype = DType::f32) const = 0;
  /// Adds the LoRA adapter of a directory in PEFT's layout, times `weight`, to those that were added before:
  /// its products are computed beside the weights, which stay as they are; modules that it holds whole
  /// replace the model's. Throws Error, and changes nothing, if the files are malformed, contain something
  /// that heed does not support, or belong to another model.
  virtual void add_adapter(const std::filesystem::path& directory, double weight = 1.0);
  /// Begins the training of a new adapter: A is uniform in +-1 / sqrt(in), and B is zeros; for token tables,
  /// A is zeros, and B is normal. Only the returned parameters have gradients from now on, and save() writes
  /// the adapter alone. Throws Error for a target that matches no linear map or token table (naming similar
  /// ones), and for a model that already has adapters.
  virtual std::vector<Parameter> train_adapter(const LoraOptions& options, Generator& generator);
  /// Adds the product of each adapter to its weight and removes the adapters. Throws Error, and changes
  /// nothing, for an adapter of a token table that the output map shares.
  virtual void merge_adapters();
  /// Quantizes the linear maps; save() writes them as compressed-tensors (pack-quantized). For gptq and awq,
  /// `calibrate` is called to run the model on calibration inputs: once, or once for each part when the
  /// earlier parts are quantized (to save memory; a decoder after its encoder). Throws Error for a model
  /// without maps that fit the options, and for one with adapters.
  virtual QuantizeReport quantize(const QuantizeOptions& options,
                                  const std::function<void()>& calibrate = {});
  /// Writes a GGUF file that llama.cpp and heed open. Matrices are rounded to blocks of `type`, with the bits
  /// of ggml's reference; the output map (also if it is the token table) to Q8_0; rows that are not whole
  /// blocks to F16; vectors stay F32. The tokenizer is that of a directory in Hugging Face layout, or of
  /// another GGUF file. Throws Error, and writes nothing, for a family that GGUF lacks or heed does not
  /// write, for settings and tokenizers that GGUF cannot store, and for a model with adapters.
  virtual QuantizeReport save_gguf(const std::filesystem::path& file, GgufType type,
                                   const std::filesystem::path& tokenizer) const;
  /// Sets what products with weights that are quantized to integers take from now on (initially f32).
  /// Activations::automatic is f32 for other models than encoders of texts. Returns the number of such
  /// weights.
  virtual std::int64_t use_activations(Activations type);
  /// Whether some of them take int8.
  virtual bool takes_int8() const { return false; }
  /// The error of int8 activations for each weight that has integers, on the inputs of the passes in `run`.
  /// The model itself computes with exact inputs in `run`, and from then on.
  virtual std::vector<QuantizedMap> int8_activation_errors(const std::function<void()>& run);
  /// Largest number of positions a sequence may have, where the family has a limit.
  virtual std::optional<std::int64_t> max_positions() const = 0;
  /// Positions of the training texts, if the config has them: the default limit of generated texts.
  virtual std::optional<std::int64_t> trained_positions() const { return max_positions(); }
  /// The input of the first layer; for an encoder-decoder, of the encoder.
  virtual InputSpec input() const { return {}; }
  /// Number of token ids; 0 for a model without tokens.
  virtual std::int64_t vocab_size() const = 0;
  /// The map from the residual stream of the layers that predict the next token to logits; no value for other
  /// models.
  virtual std::optional<ReadOut> read_out() const { return std::nullopt; }
  /// The stack whose taps begin with `name`: `encoder`, `decoder` or EncoderModel::stack_name(). Null if
  /// there is none, and for recurrent models, whose layers are not made of sublayers.
  virtual const Stack* stack_named(const std::string&) const { return nullptr; }
  /// The vector of each token in the input of a stack's first layer, before positions: a copy, f32 [V, D]. A
  /// norm of the sum of all embeddings counts with its linear part only (the weight, and the mean that
  /// LayerNorm subtracts). Undefined for a stack that does not exist or reads no tokens, and for recurrent
  /// models.
  virtual Tensor token_vectors(const std::string&) const { return {}; }
  /// Steering (Turner et al. 2023, "Activation addition"): from now on, every pass adds `vector` [D] to the
  /// residual stream after layer `layer` (from 0) of the stack `stack`, at every token. Vectors of one layer
  /// add up. save() does not write them. As with changes to weights, no other thread may use the model during
  /// the call. Throws Error for a stack, a layer or a width that the model does not have.
  virtual void steer(const std::string& stack, std::int64_t layer, const Tensor& vector);
  /// Settings of config.json that are unknown and ignored, as "key" or "outer.key". transformers ignores
  /// unknown settings too.
  virtual std::vector<std::string> unknown_settings() const { return {}; }
  /// Tensors of the files that the model does not use; transformers ignores them too. What it lacks is an
  /// Error when it is loaded.
  virtual std::vector<std::string> unused_tensors() const { return {}; }
};

class Tokenizer;

/// The number of tokens of the training texts: from the config, else the tokenizer's model_max_length.
std::optional<std::int64_t> trained_length(const Model& model, const Tokenizer& tokenizer);

/// Decoding step by step: R rows of tokens, and their state in the model. Embeddings (ModelInput::embeddings)
/// may be fed in place of ids. Threads: one at a time; several decodings of one model may run at once.
class Decoding {
 public:
  virtual ~Decoding() = default;
  /// Feeds T more tokens to every row (`ids` i64 [R, T], or embeddings [R, T, E]) and returns the logits
  /// after the last, f32 [R, V].
  /// Taps in `context` see the values of these T positions only.
  virtual Tensor step(const Tensor& ids, Context& context) = 0;
  /// The same, but row i gets only its first lengths[i] tokens, at least one: tokens past lengths[i] are
  /// padding and do not change the result. Throws Error when the model does not support rows of different
  /// lengths.
  virtual Tensor step_ragged(const Tensor& ids, std::span<const std::int64_t> lengths, Context& context) {
    for (const std::int64_t length : lengths) {
      if (length != ids.size(1)) throw Error("decoding: expected rows of one length, got different ones");
    }
    return step(ids, context);
  }
  /// Row i becomes a copy of the old row rows[i]; the number of rows may change.
  virtual void reorder(std::span<const std::int64_t> rows) = 0;
  /// Forgets all tokens but the first `length` of every row, and keeps the source: another search may begin
  /// there. Throws Error for more tokens than a row has, and for a recurrent model.
  virtual void truncate(std::int64_t length);
  /// Appends copies of the rows of `other` and their sources. `other` must decode the same model with the
  /// same cache_dtype, and both must have read tokens. Throws Error if chunk_size() is 0.
  virtual void join(const Decoding& other);
  /// The first `length` tokens of a row as a decoding of one row. Throws Error if the row or the tokens do
  /// not exist, if `length` is below the row's length and truncate() cannot go back, if rows have a source,
  /// and as join().
  virtual std::unique_ptr<Decoding> copy_row(std::int64_t row, std::int64_t length) const;
  /// A prompt may be read in several passes, with the same bits as in one, if each pass but the last ends at
  /// a multiple of this number of tokens. 1: anywhere, and truncate() and copy_row() may go back to any
  /// token. 0: nowhere.
  virtual std::int64_t chunk_size() const { return 0; }
  /// Bytes of the rows' state; 0 if unknown.
  virtual std::size_t bytes() const { return 0; }
  virtual std::int64_t rows() const = 0;
  /// Number of tokens so far; the maximum over rows.
  virtual std::int64_t length() const = 0;
};

/// A decoder-only model: every token attends to itself and the tokens before it.
/// Threads: as Model.
class DecoderModel : public Model {
 public:
  /// Cross-entropy over the labels that are not options.ignore_index; without reduction of each label [B, T].
  /// `labels` i64 [B, T] are the next tokens of the input's B rows of T tokens. While training, a mixture of
  /// experts whose config says so (output_router_logits) adds its load-balancing loss to a reduced loss.
  /// With `document_starts` i64 [B, T], the index in its row of the first token of each token's document, a
  /// token attends to its own document only, and positions count from its start: the loss equals that of the
  /// documents in separate rows. Throws Error if the model's attention does not support this (linear,
  /// sparse).
  virtual Tensor loss(const ModelInput& input, const Tensor& labels, const CrossEntropyOptions& options,
                      Context& context, const Tensor& document_starts = {}) const = 0;
  /// The last hidden state [B, T, D], after the final norm, or that of ModelInput::read.
  virtual Tensor encode(const ModelInput& input, Context& context) const = 0;
  /// Starts decoding with `rows` empty rows.
  virtual std::unique_ptr<Decoding> decode(std::int64_t rows) const = 0;
  /// Whether results are independent of the other rows for rows of different lengths. False if rotary
  /// frequencies depend on the length of the text: they follow the longest row.
  virtual bool rows_are_independent() const = 0;
};

/// A model with an encoder of the source and a decoder of the target.
/// Threads: as Model.
class EncoderDecoderModel : public Model {
 public:
  /// Which kinds of attention the model has. A recurrent model has none within a sequence, and perhaps none
  /// at all.
  virtual bool has_self_attention() const { return true; }
  virtual bool has_cross_attention() const { return true; }
  virtual std::int64_t decoder_start_id() const = 0;
  virtual std::int64_t pad_id() const = 0;
  virtual std::int64_t eos_id() const = 0;
  /// The decoder's inputs for predicting the labels i64 [B, T]: the labels shifted right after the start
  /// token, with padding instead of `ignored`; i64 [B, T]. loss() and forward() do the same.
  virtual Tensor decoder_inputs(const Tensor& labels, std::int64_t ignored) const = 0;
  /// Mean cross-entropy over the labels i64 [B, T] that are not options.ignore_index.
  virtual Tensor loss(const ModelInput& source, const Tensor& labels, const CrossEntropyOptions& options,
                      Context& context) const = 0;
  /// The encoder's last hidden state [B, S, D], or that of ModelInput::read.
  virtual Tensor encode(const ModelInput& source, Context& context) const = 0;
  /// Encodes the source once and starts decoding: row b decodes source b.
  virtual std::unique_ptr<Decoding> decode(const ModelInput& source, Context& context) const = 0;
};

/// The head of an encoder, which computes its predictions.
enum class EncoderHead : std::uint8_t {
  none,       ///< no head: the last hidden state is the result
  masked_lm,  ///< each token: logits over the vocabulary
  sequence,   ///< the whole sequence: logits over the labels
  token,      ///< each token: logits over the labels
  span,       ///< each token: logits for the first and the last token of an answer
  ctc,        ///< each frame of a sound: logits over the vocabulary and the blank, which is pad_id()
};

/// The problem type of a sequence head.
enum class LabelProblem : std::uint8_t { single_label, multi_label, regression };

/// A model whose tokens (or patches of an image, or frames of a sound) attend to all others, bare or with a
/// head.
/// Threads: as Model.
class EncoderModel : public Model {
 public:
  virtual EncoderHead head() const = 0;
  /// The stack in the names of its layers' taps: `image_encoder` of a DualEncoderModel's tower, for example.
  virtual std::string stack_name() const { return "encoder"; }
  /// The names of the labels (id2label), for the heads `sequence` and `token`.
  virtual const std::vector<std::string>& labels() const = 0;
  /// The config's problem_type, if it has one.
  virtual std::optional<LabelProblem> problem() const = 0;
  /// The function from the logit of a single label to its score, if the config has one
  /// (sentence-transformers' activation_fn, in rerankers): sigmoid or none.
  virtual std::optional<Activation> score_activation() const { return std::nullopt; }
  virtual std::int64_t hidden_size() const = 0;
  /// Number of different type_ids; 0 if the family ignores them.
  virtual std::int64_t type_vocab_size() const = 0;
  /// The padding id.
  virtual std::int64_t pad_id() const = 0;
  /// The last hidden state [B, T, D], or that of ModelInput::read. Throws Error for ids, types or lengths out
  /// of range.
  virtual Tensor encode(const ModelInput& input, Context& context) const = 0;
  /// Whether predict() reads the first token alone, as most heads of whole sequences do.
  virtual bool head_reads_first_token() const { return false; }
  /// What predict() reads of encode(input): [B, 1, D] of the first tokens where it reads no others, else all.
  Tensor encode_for_head(ModelInput input, Context& context) const {
    if (head_reads_first_token()) input.read.assign(static_cast<std::size_t>(input.size()), 0);
    return encode(input, context);
  }
  /// Whether a token attends only to itself and those before it (the texts of CLIP).
  virtual bool is_causal() const { return false; }
  /// The size of the vector that the model was trained to compute for a whole input, as the towers of CLIP
  /// and SigLIP do; 0 for other models.
  virtual std::int64_t vector_size() const { return 0; }
  /// These vectors, [B, vector_size()], for hidden = encode(input). Throws Error if there are none. Taps are
  /// those of attention pooling (SigLIP's images).
  virtual Tensor vectors(const Tensor& hidden, const ModelInput& input, Context& context) const;
  Tensor vectors(const Tensor& hidden, const ModelInput& input) const {
    Context context;
    return vectors(hidden, input, context);
  }
  /// The length to which every text is padded with pad_id(), without a mask over the padding (SigLIP).
  virtual std::optional<std::int64_t> padded_length() const { return std::nullopt; }
  /// The head's logits: the head `sequence` maps hidden [B, T, D] to [B, L]; the others map any [..., D] to
  /// [..., V], [..., L] or [..., 2]. A `sequence` head may take the mean over the tokens that `mask` i64 [B,
  /// T] shows (all, where it is undefined). Throws Error when there is no head.
  virtual Tensor predict(const Tensor& hidden, const Tensor& mask, Context& context) const = 0;
  /// The loss against labels i64 [B, T] (masked_lm, token), i64 [B, 2] (span: first and last token), i64 [B]
  /// or f32 [B] or [B, L] (sequence: by the config's problem_type, else by the number of labels and their
  /// type): cross-entropy; binary cross-entropy for multi_label; the mean square for regression. Against i64
  /// [B, S] (ctc; negative ones do not count): ctc_loss, reduced as the config says.
  virtual Tensor loss(const ModelInput& input, const Tensor& labels, const CrossEntropyOptions& options,
                      Context& context) const = 0;
};

/// How the logits of a DualEncoderModel are trained: the softmax over all texts (or images) of a batch
/// (CLIP), or the sigmoid of each pair (SigLIP).
enum class PairLoss : std::uint8_t { softmax, sigmoid };

/// A text tower and an image tower, whose vectors are compared (Radford et al. 2021, "CLIP"). input() is that
/// of the image tower. Inputs of forward() are `input_ids`, `attention_mask` and `pixel_values`; the numbers
/// of texts and images may differ. Its loss needs as many texts as images, and takes text i and image i as a
/// pair. Threads: as Model.
class DualEncoderModel : public Model {
 public:
  /// The towers. Their vectors() have the same size. Their parameters, adapters and files belong to the whole
  /// model.
  virtual const EncoderModel& text() const = 0;
  virtual const EncoderModel& image() const = 0;
  virtual PairLoss pair_loss() const = 0;
  /// The logits [texts, images] of vectors() [texts, D] and [images, D]: cosines, with a learned scale and
  /// shift.
  virtual Tensor logits(const Tensor& texts, const Tensor& images) const = 0;
};

}  // namespace heed
