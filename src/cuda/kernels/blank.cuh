/*
 * Outputs of rows without a token (EMPTY, BAD_PARAM), and the writes that other outputs share with them.
 */
#ifndef TB_CUDA_BLANK_CUH
#define TB_CUDA_BLANK_CUH

#include "select.cuh"

template <class T> TB_DEV void tb_fill_row(T *out, int64_t row, int64_t count, T value)
{
    if (!out) return;
#pragma unroll 1
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) out[row * count + i] = value;
}

/* Where a row's masked logits go: the output row, or its own place in the source. */
TB_DEV char *tb_masked_row(const tombola_call &call, int64_t index, int64_t source_offset)
{
    int64_t at = call.masked_logits == call.data ? source_offset : index * call.masked_stride;
    return (char *)call.masked_logits + (size_t)at * tb_bytes(call.dtype);
}

/* -inf of a dtype, in a word of one element or of two. */
TB_DEV uint32_t tb_masked_word(int32_t dtype)
{
    return dtype == TOMBOLA_F32 ? 0xff800000u : dtype == TOMBOLA_F16 ? 0xfc00fc00u : 0xff80ff80u;
}

/* Element `to` of one row becomes element `from` of another, or the low bits of a word. */
TB_DEV void tb_copy_element(char *out, size_t to, const char *source, size_t from, uint32_t bytes)
{
    if (bytes == 4)
        ((uint32_t *)out)[to] = ((const uint32_t *)source)[from];
    else
        ((uint16_t *)out)[to] = ((const uint16_t *)source)[from];
}

TB_DEV uint32_t tb_element_bits(const char *source, size_t from, uint32_t bytes)
{
    return bytes == 4 ? ((const uint32_t *)source)[from] : ((const uint16_t *)source)[from];
}

TB_DEV void tb_set_element(char *out, size_t to, uint32_t word, uint32_t bytes)
{
    if (bytes == 4)
        ((uint32_t *)out)[to] = word;
    else
        ((uint16_t *)out)[to] = (uint16_t)word;
}

/* The elements of the row that a block's chunks hold. */
TB_DEV void tb_own_elements(const tb_room *room, uint32_t *begin, uint32_t *end)
{
    const tb_source &source = room->source;
    uint32_t chunk = source.span.chunk_pieces * TB_PIECE, shift = source.span.shift;
    *begin = source.first_chunk ? source.first_chunk * chunk - shift : 0;
    *end = source.end_chunk < source.chunks ? source.end_chunk * chunk - shift : source.span.length;
    if (*begin > *end) *begin = *end;
}

/* Fills elements [begin, end) of 4 or 2 bytes with a word. */
TB_CALL void tb_flood(char *row, uint32_t bytes, uint32_t begin, uint32_t end, uint32_t word)
{
    char *out = row + (size_t)begin * bytes;
    uint32_t length = end - begin;
    uint32_t per = 16 / bytes, head = ((uint32_t)(0 - (uintptr_t)out) & 15u) / bytes;
    if (head > length) head = length;
    uint32_t vectors = (length - head) / per, tail = head + vectors * per;
    uint4 v = make_uint4(word, word, word, word);
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < vectors; i += blockDim.x)
        tb_store16(out + head * bytes + (size_t)i * 16, v);
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < head + (length - tail); i += blockDim.x)
        tb_set_element(out, i < head ? i : tail + i - head, word, bytes);
}

TB_CALL void tb_write_void(const tb_room *room, int64_t index, uint32_t status)
{
    const tombola_call &call = room->call;
    const tb_gpu_row *row = &room->row;
    const tb_team team = room->source.team;
    /* each block of a team clears its share of the wide outputs */
    uint32_t begin = (uint32_t)((uint64_t)row->length * team.rank / team.size);
    uint32_t end = (uint32_t)((uint64_t)row->length * (team.rank + 1) / team.size);
    if (call.probabilities)
        tb_flood((char *)(call.probabilities + index * call.probabilities_stride), 4, begin, end, 0);
    if (call.masked_logits && (row->placed || call.masked_logits != call.data))
        tb_flood(tb_masked_row(call, index, row->source_offset), tb_bytes(call.dtype), begin, end,
                 tb_masked_word(call.dtype));
    if (team.rank) return;
    float none = law_float(LAW_NAN_BITS);
    tb_fill_row(call.status, index, 1, status);
    tb_fill_row(call.tokens, index, call.draws, -1);
    tb_fill_row(call.rounds, index, call.draws, 0);
    tb_fill_row(call.logprobs, index, call.draws, none);
    tb_fill_row(call.raw_logprobs, index, call.draws, none);
    tb_fill_row(call.ranks, index, call.draws, 0);
    tb_fill_row(call.kept_count, index, 1, 0);
    tb_fill_row(call.kept_ids, index, call.kept_capacity, -1);
    tb_fill_row(call.kept_mass, index, 1, (uint64_t)0);
    tb_fill_row(call.total_mass, index, 1, (uint64_t)0);
    tb_fill_row(call.top_ids, index, call.top_count, -1);
    tb_fill_row(call.top_logprobs, index, call.top_count, none);
    tb_fill_row(call.given_logprobs, index, call.given_count, none);
    tb_fill_row(call.given_raw_logprobs, index, call.given_count, none);
    tb_fill_row(call.entropy, index, 1, none);
}

#endif
