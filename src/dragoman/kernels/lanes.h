/* Blocks of 64 results by AVX-512: float32, bfloat16 and int8 in one loop. Within a block, four bytes of each of its
   results follow each other: one number of float32, two of bfloat16, four of int8. */
#pragma once
#include "still.h"

#ifdef LANES

/* The results of one block for a few rows. A macro, since a compiler keeps sums in registers only where they are
   declared in the very type that the product is taken in. */
#define SUMS(name, SUM, zero, times, finish)                                                                         \
  INLINE void name##few(int many, const Laid *by, i64 block, const word *x, i64 apart, const float *scale,           \
                        float *to, i64 wide) {                                                                       \
    SUM sum[LANES][4];                                                                                               \
    _Pragma("GCC unroll 6") for (int r = 0; r < many; r++)                                                           \
      _Pragma("GCC unroll 4") for (int c = 0; c < 4; c++) sum[r][c] = zero;                                          \
    const char *w = by->weights + block * by->words * 4 * BLOCK;                                                     \
    for (i64 k = 0; k < by->words; k++, w += 4 * BLOCK) {                                                            \
      __m512i part[4];                                                                                               \
      _Pragma("GCC unroll 4") for (int c = 0; c < 4; c++) part[c] = _mm512_loadu_si512(w + 64 * c);                  \
      _Pragma("GCC unroll 6") for (int r = 0; r < many; r++) {                                                       \
        __m512i one = _mm512_set1_epi32(x[r * apart + k]);                                                           \
        _Pragma("GCC unroll 4") for (int c = 0; c < 4; c++) sum[r][c] = times(sum[r][c], one, part[c]);              \
      }                                                                                                              \
    }                                                                                                                \
    _Pragma("GCC unroll 4") for (int c = 0; c < 4; c++) {                                                            \
      i64 place = block * BLOCK + 16 * c;                                                                            \
      __m512 plus = _mm512_loadu_ps(by->bias + place);                                                               \
      _Pragma("GCC unroll 6") for (int r = 0; r < many; r++)                                                         \
        _mm512_storeu_ps(to + r * wide + 16 * c, _mm512_add_ps(finish(sum[r][c], by, place, scale[r]), plus));       \
    }                                                                                                                \
  }                                                                                                                  \
  static void name(int many, const Laid *by, i64 block, const word *x, i64 apart, const float *scale,                \
                   float *to, i64 wide) {                                                                            \
    switch (many) {                                                                                                  \
      case 1: name##few(1, by, block, x, apart, scale, to, wide); break;                                             \
      case 2: name##few(2, by, block, x, apart, scale, to, wide); break;                                             \
      case 3: name##few(3, by, block, x, apart, scale, to, wide); break;                                             \
      case 4: name##few(4, by, block, x, apart, scale, to, wide); break;                                             \
      case 5: name##few(5, by, block, x, apart, scale, to, wide); break;                                             \
      default: name##few(6, by, block, x, apart, scale, to, wide);                                                   \
    }                                                                                                                \
  }

#define SINGLE(sum, x, w) _mm512_fmadd_ps(_mm512_castsi512_ps(x), _mm512_castsi512_ps(w), sum)
#define AS_IT_IS(sum, by, place, scale) (sum)
SUMS(singles_, __m512, _mm512_setzero_ps(), SINGLE, AS_IT_IS)
#ifdef __AVX512BF16__
#define HALF(sum, x, w) _mm512_dpbf16_ps(sum, (__m512bh)(x), (__m512bh)(w))
SUMS(halves_, __m512, _mm512_setzero_ps(), HALF, AS_IT_IS)
#else
#define halves_ singles_
#endif
#ifdef __AVX512VNNI__
typedef int32_t ints __attribute__((vector_size(64)));
#define BYTES(sum, x, w) (ints) _mm512_dpbusd_epi32((__m512i)(sum), x, w)
INLINE __m512 worth_(ints sum, const Laid *by, i64 place, float scale) { /* bytes of rows stand around 128 */
  __m512i whole = _mm512_sub_epi32((__m512i)sum, _mm512_loadu_si512(by->offsets + place));
  return scaled_(_mm512_cvtepi32_ps(whole), by, place, scale);
}
SUMS(bytes_, ints, (ints){0}, BYTES, worth_)
#else
#define bytes_ singles_
#endif

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
  float scale = step_(x, size, 127), by = 1 / scale;
#pragma omp simd
  for (i64 i = 0; i < size; i++) to[i] = (uint8_t)(int32_t)(x[i] * by + 128.5f);
  return scale;
}

/* Rows as the lanes want them. */
static void lay_lanes_(const Laid *by, const float *x, i64 stride, i64 many, Rows *rows) {
  rows->apart = by->kind == FLOAT32 ? stride : by->words;
  rows->at = by->kind == FLOAT32 ? (const word *)x : rows->room;
  for (i64 r = 0; r < many; r++, x += stride) {
    word *own = rows->room + r * by->words;
    rows->scale[r] = 1;
    if (by->kind == FLOAT32) continue;
    own[by->words - 1] = 0;
    if (by->kind == BFLOAT16) halve_(x, by->size, (uint16_t *)own);
    else rows->scale[r] = quantise_(x, by->size, (uint8_t *)own);
  }
}

static void block_lanes_(const Laid *by, i64 block, const Rows *rows, i64 many, float *to, i64 wide) {
  for (i64 r = 0; r < many; r += LANES) {
    int few = many - r < LANES ? many - r : LANES;
    const word *x = rows->at + r * rows->apart;
    if (by->kind == FLOAT32) singles_(few, by, block, x, rows->apart, rows->scale + r, to + r * wide, wide);
    else if (by->kind == BFLOAT16) halves_(few, by, block, x, rows->apart, rows->scale + r, to + r * wide, wide);
    else bytes_(few, by, block, x, rows->apart, rows->scale + r, to + r * wide, wide);
  }
}
#endif
