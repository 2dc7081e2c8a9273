/*
 * Rows of the pipe that draws from few kept tokens (few_draw_pipe.cuh) of which not all tokens that may be
 * kept are on the lists, or few, or of equal ones at a cut only the first are kept; and what their ends have
 * in common with that of the usual ones (few_draw_finish.cuh).
 */
#ifndef TB_CUDA_FEW_DRAW_SLOW_CUH
#define TB_CUDA_FEW_DRAW_SLOW_CUH

#include "fast_candidates.cuh"
#include "few_draw_parts.cuh"

/* Of the tokens at a row's cut that are equal and not among the candidates: their key, number and weight, and
 * how many of them, the first ones, are kept. */
typedef struct tb_few_draw_class {
    uint32_t key, number, kept;
    uint64_t weight;
} tb_few_draw_class;

/* What is drawn from. */
typedef struct tb_few_draw_kept {
    uint64_t mass, position;
    uint32_t number, candidates; /* of tokens in all, of candidates in the block's list */
    uint32_t status, greatest;
} tb_few_draw_kept;

template <int dtype, int C> struct tb_few_draw_slow : tb_few_rows<dtype, C, tb_few_draw_shared<dtype, C>> {
    typedef tb_few_draw_shared<dtype, C> S;
    typedef tb_few_rows<dtype, C, S> P;
    static constexpr uint32_t width = P::width;
    static constexpr int PER_LANE = P::PER_LANE;
    using P::known_row;
    static constexpr int FEW_GREATER = 48; /* the bit from which on tokens are counted beside a mass */
    using P::lane, P::params, P::rank, P::rows, P::s;

    TB_MEMBER bool flat(const tb_few_draw_row &row, uint32_t greatest) const
    {
        return row.flat || greatest == TB_KEY_POS_INF;
    }
    TB_MEMBER uint64_t weight_of(const tb_few_draw_row &row, uint32_t greatest, uint32_t key) const
    {
        return tb_weigh_token(law_key_value(key), 0, law_key_value(greatest), row.scale, flat(row, greatest))
            .weight;
    }
    TB_MEMBER void write(const tb_few_draw_row &row, uint32_t i, const tb_few_draw_kept &kept, uint32_t token,
                         float x) const
    {
        const tb_fast_result result = {
            (int32_t)token,
            (int32_t)kept.number,
            0,
            kept.status,
            flat(row, kept.greatest) ? 0.0f : law_exponent(x, law_key_value(kept.greatest), row.scale),
            kept.mass};
        tb_fast_write(params.call, P::row_of(i), result);
    }

    /* The greatest key that k of the warp's *n keys reach, or one that exactly k reach; *n then do. */
    template <int EACH>
    TB_MEMBER uint32_t cut_by_count(uint32_t drawer, const uint32_t (&key)[EACH], uint32_t low, uint32_t high,
                                    uint32_t k, uint32_t *n)
    {
        uint32_t above = 0;
#pragma unroll 1
        while (low<high && * n> k) {
            const uint32_t shift = P::bin_shift(low, high);
            P::count_keys(s.sums[drawer].count, key, low, high, shift);
            const tb_few_bin found = P::crossing(s.sums[drawer].count, above, k);
            low += found.bin << shift;
            high = low + min(high - low, (1u << shift) - 1);
            above = found.before;
            *n = found.upto;
        }
        return low;
    }

    /* The same where tokens are not on the lists, or equal ones are cut, or for other unusual rows. */
    static __device__ __noinline__ void draw_slowly(tb_few_draw_slow p, uint32_t i, uint32_t box,
                                                    uint32_t drawer)
    {
        p.draw_any(i, box, drawer);
    }
    TB_MEMBER void draw_any(uint32_t i, uint32_t box, uint32_t drawer)
    {
        const tombola_call &call = params.call;
        const tb_few_draw_row &row = known_row(i);
        const uint4 said = s.said[box][lane % C];
        tb_few_draw_kept kept = {0, 0, 0, 0, said.z, said.w};
        const uint32_t count = lane < C ? said.x & ~TB_FEW_DRAW_CLASS : 0, upto = tb_warp_scan(count),
                       least = tb_warp_max(said.y), k = row.k;
        const uint32_t classes =
            __ballot_sync(TB_WHOLE_WARP, lane < C && said.x & TB_FEW_DRAW_CLASS && said.y == least);
        const bool by_index = row.greedy || call.ties == TOMBOLA_TIES_INDEX;

        /* ---- the cut: candidates are at least `floor`, and few; of a class at the cut that is not among
         * them fewer than k are greater ---- */
        uint32_t floor = least + (classes ? 1 : 0), n = gather(upto, box, drawer, floor), gathered = n;
        tb_few_draw_class rest = {least, 0, 0, 0};
        bool has_rest = classes && n < k;
        if (!has_rest) {
            if (n > TB_FEW_DRAW_LISTED) {
                floor = search(*this, upto, box, k);
                n = gather(upto, box, drawer, floor);
            }
            gathered = n;
            if (n > k && n <= TB_FEW_DRAW_LISTED) {
                uint32_t key[4];
#pragma unroll
                for (int j = 0; j < 4; j++)
                    key[j] = lane + j * 32 < n ? tb_place_key(s.place[drawer][lane + j * 32]) : 0;
                floor = cut_by_count(drawer, key, floor, kept.greatest, k, &n);
            }
            has_rest = n > TB_FEW_DRAW_KEPT;
            if (has_rest) {
                rest.key = floor;
                gathered = gather(upto, box, drawer, ++floor);
            }
        }
        if (has_rest) {
            rest.weight = weight_of(row, kept.greatest, rest.key);
            rest.number = count_class(*this, i, upto, box, drawer, rest.key, rest.key == least ? classes : 0);
        }

        /* ---- the candidates, with their weights ---- */
        uint32_t m = 0;
#pragma unroll
        for (uint32_t j = 0; j < TB_FEW_DRAW_LISTED / 32; j++) {
            const uint64_t place = s.place[drawer][lane + j * 32];
            const bool here = lane + j * 32 < gathered && tb_place_key(place) >= floor;
            const uint32_t votes = __ballot_sync(TB_WHOLE_WARP, here);
            if (here)
                s.token[drawer][m + __popc(votes & ((1u << lane) - 1))] = {
                    place, weight_of(row, kept.greatest, tb_place_key(place))};
            m += __popc(votes);
        }
        if (lane < 3 && m + lane < TB_FEW_DRAW_KEPT) s.token[drawer][m + lane] = {0, 0};
        __syncwarp();
        tb_few_draw_token mine[2];
        uint64_t above[2] = {0, 0}; /* mass of the greater ones, their number from FEW_GREATER on */
#pragma unroll
        for (uint32_t j = 0; j < 2; j++) {
            mine[j] = s.token[drawer][lane * 2 + j];
            if (lane * 2 + j >= m) mine[j] = {0, 0};
        }
        if (row.p < 1.0f || (by_index && m > row.k_last))
            compare(s.token[drawer], m, by_index ? ~0ull : ~(uint64_t)TB_PLACE_LOW, mine, above);

        /* ---- the chain ---- */
        constexpr uint64_t MASS = ((uint64_t)1 << FEW_GREATER) - 1;
        uint64_t target = ~0ull;
        if (row.p < 1.0f) {
            uint64_t mass = 0;
#pragma unroll
            for (int j = 0; j < 2; j++)
                if (above[j] >> FEW_GREATER < k && mine[j].weight >= row.w_before) mass += mine[j].weight;
            mass = tb_warp_sum54(mass);
            if (has_rest && rest.weight >= row.w_before)
                mass += (by_index ? min(rest.number, k - m) : rest.number) * rest.weight;
            target = law_top_p_target(row.p, mass);
        }
        uint64_t own[2], sum = 0;
        uint32_t number = 0;
#pragma unroll
        for (uint32_t j = 0; j < 2; j++) {
            const bool stays = lane * 2 + j < m && above[j] >> FEW_GREATER < row.k_last &&
                               mine[j].weight >= row.w_last && (above[j] & MASS) < target;
            own[j] = stays ? mine[j].weight : 0;
            number += stays;
            sum += own[j];
        }
        const uint64_t end = tb_warp_scan64(sum);
        kept.mass = __shfl_sync(TB_WHOLE_WARP, end, 31);
        kept.number = tb_warp_sum(number);
        kept.candidates = m;
        if (has_rest && kept.number == m && m < row.k_last && kept.mass < target &&
            rest.weight >= row.w_last) {
            rest.kept = rest.number;
            if (by_index) rest.kept = min(rest.kept, row.k_last - m);
            if (by_index && rest.weight) {
                const uint64_t most = (target - kept.mass - 1) / rest.weight; /* before the last one */
                if (most < rest.kept) rest.kept = (uint32_t)most + 1;
            }
            kept.mass += rest.kept * rest.weight;
            kept.number += rest.kept;
        }
        kept.position = law_draw_position(row.random, kept.mass);
        if (rest.kept) {
            draw_from_chunks(*this, i, drawer, kept, rest);
            return;
        }

        /* ---- the draw: the block that has the position, and among its tokens the one ---- */
        const int who = __ffs((int)__ballot_sync(TB_WHOLE_WARP, end > kept.position)) - 1;
        const uint64_t first = mine[0].place, second = mine[1].place,
                       some = end - own[1] > kept.position ? first : second;
        const uint32_t share = row.share * TB_PIPE_WARPS * width,
                       block =
                           (__shfl_sync(TB_WHOLE_WARP, tb_place_index(some), who) + row.slice.shift) / share;
        uint64_t before[2] = {0, 0}, earlier = 0;
        bool here[2];
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const uint32_t at = tb_place_index(mine[j].place) + row.slice.shift;
            here[j] = own[j] && at - block * share < share;
            if (at < block * share) earlier += own[j];
        }
        earlier = tb_warp_sum54(earlier);
#pragma unroll
        for (int j = 0; j < 2; j++) {
#pragma unroll 1
            for (uint32_t votes = __ballot_sync(TB_WHOLE_WARP, here[j]); votes; votes &= votes - 1) {
                const int from = __ffs((int)votes) - 1;
                const uint64_t weight = __shfl_sync(TB_WHOLE_WARP, own[j], from);
                const uint32_t low = __shfl_sync(TB_WHOLE_WARP, (uint32_t)mine[j].place & TB_PLACE_LOW, from);
#pragma unroll
                for (int l = 0; l < 2; l++) /* places of lower indices are greater */
                    if (low > ((uint32_t)mine[l].place & TB_PLACE_LOW)) before[l] += weight;
            }
        }
#pragma unroll
        for (int j = 0; j < 2; j++)
            if (here[j] && earlier + before[j] <= kept.position &&
                kept.position - earlier - before[j] < own[j])
                write(row, i, kept, tb_place_index(mine[j].place),
                      law_key_value(tb_place_key(mine[j].place)));
    }

    /* Of each candidate the mass of the greater ones, and their number. */
    TB_MEMBER void compare(const tb_few_draw_token *tokens, uint32_t m, uint64_t mask,
                           const tb_few_draw_token (&mine)[2], uint64_t (&above)[2]) const
    {
        const uint64_t a = mine[0].place & mask, b = mine[1].place & mask;
#pragma unroll 1
        for (uint32_t t = 0; t < m; t += 4)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const uint4 raw = *(const uint4 *)&tokens[t + e];
                const uint64_t other = ((uint64_t)raw.y << 32 | raw.x) & mask,
                               weight = ((uint64_t)raw.w << 32 | raw.z) + ((uint64_t)1 << FEW_GREATER);
                if (other > a) above[0] += weight;
                if (other > b) above[1] += weight;
            }
    }

    /* Token t of the lists, in the order of the blocks; upto: of a lane for each block, the tokens of it and
     * of the blocks before. By all lanes. */
    TB_MEMBER uint64_t listed(uint32_t upto, uint32_t box, uint32_t t) const
    {
        uint32_t block = 0, start = 0;
#pragma unroll
        for (int b = 0; b < C; b++) {
            const uint32_t end = __shfl_sync(TB_WHOLE_WARP, upto, b);
            if (t >= end) block = b + 1, start = end;
        }
        return block < C ? s.sent[box][block][t - start] : 0;
    }

    /* Tokens from a key on, without gaps, as many as there is room for; how many there are. */
    TB_MEMBER uint32_t gather(uint32_t upto, uint32_t box, uint32_t drawer, uint32_t floor)
    {
        const uint32_t n = __shfl_sync(TB_WHOLE_WARP, upto, C - 1);
        uint32_t m = 0;
        __syncwarp();
#pragma unroll 1
        for (uint32_t t = lane; t - lane < n; t += 32) {
            const uint64_t place = listed(upto, box, t);
            const bool here = tb_place_key(place) >= floor && place;
            const uint32_t votes = __ballot_sync(TB_WHOLE_WARP, here),
                           to = m + __popc(votes & ((1u << lane) - 1));
            if (here && to < TB_FEW_DRAW_LISTED) s.place[drawer][to] = place;
            m += __popc(votes);
        }
        if (lane == 0) s.gathered[drawer] = m;
        __syncwarp();
        return m;
    }

    /* The greatest key that k of the listed tokens reach, or one that exactly k reach: bit by bit. */
    static __device__ __noinline__ uint32_t search(tb_few_draw_slow p, uint32_t upto, uint32_t box,
                                                   uint32_t k)
    {
        const uint32_t n = __shfl_sync(TB_WHOLE_WARP, upto, C - 1);
        uint32_t found = 0, reached = n;
#pragma unroll 1
        for (uint32_t bit = 1u << 31; bit && reached > k; bit >>= 1) {
            uint32_t all = 0;
#pragma unroll 1
            for (uint32_t t = p.lane; t - p.lane < n; t += 32)
                all += tb_place_key(p.listed(upto, box, t)) >= (found | bit);
            all = tb_warp_sum(all);
            if (all >= k) found |= bit, reached = all;
        }
        return found;
    }

    /* Numbers of the tokens of a key in each chunk, and in all. */
    static __device__ __noinline__ uint32_t count_class(tb_few_draw_slow p, uint32_t i, uint32_t upto,
                                                        uint32_t box, uint32_t drawer, uint32_t key,
                                                        uint32_t classes)
    {
        S &s = p.s;
        const tb_few_draw_row &row = p.known_row(i);
        uint32_t number = 0;
        for (uint32_t c = p.lane; c < S::WARPS; c += 32) {
            const uint32_t own = classes >> c / TB_PIPE_WARPS & 1 ? s.equal[box][c] : 0;
            s.sums[drawer].equal[c] = own;
            number += own;
        }
        __syncwarp();
        const uint32_t n = __shfl_sync(TB_WHOLE_WARP, upto, C - 1);
#pragma unroll 1
        for (uint32_t t = p.lane; t - p.lane < n; t += 32) {
            const uint64_t place = p.listed(upto, box, t);
            if (tb_place_key(place) != key) continue;
            atomicAdd(&s.sums[drawer].equal[p.chunk_of(row, place)], 1u);
            number++;
        }
        __syncwarp();
        return tb_warp_sum(number);
    }
    TB_MEMBER uint32_t chunk_of(const tb_few_draw_row &row, uint64_t place) const
    {
        return (tb_place_index(place) + row.slice.shift) / (row.share * width);
    }

    /* The draw where all candidates are kept and equal tokens beside them: the chunk from the chunks' masses,
     * then the group of 32 vectors, the lane, the element, from L2. */
    static __device__ __noinline__ void draw_from_chunks(tb_few_draw_slow p, uint32_t i, uint32_t drawer,
                                                         tb_few_draw_kept kept, tb_few_draw_class rest)
    {
        S &s = p.s;
        const uint32_t lane = (uint32_t)p.lane;
        const tb_few_draw_row &row = p.known_row(i);
        for (uint32_t c = lane; c < S::WARPS; c += 32) s.sums[drawer].mass[c] = 0;
        __syncwarp();
        for (uint32_t t = lane; t < kept.candidates; t += 32) {
            const tb_few_draw_token token = s.token[drawer][t];
            atomicAdd(&s.sums[drawer].mass[p.chunk_of(row, token.place)], (unsigned long long)token.weight);
        }
        __syncwarp();
        uint32_t equal[PER_LANE], equals = 0;
        uint64_t mass[PER_LANE], all = 0, position = kept.position;
#pragma unroll
        for (int q = 0; q < PER_LANE; q++) equals += equal[q] = s.sums[drawer].equal[lane * PER_LANE + q];
        uint32_t before = tb_warp_scan(equals) - equals;
#pragma unroll
        for (int q = 0; q < PER_LANE; q++) {
            const uint32_t left = rest.kept > before ? rest.kept - before : 0;
            before += equal[q];
            equal[q] = min(equal[q], left); /* that are kept */
            mass[q] = s.sums[drawer].mass[lane * PER_LANE + q] + equal[q] * rest.weight;
            all += mass[q];
        }
        const uint64_t end = tb_warp_scan64(all);
        const int who = __ffs((int)__ballot_sync(TB_WHOLE_WARP, end > position)) - 1;
        uint32_t chunk = lane * PER_LANE, left = equal[0];
        uint64_t from = end - all, reached = from;
#pragma unroll
        for (int q = 1; q < PER_LANE; q++) {
            reached += mass[q - 1];
            if (reached <= position) from = reached, chunk = lane * PER_LANE + q, left = equal[q];
        }
        position -= __shfl_sync(TB_WHOLE_WARP, from, who);
        chunk = __shfl_sync(TB_WHOLE_WARP, chunk, who);
        left = __shfl_sync(TB_WHOLE_WARP, left, who);

        const tb_fast_slice &slice = row.slice;
        const uint32_t first = row.share * chunk, stop = min(slice.end, first + row.share);
        const float value = law_key_value(rest.key);
        auto load = [&](uint32_t at) {
            constexpr uint32_t none = tb_minus_infinity<dtype>();
            return at < stop ? tb_load_any<dtype>(slice, at) : make_uint4(none, none, none, none);
        };
        uint4 next = load(first + lane);
#pragma unroll 1
        for (uint32_t group = first; group < stop; group += 32) {
            const uint4 v = next;
            next = load(group + 32 + lane);
            uint32_t same = 0, over = 0;
#pragma unroll
            for (int e = 0; e < (int)width; e++) {
                same |= (uint32_t)(tb_element<dtype>(v, e) == value) << e;
                over |= (uint32_t)(tb_element<dtype>(v, e) > value) << e;
            }
            const uint32_t upto = tb_warp_scan(__popc(same)), number = upto - __popc(same);
            auto weight = [&](int e) { /* of element e */
                                       if (over >> e & 1)
                                           return p.weight_of(row, kept.greatest,
                                                              law_key(P::element_of(v, e)));
                                       const bool stays =
                                           same >> e & 1 && number + __popc(same & ((1u << e) - 1)) < left;
                                       return stays ? rest.weight : (uint64_t)0;
            };
            uint64_t own = 0;
#pragma unroll 1
            for (uint32_t some = same | over; some; some &= some - 1) own += weight(__ffs((int)some) - 1);
            const uint64_t reach = tb_warp_scan64(own), sum = __shfl_sync(TB_WHOLE_WARP, reach, 31);
            if (position >= sum) {
                position -= sum;
                left -= min(left, __shfl_sync(TB_WHOLE_WARP, upto, 31));
                continue;
            }
            uint64_t at = reach - own;
            if (at > position || position >= reach) return;
#pragma unroll 1
            for (uint32_t some = same | over; some; some &= some - 1) {
                const int e = __ffs((int)some) - 1;
                at += weight(e);
                if (at <= position) continue;
                p.write(row, i, kept, (group + lane) * width + e - slice.shift, P::element_of(v, e));
                return;
            }
        }
    }
};

#endif
