/* What products with weights that stay as they are have in common, whoever multiplies. Weights stand in blocks of 64
   results, filled up with results that nobody sees. */
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

typedef int64_t i64;
typedef int32_t __attribute__((may_alias)) word; /* four bytes of a row, whatever they hold */
/* Kinds of numbers: by lanes (AVX-512), and by tiles (AMX), which multiply float32 as whole numbers of 24 bits. */
enum { FLOAT32, BFLOAT16, INT8, TILED };
#define BLOCK 64
#define INLINE static inline __attribute__((always_inline))

/* Weights as they were laid out, and what their sums still lack. */
typedef struct {
  const char *weights;
  const float *bias;      /* of all results, blocks filled up */
  const float *scales;    /* of whole numbers: what a step of each result's weights is worth */
  const int32_t *offsets; /* int8 by lanes: 128 times the sum of each result's weights */
  i64 size, words;        /* of a row: its numbers, and four bytes each as they are laid out */
  int kind;
} Laid;

/* Rows as the products want them. */
typedef struct {
  const word *at;
  i64 apart;    /* words from row to row */
  word *room;   /* for rows that are not read as they are */
  float *scale; /* of whole numbers: what a step of each row is worth */
} Rows;

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__)
#define LANES 6 /* rows at a time: 24 sums, four of weights and a row's word fill the registers */

/* What a step of a row is worth, if `steps` of them reach its largest number. If one is no number, neither is this. */
static float step_(const float *x, i64 size, float steps) {
  uint32_t most = 0;
  const uint32_t __attribute__((may_alias)) *bits = (const void *)x;
#pragma omp simd reduction(max : most)
  for (i64 i = 0; i < size; i++) most = (bits[i] & 0x7fffffff) > most ? bits[i] & 0x7fffffff : most;
  float top;
  memcpy(&top, &most, 4);
  if (!(top < INFINITY)) return NAN;
  return top > 1e-30f ? top / steps : 1;
}

/* Whole numbers as what they are worth. */
INLINE __m512 scaled_(__m512 whole, const Laid *by, i64 place, float scale) {
  return _mm512_mul_ps(_mm512_mul_ps(whole, _mm512_set1_ps(scale)), _mm512_loadu_ps(by->scales + place));
}
#endif
