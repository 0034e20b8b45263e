/* A look at a memory in one pass, there and back. */
#include "native.h"
#ifdef __x86_64__
#include <immintrin.h>
#endif

/* e^(-twice * query), and whether it may be multiplied with the powers of keys without overflow. */
static inline int powers_(const float *q, float twice, i64 size, float *to) {
  float most = 0;
#pragma omp simd reduction(max : most)
  for (i64 i = 0; i < size; i++) {
    float x = -twice * q[i], y = fabsf(x);
    most = y > most ? y : most;
    to[i] = exp_(x);
  }
  return most <= 40;
}

typedef float lanes __attribute__((vector_size(64), aligned(4), may_alias));
#define SHARED 5 /* rows that share what is read of a memory */
#define WIDE 4   /* lanes at a time */

#ifdef __AVX512F__
/* sum + score / (1 + power k): what is divided by is not below 1, so its inverse comes from an estimate and a step of
   Newton's. */
static inline __m512 open_(__m512 sum, const float *score, const float *power, const float *k) {
  __m512 x = _mm512_fmadd_ps(_mm512_loadu_ps(power), _mm512_loadu_ps(k), _mm512_set1_ps(1));
  __m512 y = _mm512_rcp14_ps(x);
  y = _mm512_mul_ps(y, _mm512_fnmadd_ps(x, y, _mm512_set1_ps(2)));
  return _mm512_fmadd_ps(_mm512_loadu_ps(score), y, sum);
}
#endif

/* Sum of score / (1 + power k). */
static inline float opened_(const float *score, const float *power, const float *k, i64 size) {
  float e = 0;
  i64 done = 0;
#ifdef __AVX512F__
  __m512 a = _mm512_setzero_ps(), b = a, c = a, d = a;
  for (; done + 64 <= size; done += 64) {
    a = open_(a, score + done, power + done, k + done);
    b = open_(b, score + done + 16, power + done + 16, k + done + 16);
    c = open_(c, score + done + 32, power + done + 32, k + done + 32);
    d = open_(d, score + done + 48, power + done + 48, k + done + 48);
  }
  e = _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(a, b), _mm512_add_ps(c, d)));
#endif
#pragma omp simd reduction(+ : e)
  for (i64 i = done; i < size; i++) e += score[i] / (1.0f + power[i] * k[i]);
  return e;
}

/* The weights of one row's look at its item's memory. */
static inline void weigh_(const float *keys, const float *powers, const uint8_t *seen, const float *score, float twice,
                          const float *q, float *a, i64 length, i64 size) {
  float top = -INFINITY, sum = 0, power[size];
  int quick = score && powers && powers_(q, twice, size, power);
  for (i64 j = 0; j < length; j++) {
    if (!seen[j]) continue;
    const float *k = (quick ? powers : keys) + j * size;
    float e = 0;
    if (quick) {
      e = opened_(score, power, k, size);
    } else if (score) {
#pragma omp simd reduction(+ : e)
      for (i64 i = 0; i < size; i++) e += score[i] * sigmoid_(twice * (q[i] + k[i]));
    } else {
      e = dot_(q, k, size);
    }
    a[j] = e;
    top = e > top ? e : top;
  }
  for (i64 j = 0; j < length; j++) sum += a[j] = seen[j] ? exp_(a[j] - top) : 0;
  for (i64 j = 0; j < length; j++) a[j] = seen[j] ? a[j] / sum : 0;
}

typedef uint16_t halves __attribute__((vector_size(32), aligned(2), may_alias));
typedef uint32_t words __attribute__((vector_size(64)));

/* Numbers of a memory, float32 or bfloat16. */
static inline lanes some_(int low, const void *v, i64 place) {
  if (!low) return *(const lanes *)((const float *)v + place);
  return (lanes)(__builtin_convertvector(*(const halves *)((const uint16_t *)v + place), words) << 16);
}

static inline float one_(int low, const void *v, i64 place) {
  if (!low) return ((const float *)v)[place];
  uint32_t bits = (uint32_t)((const uint16_t *)v)[place] << 16;
  float x;
  memcpy(&x, &bits, 4);
  return x;
}

/* Of `many` rows: to += sum of a_j v_j. What is read of v serves all of them, and sums stay in registers. */
static inline void mix_(int many, int low, const void *v, const float *a, float *to, i64 length, i64 width) {
  i64 i = 0;
  for (; i + WIDE * 16 <= width; i += WIDE * 16) {
    lanes sum[SHARED][WIDE];
    for (int r = 0; r < many; r++)
      for (int c = 0; c < WIDE; c++) sum[r][c] = *(const lanes *)(to + r * width + i + 16 * c);
    for (i64 j = 0; j < length; j++)
      for (int c = 0; c < WIDE; c++) {
        lanes one = some_(low, v, j * width + i + 16 * c);
        for (int r = 0; r < many; r++) sum[r][c] += a[r * length + j] * one;
      }
    for (int r = 0; r < many; r++)
      for (int c = 0; c < WIDE; c++) *(lanes *)(to + r * width + i + 16 * c) = sum[r][c];
  }
  for (; i < width; i++)
    for (int r = 0; r < many; r++)
      for (i64 j = 0; j < length; j++) to[r * width + i] += a[r * length + j] * one_(low, v, j * width + i);
}

static void mixed_(i64 many, i64 low, const void *v, const float *a, float *to, i64 length, i64 width) {
#define MIX(n) \
  case n: \
    if (low) mix_(n, 1, v, a, to, length, width); \
    else mix_(n, 0, v, a, to, length, width); \
    break;
  switch (many) { MIX(1) MIX(2) MIX(3) MIX(4) MIX(5) } /* so that the compiler knows how many sums there are */
}

/* The weights a of each row's look at its item's memory, and base + sum of a_j v_j. Energies are
   score . sigmoid(twice * (query + key_j)), or query . key_j where there is no score. Where `powers` has
   e^(-twice * key), none beyond e^40, an exponential per query and key is one per query. Values may be in bfloat16
   (`low`): a search reads all of them at each step. */
void look(const float *keys, const float *powers, const void *values, const uint8_t *real, const float *score,
          float twice, const float *query, i64 query_stride, const float *base, i64 base_stride, float *weights,
          float *out, i64 items, i64 each, i64 length, i64 size, i64 width, i64 low, int threads) {
  i64 groups = (each + SHARED - 1) / SHARED;
  ROWS
  for (i64 g = 0; g < items * groups; g++) {
    i64 item = g / groups, first = g % groups * SHARED, place = item * length;
    i64 many = each - first < SHARED ? each - first : SHARED, row = item * each + first;
    const float *k = keys + place * size, *p = powers ? powers + place * size : 0;
    const char *v = (const char *)values + place * width * (low ? 2 : 4);
    float *a = weights + row * length, *to = out + row * width;
    for (i64 r = 0; r < many; r++) {
      const float *q = query + (row + r) * query_stride;
      weigh_(k, p, real + place, score, twice, q, a + r * length, length, size);
      if (base) memcpy(to + r * width, base + (row + r) * base_stride, width * sizeof(float));
      else memset(to + r * width, 0, width * sizeof(float));
    }
    mixed_(many, low, v, a, to, length, width);
  }
}

/* The way back through `look`, one row per item: from the gradient of what came out (and of the weights, if any) to
   those of energies and query. Gradients of keys (without the factor twice * score) and of the score are added up. */
void look_back(const float *keys, const float *powers, const float *values, const uint8_t *real, const float *score,
               float twice, const float *query, i64 query_stride, const float *out_grad, i64 out_stride,
               const float *weights, const float *weights_grad, float *energies_grad, float *query_grad,
               i64 query_grad_stride, float *key_grad, float *score_grad, i64 items, i64 length, i64 size, i64 width,
               int threads) {
  ROWS
  for (i64 n = 0; n < items; n++) {
    const float *q = query + n * query_stride, *a = weights + n * length, *outer = out_grad + n * out_stride;
    float *e = energies_grad + n * length, *dq = query_grad + n * query_grad_stride, mean = 0, power[size];
    float *ds = score_grad + n * size;
    int quick = score && powers && powers_(q, twice, size, power);
    memset(dq, 0, size * sizeof(float));
    for (i64 j = 0; j < length; j++) {
      e[j] = 0;
      if (!real[n * length + j]) continue;
      e[j] = dot_(outer, values + (n * length + j) * width, width) + (weights_grad ? weights_grad[n * length + j] : 0);
      mean += a[j] * e[j];
    }
    for (i64 j = 0; j < length; j++) {
      float d = e[j] = a[j] * (e[j] - mean);
      if (d == 0) continue;
      const float *k = (quick ? powers : keys) + (n * length + j) * size;
      float *dk = key_grad + (n * length + j) * size;
      if (!score) {
#pragma omp simd
        for (i64 i = 0; i < size; i++) dq[i] += d * k[i];
        continue;
      }
#pragma omp simd
      for (i64 i = 0; i < size; i++) {
        float s = quick ? 1.0f / (1.0f + power[i] * k[i]) : sigmoid_(twice * (q[i] + k[i]));
        float slope = d * (s - s * s);
        ds[i] += d * s;
        dk[i] += slope;
        dq[i] += slope;
      }
    }
    if (score)
#pragma omp simd
      for (i64 i = 0; i < size; i++) dq[i] *= twice * score[i];
  }
}
