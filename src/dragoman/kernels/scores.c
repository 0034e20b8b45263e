/* Scores of all symbols, row by row: the best few with the sum of all, the slopes of a cross-entropy. */
#include <stdlib.h>

#include "native.h"

#define BLOCK 64

/* log sum exp of a row, and its largest score; the largest of each block is written. */
static float sum_(const float *x, i64 size, float *tops) {
  float top = -INFINITY, sum = 0;
  for (i64 first = 0, b = 0; first < size; first += BLOCK, b++) {
    i64 end = first + BLOCK < size ? first + BLOCK : size;
    float m = -INFINITY;
#pragma omp simd reduction(max : m)
    for (i64 i = first; i < end; i++) m = x[i] > m ? x[i] : m;
    tops[b] = m;
    top = m > top ? m : top;
  }
#pragma omp simd reduction(+ : sum)
  for (i64 i = 0; i < size; i++) sum += exp_(x[i] - top);
  return top + logf(sum);
}

/* A number and its place into a list, largest first; of equals the first stays ahead. */
static inline void insert_(float *v, i64 *p, i64 count, float x, i64 place) {
  i64 k = count - 1;
  if (!(x > v[k])) return;
  for (; k > 0 && v[k - 1] < x; k--) v[k] = v[k - 1], p[k] = p[k - 1];
  v[k] = x, p[k] = place;
}

/* Of each row of scores the `count` best, largest first, as log-probabilities, and where they stand: never PAD (0)
   or BOS (1); where `rule` is 1 not EOS (2), where it is 2 EOS alone. Places that nobody takes are -inf. */
void pick(const float *scores, i64 stride, const uint8_t *rule, float *values, i64 *places, i64 rows, i64 size,
          i64 count, int threads) {
  ROWS
  for (i64 r = 0; r < rows; r++) {
    const float *x = scores + r * stride;
    float tops[(size + BLOCK - 1) / BLOCK], *v = values + r * count;
    i64 *p = places + r * count;
    float whole = sum_(x, size, tops);
    i64 begin = rule[r] == 1 ? 3 : 2, end = rule[r] == 2 ? 3 : size;
    for (i64 k = 0; k < count; k++) v[k] = -INFINITY;
    for (i64 b = 1; b * BLOCK < end; b++) insert_(v, p, count, tops[b], 0);
    float least = v[count - 1]; /* so many blocks reach it: no symbol below it is among the best */
    for (i64 k = 0; k < count; k++) v[k] = -INFINITY, p[k] = 0;
    for (i64 first = 0, b = 0; first < end; first += BLOCK, b++) {
      if (b && !(tops[b] >= least)) continue;
      i64 stop = first + BLOCK < end ? first + BLOCK : end;
      for (i64 i = first > begin ? first : begin; i < stop; i++) insert_(v, p, count, x[i], i);
    }
    for (i64 k = 0; k < count; k++) v[k] -= whole;
  }
}

/* A row's scores become the slopes of their cross-entropy with the target; a negative one counts for nothing. `sums`
   takes -log p of the target, and minus the mean log p of all symbols. */
static inline void slope_(float *x, i64 target, float smoothing, float *sums, i64 size) {
  float top = -INFINITY, sum = 0, all = 0;
  sums[0] = sums[1] = 0;
  if (target < 0) {
    memset(x, 0, size * sizeof(float));
    return;
  }
#pragma omp simd reduction(max : top) reduction(+ : all)
  for (i64 i = 0; i < size; i++) top = x[i] > top ? x[i] : top, all += x[i];
  float own = x[target];
#pragma omp simd reduction(+ : sum)
  for (i64 i = 0; i < size; i++) sum += x[i] = exp_(x[i] - top);
  float whole = top + logf(sum), share = 1 / sum, even = smoothing / size;
#pragma omp simd
  for (i64 i = 0; i < size; i++) x[i] = x[i] * share - even;
  x[target] -= 1 - smoothing;
  sums[0] = whole - own;
  sums[1] = whole - all / size;
}

/* Scores become slopes, in their place. */
void slopes(float *scores, i64 stride, const i64 *targets, float smoothing, float *sums, i64 rows, i64 size,
            int threads) {
  ROWS
  for (i64 r = 0; r < rows; r++) slope_(scores + r * stride, targets[r], smoothing, sums + 2 * r, size);
}

static inline float single_(uint16_t half) {
  uint32_t bits = (uint32_t)half << 16;
  float x;
  memcpy(&x, &bits, 4);
  return x;
}

static inline uint16_t half_(float x) { /* rounded to the nearest */
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

/* The same where scores are in bfloat16 and still lack their bias: a row is widened, and narrowed again, near the
   processor. */
void slopes_low(uint16_t *scores, i64 stride, const float *bias, const i64 *targets, float smoothing, float *sums,
                i64 rows, i64 size, int threads) {
  ROWS
  for (i64 r = 0; r < rows; r++) {
    uint16_t *low = scores + r * stride;
    float *row = malloc(size * sizeof(float));
#pragma omp simd
    for (i64 i = 0; i < size; i++) row[i] = single_(low[i]) + bias[i];
    slope_(row, targets[r], smoothing, sums + 2 * r, size);
#pragma omp simd
    for (i64 i = 0; i < size; i++) low[i] = half_(row[i]);
    free(row);
  }
}
