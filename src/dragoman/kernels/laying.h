/* Numbers laid out for the tiles of tiles.h: panels of 16 rows, 64 bytes of each in a tile, step by step, and at each
   step digit by digit. A panel of weights is the same with the words of each tile transposed. What is laid out may
   stand in rows or in columns: numbers of a row follow each other, or those of a column do. */
#pragma once
#include "tiles.h"

#ifdef TILES
#define TOP 8323072.0f /* 127 * 256^2: its first digit does not overflow where it is rounded up */

/* Rows of a matrix, and how far a number is from the next in its row and in its column. */
typedef struct {
  const float *at;
  i64 row, column, many, size;
} Matrix;

INLINE __mmask16 first_(i64 many) { return many >= 16 ? 0xffff : many > 0 ? (1 << many) - 1 : 0; }

/* What a step of each row is worth, up to a whole panel. */
static void steps_(const Matrix *m, float steps, float *scales) {
  i64 all = (m->many + 15) / 16 * 16;
  if (m->column == 1) {
    for (i64 r = 0; r < all; r++) scales[r] = r < m->many ? step_(m->at + r * m->row, m->size, steps) : 1;
    return;
  }
  memset(scales, 0, all * sizeof(float));
  for (i64 k = 0; k < m->size; k++)
    for (i64 r = 0; r < all; r += 16) {
      __m512i bits = _mm512_castps_si512(_mm512_maskz_loadu_ps(first_(m->many - r), m->at + k * m->column + r));
      bits = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff));
      _mm512_storeu_si512(scales + r, _mm512_max_epu32(bits, _mm512_loadu_si512(scales + r)));
    }
  for (i64 r = 0; r < all; r++) scales[r] = step_(scales + r, 1, steps);
}

/* The last digit of whole numbers, as words, is taken away. */
INLINE __m512i take_(__m512i *whole) {
  __m512i last = _mm512_srai_epi32(_mm512_slli_epi32(*whole, 24), 24);
  *whole = _mm512_srai_epi32(_mm512_sub_epi32(*whole, last), 8);
  return last;
}

/* Numbers as whole ones. For int8, halves are rounded up, as by lanes. */
INLINE __m512i whole_(int kind, __m512 x, __m512 by) {
  __m512 scaled = _mm512_mul_ps(x, by);
  if (kind == FLOAT32) return _mm512_cvtps_epi32(scaled);
  __m512i up = _mm512_cvttps_epi32(_mm512_add_ps(scaled, _mm512_set1_ps(128.5f)));
  return _mm512_sub_epi32(up, _mm512_set1_epi32(128));
}

/* 64 bytes of a row, digit by digit, from numbers that follow each other. */
INLINE void lay_row_(int kind, const float *x, i64 real, __m512 by, char *to) {
  if (kind == BFLOAT16) {
    __m512 low = _mm512_maskz_loadu_ps(first_(real), x), high = _mm512_maskz_loadu_ps(first_(real - 16), x + 16);
    _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(high, low));
    return;
  }
  for (int i = 0; i < 64; i += 16) {
    __m512i whole = whole_(kind, _mm512_maskz_loadu_ps(first_(real - i), x + i), by);
    for (int digit = kind == FLOAT32 ? 2 : 0; digit >= 0; digit--)
      _mm_storeu_si128((void *)(to + digit * KB + i), _mm512_cvtepi32_epi8(take_(&whole)));
  }
}

/* A word of each of 16 rows from the rth on, digit by digit, from columns. */
INLINE void lay_words_(int kind, const Matrix *m, i64 r, i64 k, __m512 by, char *to) {
  int each = kind == BFLOAT16 ? 2 : 4, digits = kind == FLOAT32 ? 3 : 1;
  __m512i none = _mm512_setzero_si512(), words[3] = {none, none, none};
  for (int j = each - 1; j >= 0; j--) {
    __mmask16 there = k + j < m->size ? first_(m->many - r) : 0;
    __m512 x = _mm512_maskz_loadu_ps(there, m->at + (k + j) * m->column + r);
    if (kind == BFLOAT16) {
      __m512i half = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(x));
      words[0] = _mm512_or_si512(_mm512_slli_epi32(words[0], 16), half);
      continue;
    }
    __m512i whole = whole_(kind, x, by), byte = _mm512_set1_epi32(255);
    for (int digit = digits - 1; digit >= 0; digit--) {
      __m512i one = _mm512_and_si512(take_(&whole), byte);
      words[digit] = _mm512_or_si512(_mm512_slli_epi32(words[digit], 8), one);
    }
  }
  for (int digit = 0; digit < digits; digit++) _mm512_storeu_si512(to + digit * KB, words[digit]);
}

/* The words of a tile, 16 times 16, transposed. */
static void turn_tile_(char *tile) {
  __m512i a[16], b[16];
  for (int i = 0; i < 16; i++) a[i] = _mm512_loadu_si512(tile + 64 * i);
  for (int i = 0; i < 16; i += 2) {
    b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
  }
  for (int i = 0; i < 16; i += 4)
    for (int j = 0; j < 2; j++) {
      a[i + 2 * j] = _mm512_unpacklo_epi64(b[i + j], b[i + j + 2]);
      a[i + 2 * j + 1] = _mm512_unpackhi_epi64(b[i + j], b[i + j + 2]);
    }
  for (int i = 0; i < 16; i += 8)
    for (int j = 0; j < 4; j++) {
      b[i + j] = _mm512_shuffle_i32x4(a[i + j], a[i + j + 4], 0x88);
      b[i + j + 4] = _mm512_shuffle_i32x4(a[i + j], a[i + j + 4], 0xdd);
    }
  for (int j = 0; j < 8; j++) {
    _mm512_storeu_si512(tile + 64 * j, _mm512_shuffle_i32x4(b[j], b[j + 8], 0x88));
    _mm512_storeu_si512(tile + 64 * (j + 8), _mm512_shuffle_i32x4(b[j], b[j + 8], 0xdd));
  }
}

/* All panels of rows, as weights if they are to be. One step after the other, so that columns are read side by side. */
static void lay_panels_(int kind, Matrix m, int weights, i64 words, char *to, float *scales) {
  int digits = kind == FLOAT32 ? 3 : 1, each = kind == BFLOAT16 ? 32 : 64, rows = m.column == 1;
  i64 all = (m.many + 15) / 16 * 16;
  if (kind != BFLOAT16) steps_(&m, kind == INT8 ? 127 : TOP, scales);
  for (i64 r = 0; r < all && kind == BFLOAT16; r++) scales[r] = 1;
  for (i64 k = 0; k < m.size; k += each, to += digits * KB)
    for (i64 r = 0; r < all; r += 16) {
      char *tile = to + r * words * 4;
      __m512 by = _mm512_div_ps(_mm512_set1_ps(1), _mm512_loadu_ps(scales + r));
      for (i64 i = 0; i < 16; i++) {
        i64 real = r + i < m.many ? m.size - k : 0;
        __m512 own = _mm512_set1_ps(1 / scales[r + i]);
        if (rows) lay_row_(kind, m.at + (r + i) * m.row + k, real, own, tile + 64 * i);
        else lay_words_(kind, &m, r, k + i * each / 16, by, tile + 64 * i);
      }
      for (int digit = 0; digit < digits && rows == weights; digit++) turn_tile_(tile + digit * KB);
    }
  SETTLED(to);
}
#endif
