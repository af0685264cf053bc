"""Models of the cache in the runtimes that take a model as a file, on all threads for one request."""


def onnxruntime_session(folder, threads, int8=False):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(folder / onnx_file(int8), options, providers=["CPUExecutionProvider"])


def openvino_model(folder, threads, int8=False, shapes=None):
    """With the inputs' shapes, compiled for these alone."""
    import openvino

    core = openvino.Core()
    model = core.read_model(folder / openvino_file(int8))
    if shapes:
        model.reshape(shapes)
    return core.compile_model(model, "CPU", openvino_settings(threads, int8))


def openvino_settings(threads, int8=False):
    """In f32 it computes in f32, where its own choice would be bf16 on a processor with such products; in int8 the rest is left to it."""
    return {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads} | ({} if int8 else {"INFERENCE_PRECISION_HINT": "f32"})


# Where sentence-transformers looks for them, too.
def onnx_file(int8=False):
    return "onnx/model_qint8.onnx" if int8 else "onnx/model.onnx"


def openvino_file(int8=False):
    return "openvino/openvino_model_qint8_quantized.xml" if int8 else "openvino/openvino_model.xml"
