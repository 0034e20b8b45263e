/* Blocks of 64 results by AMX, 16 rows and 16 results a tile: bfloat16, int8, and float32 as whole numbers. A row of
   float32 becomes whole numbers of 24 bits, as many steps of its own; each is three digits to the base 256, and the
   products of digits are summed without an error. Left out is the last third of them, some 2^-22 of what is largest.
   Weights are the same. Rows and weights stand in tiles of 1 KB, 64 bytes of each row or result, digit by digit. */
#pragma once
#include "lanes.h"

#if defined(LANES) && defined(__AVX512BF16__) && defined(__AMX_BF16__) && defined(__AMX_INT8__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#define TILES
#define KB 1024

/* What was written to memory is there: compilers do not see that tiles are loaded from it. */
#define SETTLED(from) __asm__ volatile("" ::"r"(from) : "memory")

/* Whether the system lets this process use them. */
static int tiles_allowed_(void) { return syscall(SYS_arch_prctl, 0x1023, 18) == 0; }

/* All eight tiles whole: 16 rows of 64 bytes. */
static void tiles_begin_(void) {
  struct {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
  } form = {.palette = 1};
  for (int i = 0; i < 8; i++) form.bytes[i] = 64, form.rows[i] = 16;
  SETTLED(&form);
  _tile_loadconfig(&form);
}

#define EACH4(does) does(0); does(1); does(2); does(3)
#define STORE(tile) _tile_stored(tile, sum[tile], 64)

/* Four tiles of sums, two of rows times two of results. */
#define SQUARE(name, times)                                                                                          \
  static void name(const char *x, const char *x_, const char *w, const char *w_, i64 steps, word sum[4][256]) {      \
    EACH4(_tile_zero);                                                                                               \
    for (i64 k = 0; k < steps * KB; k += KB) {                                                                       \
      _tile_stream_loadd(4, x + k, 64);                                                                              \
      _tile_loadd(6, w + k, 64);                                                                                     \
      times(0, 4, 6);                                                                                                \
      _tile_loadd(7, w_ + k, 64);                                                                                    \
      times(1, 4, 7);                                                                                                \
      _tile_stream_loadd(5, x_ + k, 64);                                                                             \
      times(2, 5, 6);                                                                                                \
      times(3, 5, 7);                                                                                                \
    }                                                                                                                \
    EACH4(STORE);                                                                                                    \
  }
SQUARE(tile_halves_, _tile_dpbf16ps)
SQUARE(tile_bytes_, _tile_dpbssd)

/* Three digits times three, for one tile (`held`, which stays near) and two that pass by: sums 0 to 2 belong to the
   first of these, 3 to 5 to the other, each by what the digits are worth, 256^4, 256^3 and 256^2. Weights that come by
   once, for a few rows, are fetched ahead: those of the pair of tiles after the next. */
#define NO_FETCH(from)
#define FETCH(from) _Pragma("GCC unroll 8") for (int i = 0; i < 96; i++) _mm_prefetch((from) + 64 * i, _MM_HINT_T1);
#define NEXT(times, sum, from) _tile_loadd(7, from, 64); times(sum)
#define DIGITS(name, times, fetch)                                                                                   \
  static void name(const char *held, const char *one, const char *two, i64 steps, word sum[6][256]) {                \
    EACH4(_tile_zero);                                                                                               \
    _tile_zero(4);                                                                                                   \
    _tile_zero(5);                                                                                                   \
    for (i64 k = 0; k < 3 * steps * KB; k += 3 * KB) {                                                               \
      fetch(two + 9 * steps * KB + 2 * k)                                                                            \
      _tile_stream_loadd(6, one + k, 64);                                                                            \
      NEXT(times, 0, held + k);                                                                                      \
      NEXT(times, 1, held + k + KB);                                                                                 \
      NEXT(times, 2, held + k + 2 * KB);                                                                             \
      _tile_stream_loadd(6, one + k + KB, 64);                                                                       \
      NEXT(times, 1, held + k);                                                                                      \
      NEXT(times, 2, held + k + KB);                                                                                 \
      _tile_stream_loadd(6, one + k + 2 * KB, 64);                                                                   \
      NEXT(times, 2, held + k);                                                                                      \
      _tile_stream_loadd(6, two + k, 64);                                                                            \
      NEXT(times, 3, held + k);                                                                                      \
      NEXT(times, 4, held + k + KB);                                                                                 \
      NEXT(times, 5, held + k + 2 * KB);                                                                             \
      _tile_stream_loadd(6, two + k + KB, 64);                                                                       \
      NEXT(times, 4, held + k);                                                                                      \
      NEXT(times, 5, held + k + KB);                                                                                 \
      _tile_stream_loadd(6, two + k + 2 * KB, 64);                                                                   \
      NEXT(times, 5, held + k);                                                                                      \
    }                                                                                                                \
    EACH4(STORE);                                                                                                    \
    STORE(4);                                                                                                        \
    STORE(5);                                                                                                        \
  }
#define BY_HELD(sum) _tile_dpbssd(sum, 6, 7)
#define HELD_BY(sum) _tile_dpbssd(sum, 7, 6)
DIGITS(rows_by_, BY_HELD, NO_FETCH)
DIGITS(by_results_, HELD_BY, FETCH)

/* 16 results of up to 16 rows, from their sums. */
INLINE void settle_(const Laid *by, i64 place, word (*sum)[256], const float *scale, i64 many, float *to, i64 wide) {
  __m512 plus = _mm512_loadu_ps(by->bias + place);
  int kind = by->kind - TILED;
  for (i64 r = 0; r < (many < 16 ? many : 16); r++) {
    __m512i first = _mm512_loadu_si512(sum[0] + 16 * r);
    __m512 whole = kind == BFLOAT16 ? _mm512_castsi512_ps(first) : _mm512_cvtepi32_ps(first);
    if (kind == FLOAT32) {
      __m512 second = _mm512_cvtepi32_ps(_mm512_loadu_si512(sum[1] + 16 * r));
      __m512 third = _mm512_cvtepi32_ps(_mm512_loadu_si512(sum[2] + 16 * r));
      third = _mm512_fmadd_ps(second, _mm512_set1_ps(0x1p24f), _mm512_mul_ps(third, _mm512_set1_ps(0x1p16f)));
      whole = _mm512_fmadd_ps(whole, _mm512_set1_ps(0x1p32f), third);
    }
    if (kind != BFLOAT16) whole = scaled_(whole, by, place, scale[r]);
    _mm512_storeu_ps(to + r * wide + place % BLOCK, _mm512_add_ps(whole, plus));
  }
}

static void block_digits_(const Laid *by, i64 block, const Rows *rows, i64 many, float *to, i64 wide) {
  i64 steps = by->words / 48, panel = 3 * steps * KB, r;
  word sum[6][256] __attribute__((aligned(64)));
  const char *x = (const char *)rows->at, *w = by->weights + block * 4 * panel;
  i64 pairs = (many + 15) / 32 * 32; /* the last tile of an odd number of them takes two of results at a time */
  for (int c = 0; c < 4; c++)
    for (r = 0; r < pairs; r += 32) {
      rows_by_(w + c * panel, x + r / 16 * panel, x + (r / 16 + 1) * panel, steps, sum);
      for (i64 i = 0, row = r; i < 6; i += 3, row += 16)
        settle_(by, block * BLOCK + 16 * c, sum + i, rows->scale + row, many - row, to + row * wide, wide);
    }
  for (int c = 0; c < 4 && pairs < many; c += 2) {
    by_results_(x + pairs / 16 * panel, w + c * panel, w + (c + 1) * panel, steps, sum);
    for (int i = 0; i < 2; i++) {
      i64 place = block * BLOCK + 16 * (c + i);
      settle_(by, place, sum + 3 * i, rows->scale + pairs, many - pairs, to + pairs * wide, wide);
    }
  }
}

static void block_squares_(const Laid *by, i64 block, const Rows *rows, i64 many, float *to, i64 wide) {
  i64 steps = by->words / 16, panel = steps * KB;
  word sum[4][256] __attribute__((aligned(64)));
  const char *w = by->weights + block * 4 * panel;
  for (int c = 0; c < 4; c += 2)
    for (i64 r = 0; r < many; r += 32) {
      const char *x = (const char *)rows->at + r / 16 * panel, *x_ = r + 16 < many ? x + panel : x;
      const char *left = w + c * panel, *right = left + panel;
      if (by->kind == TILED + INT8) tile_bytes_(x, x_, left, right, steps, sum);
      else tile_halves_(x, x_, left, right, steps, sum);
      for (int i = 0; i < 4; i++) {
        i64 row = r + i / 2 * 16;
        i64 place = block * BLOCK + 16 * (c + i % 2);
        settle_(by, place, sum + i, rows->scale + row, many - row, to + row * wide, wide);
      }
    }
}

static void block_tiles_(const Laid *by, i64 block, const Rows *rows, i64 many, float *to, i64 wide) {
  if (by->kind == TILED + FLOAT32) block_digits_(by, block, rows, many, to, wide);
  else block_squares_(by, block, rows, many, to, wide);
}
#endif
