/*
 * tombola from a C++ program that speaks tvm-ffi, as TVM's and MLC's do: the library is a module, its
 * functions are found by name, tensors are DLPack's. No Python, no header of tombola.
 *
 *     flags=$(tvm-ffi-config --cxxflags --ldflags --libs)
 *     c++ sample.cc -o sample $flags
 *     LD_LIBRARY_PATH=$(tvm-ffi-config --libdir) ./sample PATH_OF/libtombola_ffi.so
 *
 * (tvm-ffi-config comes with `pip install apache-tvm-ffi`, the library with `pip install .`, in the package's
 * folder.) Prints a token for each row, and the log-probability with which it was drawn.
 */
#include <cstdint>
#include <cstdio>
#include <vector>

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

static DLTensor tensor_of(void *data, DLDataType dtype, int ndim, int64_t *shape)
{
    DLTensor tensor{};
    tensor.data = data;
    tensor.device = {kDLCPU, 0};
    tensor.ndim = ndim;
    tensor.dtype = dtype;
    tensor.shape = shape; /* without strides: rows one behind the other */
    return tensor;
}

int main(int count, char **arguments)
{
    if (count != 2) {
        std::fprintf(stderr, "usage: %s PATH_OF/libtombola_ffi.so\n", arguments[0]);
        return 2;
    }
    int64_t shape[] = {4, 1000};
    std::vector<float> logits(static_cast<size_t>(shape[0] * shape[1]));
    for (size_t i = 0; i < logits.size(); i++) logits[i] = static_cast<float>(i * 7919 % 1000) / 100.0f;
    std::vector<int32_t> tokens(4);
    std::vector<float> logprobs(4);
    DLTensor x = tensor_of(logits.data(), {kDLFloat, 32, 1}, 2, shape);
    DLTensor drawn = tensor_of(tokens.data(), {kDLInt, 32, 1}, 1, shape);
    DLTensor chances = tensor_of(logprobs.data(), {kDLFloat, 32, 1}, 1, shape);
    try {
        tvm::ffi::Module module = tvm::ffi::Module::LoadFromFile(arguments[1]);
        tvm::ffi::Function run = module->GetFunction("run").value();
        run(&x, "temperature", 0.8, "top_k", 40, "top_p", 0.95, "seed", 7, "tokens", &drawn, "logprobs",
            &chances);
    } catch (const tvm::ffi::Error &error) {
        std::fprintf(stderr, "%s: %s\n", error.kind().c_str(), error.message().c_str());
        return 1;
    }
    for (size_t row = 0; row < tokens.size(); row++)
        std::printf("%d %.9g\n", tokens[row], static_cast<double>(logprobs[row]));
    return 0;
}
