/* Products with weights that stay as they are, by AVX-512: float32, bfloat16 and int8 in one loop, and what a search
   wants of its scores (the best few, and the sum of all) taken while they are still in registers. See lanes.py.
   Weights stand in blocks of 64 results; within a block, four bytes of each of its results follow each other: one
   number of float32, two of bfloat16, four of int8. */
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef int64_t i64;
typedef int32_t __attribute__((may_alias)) word; /* four bytes of a row, whatever they hold */
enum { FLOAT32, BFLOAT16, INT8 };
#define BLOCK 64
#define TILE 6   /* rows at a time: 24 sums, four of weights and a row's word fill the registers */
#define CHUNK 96 /* rows whose numbers stay near while all weights pass by */
#define INLINE static inline __attribute__((always_inline))

/* Which kinds of numbers this processor multiplies. */
void lanes(i64 *kinds, int threads) {
  *kinds = 0;
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__)
  *kinds |= 1 << FLOAT32;
#ifdef __AVX512BF16__
  *kinds |= 1 << BFLOAT16;
#endif
#ifdef __AVX512VNNI__
  *kinds |= 1 << INT8;
#endif
#endif
}

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__)

/* Weights as they were laid out, and what their sums still lack. */
typedef struct {
  const char *weights;
  const float *bias;      /* of all results, blocks filled up */
  const float *scales;    /* int8: what a weight of each result is worth */
  const int32_t *offsets; /* int8: 128 times the sum of each result's weights */
  i64 words;              /* of a row */
  int kind;
} Laid;

/* Rows as the products want them. */
typedef struct {
  const word *at[CHUNK];
  float scale[CHUNK]; /* int8: what a step of each row is worth */
} Rows;

/* The results of one block for a few rows. A macro, since a compiler keeps sums in registers only where they are
   declared in the very type that the product is taken in. */
#define TILES(name, SUM, zero, times, finish)                                                                        \
  INLINE void name##tile(int many, const Laid *by, i64 block, const word *const *x, const float *scale,              \
                         float (*to)[BLOCK]) {                                                                       \
    SUM sum[TILE][4];                                                                                                \
    _Pragma("GCC unroll 6") for (int r = 0; r < many; r++)                                                           \
      _Pragma("GCC unroll 4") for (int c = 0; c < 4; c++) sum[r][c] = zero;                                          \
    const char *w = by->weights + block * by->words * 4 * BLOCK;                                                     \
    for (i64 k = 0; k < by->words; k++, w += 4 * BLOCK) {                                                            \
      __m512i part[4];                                                                                               \
      _Pragma("GCC unroll 4") for (int c = 0; c < 4; c++) part[c] = _mm512_loadu_si512(w + 64 * c);                  \
      _Pragma("GCC unroll 6") for (int r = 0; r < many; r++) {                                                       \
        __m512i one = _mm512_set1_epi32(x[r][k]);                                                                    \
        _Pragma("GCC unroll 4") for (int c = 0; c < 4; c++) sum[r][c] = times(sum[r][c], one, part[c]);              \
      }                                                                                                              \
    }                                                                                                                \
    _Pragma("GCC unroll 4") for (int c = 0; c < 4; c++) {                                                            \
      i64 place = block * BLOCK + 16 * c;                                                                            \
      __m512 plus = _mm512_loadu_ps(by->bias + place);                                                               \
      _Pragma("GCC unroll 6") for (int r = 0; r < many; r++)                                                         \
        _mm512_storeu_ps(to[r] + 16 * c, _mm512_add_ps(finish(sum[r][c], by, place, scale[r]), plus));               \
    }                                                                                                                \
  }                                                                                                                  \
  static void name(int many, const Laid *by, i64 block, const word *const *x, const float *scale,                    \
                   float (*to)[BLOCK]) {                                                                             \
    switch (many) {                                                                                                  \
      case 1: name##tile(1, by, block, x, scale, to); break;                                                         \
      case 2: name##tile(2, by, block, x, scale, to); break;                                                         \
      case 3: name##tile(3, by, block, x, scale, to); break;                                                         \
      case 4: name##tile(4, by, block, x, scale, to); break;                                                         \
      case 5: name##tile(5, by, block, x, scale, to); break;                                                         \
      default: name##tile(6, by, block, x, scale, to);                                                               \
    }                                                                                                                \
  }

#define SINGLE(sum, x, w) _mm512_fmadd_ps(_mm512_castsi512_ps(x), _mm512_castsi512_ps(w), sum)
#define AS_IT_IS(sum, by, place, scale) (sum)
TILES(singles_, __m512, _mm512_setzero_ps(), SINGLE, AS_IT_IS)
#ifdef __AVX512BF16__
#define HALF(sum, x, w) _mm512_dpbf16_ps(sum, (__m512bh)(x), (__m512bh)(w))
TILES(halves_, __m512, _mm512_setzero_ps(), HALF, AS_IT_IS)
#else
#define halves_ singles_
#endif
#ifdef __AVX512VNNI__
typedef int32_t ints __attribute__((vector_size(64)));
#define BYTES(sum, x, w) (ints) _mm512_dpbusd_epi32((__m512i)(sum), x, w)
INLINE __m512 worth_(ints sum, const Laid *by, i64 place, float scale) {
  __m512 whole = _mm512_cvtepi32_ps(_mm512_sub_epi32((__m512i)sum, _mm512_loadu_si512(by->offsets + place)));
  return _mm512_mul_ps(_mm512_mul_ps(whole, _mm512_set1_ps(scale)), _mm512_loadu_ps(by->scales + place));
}
TILES(bytes_, ints, (ints){0}, BYTES, worth_)
#else
#define bytes_ singles_
#endif

INLINE void block_(int many, const Laid *by, i64 block, const Rows *rows, i64 first, float (*to)[BLOCK]) {
  const word *const *x = rows->at + first;
  const float *scale = rows->scale + first;
  if (by->kind == FLOAT32) singles_(many, by, block, x, scale, to);
  else if (by->kind == BFLOAT16) halves_(many, by, block, x, scale, to);
  else bytes_(many, by, block, x, scale, to);
}

/* A row as bfloat16, rounded to the nearest. */
static void halve_(const float *x, i64 size, uint16_t *to) {
  for (i64 i = 0; i < size; i++) {
    uint32_t bits;
    memcpy(&bits, x + i, 4);
    to[i] = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  }
}

/* A row as bytes around 128, and what a step of them is worth. */
static float quantise_(const float *x, i64 size, uint8_t *to) {
  float most = 0;
#pragma omp simd reduction(max : most)
  for (i64 i = 0; i < size; i++) most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
  float scale = most > 0 && most < INFINITY ? most / 127 : 1;
  float by = 1 / scale;
#pragma omp simd
  for (i64 i = 0; i < size; i++) to[i] = (uint8_t)(int32_t)(x[i] * by + 128.5f);
  return scale;
}

/* `many` rows of `size` numbers, made ready in `room`. */
static void ready_(const Laid *by, const float *x, i64 stride, i64 many, i64 size, word *room, Rows *rows) {
  for (i64 r = 0; r < many; r++, x += stride) {
    word *own = room + r * by->words;
    rows->at[r] = by->kind == FLOAT32 ? (const word *)x : own;
    rows->scale[r] = 1;
    if (by->kind == FLOAT32) continue;
    own[by->words - 1] = 0;
    if (by->kind == BFLOAT16) halve_(x, size, (uint16_t *)own);
    else rows->scale[r] = quantise_(x, size, (uint8_t *)own);
  }
}

/* out = x W^T + b, for `rows` rows of `size` numbers and `results` results. */
void multiply(const float *x, i64 stride, const void *weights, const float *bias, const float *scales,
              const int32_t *offsets, float *out, i64 out_stride, i64 kind, i64 rows, i64 size, i64 words, i64 results,
              int threads) {
  Laid by = {weights, bias, scales, offsets, words, kind};
  i64 blocks = (results + BLOCK - 1) / BLOCK;
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (int part = 0; part < threads; part++) {
    word room[kind == FLOAT32 ? 1 : CHUNK * words];
    float to[TILE][BLOCK];
    Rows near;
    for (i64 first = 0; first < rows; first += CHUNK) {
      i64 many = rows - first < CHUNK ? rows - first : CHUNK;
      ready_(&by, x + first * stride, stride, many, size, room, &near);
      for (i64 b = blocks * part / threads; b < blocks * (part + 1) / threads; b++) {
        i64 width = results - b * BLOCK < BLOCK ? results - b * BLOCK : BLOCK;
        for (i64 r = 0; r < many; r += TILE) {
          int few = many - r < TILE ? many - r : TILE;
          block_(few, &by, b, &near, r, to);
          for (int i = 0; i < few; i++)
            memcpy(out + (first + r + i) * out_stride + b * BLOCK, to[i], width * sizeof(float));
        }
      }
    }
  }
}

INLINE __m512 exp_(__m512 x) { /* as exp_ of native.h */
  x = _mm512_max_ps(x, _mm512_set1_ps(-87.0f));
  __m512 whole = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), 8);
  __m512 rest = _mm512_fnmadd_ps(whole, _mm512_set1_ps(0.693359375f), x);
  rest = _mm512_fmadd_ps(whole, _mm512_set1_ps(2.12194440e-4f), rest);
  __m512 y = _mm512_set1_ps(1.9875691500e-4f);
  y = _mm512_fmadd_ps(y, rest, _mm512_set1_ps(1.3981999507e-3f));
  y = _mm512_fmadd_ps(y, rest, _mm512_set1_ps(8.3334519073e-3f));
  y = _mm512_fmadd_ps(y, rest, _mm512_set1_ps(4.1665795894e-2f));
  y = _mm512_fmadd_ps(y, rest, _mm512_set1_ps(1.6666665459e-1f));
  y = _mm512_fmadd_ps(y, rest, _mm512_set1_ps(5.0000001201e-1f));
  y = _mm512_fmadd_ps(_mm512_mul_ps(y, rest), rest, _mm512_add_ps(rest, _mm512_set1_ps(1.0f)));
  return _mm512_scalef_ps(y, whole);
}

/* What a row has found so far: its largest score, the sum of e^(score - largest), the best symbols. */
typedef struct {
  float *top, *sum, *values;
  i64 *places, count;
} Found;

static void insert_(Found *found, float x, i64 place) {
  float *v = found->values;
  i64 k = found->count - 1, *p = found->places;
  if (!(x > v[k])) return;
  for (; k > 0 && v[k - 1] < x; k--) v[k] = v[k - 1], p[k] = p[k - 1];
  v[k] = x, p[k] = place;
}

/* A block of a row's scores. Of them the symbols from `begin` to `end` may be written. */
INLINE void absorb_(Found *found, const float *x, i64 first, i64 begin, i64 end) {
  __m512 x0 = _mm512_loadu_ps(x), x1 = _mm512_loadu_ps(x + 16), x2 = _mm512_loadu_ps(x + 32);
  __m512 x3 = _mm512_loadu_ps(x + 48);
  float top = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_max_ps(x0, x1), _mm512_max_ps(x2, x3)));
  if (top > *found->top) {
    *found->sum *= expf(*found->top - top);
    *found->top = top;
  }
  __m512 off = _mm512_set1_ps(*found->top);
  __m512 e = _mm512_add_ps(exp_(_mm512_sub_ps(x0, off)), exp_(_mm512_sub_ps(x1, off)));
  e = _mm512_add_ps(e, _mm512_add_ps(exp_(_mm512_sub_ps(x2, off)), exp_(_mm512_sub_ps(x3, off))));
  *found->sum += _mm512_reduce_add_ps(e);
  if (!(top > found->values[found->count - 1])) return;
  i64 stop = first + BLOCK < end ? first + BLOCK : end;
  for (i64 i = first > begin ? first : begin; i < stop; i++) insert_(found, x[i - first], i);
}

/* What `pick` of scores.c finds in the scores that `multiply` makes. Threads share out the blocks, and each writes
   into a part of its own: `values` and `places` have (threads, rows, count) places, `sums` (threads, rows, 2). */
void best(const float *x, i64 stride, const void *weights, const float *bias, const float *scales,
          const int32_t *offsets, const uint8_t *rule, float *values, i64 *places, float *sums, i64 kind, i64 rows,
          i64 size, i64 words, i64 results, i64 count, int threads) {
  Laid by = {weights, bias, scales, offsets, words, kind};
  i64 blocks = (results + BLOCK - 1) / BLOCK;
  for (i64 i = 0; i < threads * rows * count; i++) values[i] = -INFINITY, places[i] = 0;
  for (i64 i = 0; i < threads * rows; i++) sums[2 * i] = -INFINITY, sums[2 * i + 1] = 0;
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (int part = 0; part < threads; part++) {
    word room[kind == FLOAT32 ? 1 : CHUNK * words];
    float to[TILE][BLOCK];
    Rows near;
    for (i64 first = 0; first < rows; first += CHUNK) {
      i64 many = rows - first < CHUNK ? rows - first : CHUNK;
      ready_(&by, x + first * stride, stride, many, size, room, &near);
      for (i64 b = blocks * part / threads; b < blocks * (part + 1) / threads; b++)
        for (i64 r = 0; r < many; r += TILE) {
          int few = many - r < TILE ? many - r : TILE;
          block_(few, &by, b, &near, r, to);
          for (int i = 0; i < few; i++) {
            i64 n = first + r + i, at = part * rows + n;
            Found found = {sums + 2 * at, sums + 2 * at + 1, values + at * count, places + at * count, count};
            absorb_(&found, to[i], b * BLOCK, rule[n] == 1 ? 3 : 2, rule[n] == 2 ? 3 : results);
          }
        }
    }
  }
  for (i64 n = 0; n < rows; n++) {
    Found all = {sums + 2 * n, sums + 2 * n + 1, values + n * count, places + n * count, count};
    for (i64 at = rows + n; at < threads * rows; at += rows) {
      float top = sums[2 * at] > *all.top ? sums[2 * at] : *all.top;
      *all.sum = *all.sum * expf(*all.top - top) + sums[2 * at + 1] * expf(sums[2 * at] - top);
      *all.top = top;
      for (i64 k = 0; k < count; k++) insert_(&all, values[at * count + k], places[at * count + k]);
    }
    float whole = *all.top + logf(*all.sum);
    for (i64 k = 0; k < count; k++) all.values[k] -= whole;
  }
}
#else
void multiply() {}
void best() {}
#endif
