// FlashInfer's sampling kernels behind plain C functions, as its own Python package calls them: compiled by
// scripts/gpu_bench.sh against the headers of the PyPI package flashinfer-python, whose just-in-time build
// would need the network. All pointers are device memory; each function returns a cudaError_t.
#include <flashinfer/air_top_p.cuh>
#include <flashinfer/sampling.cuh>
#include <flashinfer/topk.cuh>

using namespace flashinfer::sampling;

#define EXPORT extern "C" __attribute__((visibility("default"))) int
#define SEED nullptr, seed, nullptr, 0

EXPORT peer_softmax(float *logits, float *out, uint32_t rows, uint32_t vocab, void *workspace, size_t bytes,
                    cudaStream_t stream)
{
    return OnlineSoftmax<float>(logits, out, rows, vocab, nullptr, 1.0f, workspace, bytes, false, stream);
}

// Gumbel: no softmax before it.
EXPORT peer_from_logits(float *logits, int *out, uint32_t rows, uint32_t vocab, uint64_t seed,
                        cudaStream_t stream)
{
    return SamplingFromLogits<float, int>(logits, out, nullptr, rows, vocab, true, SEED, stream);
}

EXPORT peer_top_k(float *probs, int *out, bool *valid, uint32_t rows, uint32_t k, uint32_t vocab,
                  uint64_t seed, cudaStream_t stream)
{
    return TopKSamplingFromProb<float, int>(probs, out, valid, nullptr, nullptr, rows, k, vocab, true, SEED,
                                            stream);
}

EXPORT peer_top_p(float *probs, int *out, bool *valid, uint32_t rows, float p, uint32_t vocab, uint64_t seed,
                  cudaStream_t stream)
{
    return TopPSamplingFromProb<float, int>(probs, out, valid, nullptr, nullptr, rows, p, vocab, true, SEED,
                                            stream);
}

EXPORT peer_min_p(float *probs, int *out, bool *valid, uint32_t rows, float p, uint32_t vocab, uint64_t seed,
                  cudaStream_t stream)
{
    return MinPSamplingFromProb<float, int>(probs, nullptr, out, valid, nullptr, rows, p, vocab, true, SEED,
                                            stream);
}

EXPORT peer_joint(float *probs, int *out, bool *valid, uint32_t rows, int k, float p, uint32_t vocab,
                  uint64_t seed, cudaStream_t stream)
{
    return TopKTopPSamplingFromProb<float, int>(probs, nullptr, nullptr, out, valid, nullptr, rows, k, p,
                                                vocab, true, SEED, stream);
}

EXPORT peer_top_p_renorm(float *probs, float *out, uint32_t rows, float p, uint32_t vocab, void *workspace,
                         cudaStream_t stream)
{
    return air_top_p::AirTopPRenormProb<false, float>(probs, out, nullptr, rows, p, vocab, workspace, stream);
}

EXPORT peer_top_k_renorm(float *probs, float *out, uint32_t rows, uint32_t k, uint32_t vocab, void *state,
                         cudaStream_t stream)
{
    return RadixTopKRenormProbMultiCTA<float, int>(probs, out, nullptr, rows, k, vocab,
                                                   (RadixRowState *)state, stream);
}

EXPORT peer_top_k_mask(float *logits, float *out, uint32_t rows, uint32_t k, uint32_t vocab, void *state,
                       cudaStream_t stream)
{
    return RadixTopKMaskLogitsMultiCTA<float, int>(logits, out, nullptr, rows, k, vocab,
                                                   (RadixRowState *)state, stream);
}

// flashinfer.top_k(sorted=True, deterministic=True), k <= 2048.
EXPORT peer_top_k_ids(float *input, int *ids, float *values, uint32_t rows, uint32_t k, uint32_t vocab,
                      void *state, cudaStream_t stream)
{
    return TopKDispatch<float, int>(input, ids, values, rows, k, vocab, (RadixRowState *)state, true, true,
                                    TopKTieBreak::None, stream, false);
}
