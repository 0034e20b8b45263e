/* A look at a memory in one pass, there and back. */
#include "native.h"

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

/* The weights a of each row's look at its item's memory, and base + sum of a_j v_j. Energies are
   score . sigmoid(twice * (query + key_j)), or query . key_j where there is no score. Where `powers` has
   e^(-twice * key), none beyond e^40, an exponential per query and key is one per query. */
void look(const float *keys, const float *powers, const float *values, const uint8_t *real, const float *score,
          float twice, const float *query, i64 query_stride, const float *base, i64 base_stride, float *weights,
          float *out, i64 items, i64 each, i64 length, i64 size, i64 width, int threads) {
  ROWS
  for (i64 n = 0; n < items * each; n++) {
    const float *q = query + n * query_stride;
    const float *v = values + n / each * length * width;
    const uint8_t *seen = real + n / each * length;
    float *a = weights + n * length, *to = out + n * width, top = -INFINITY, sum = 0, power[size];
    int quick = score && powers && powers_(q, twice, size, power);
    for (i64 j = 0; j < length; j++) {
      if (!seen[j]) continue;
      i64 place = (n / each * length + j) * size;
      const float *k = (quick ? powers : keys) + place;
      float e = 0;
      if (quick) {
#pragma omp simd reduction(+ : e)
        for (i64 i = 0; i < size; i++) e += score[i] / (1.0f + power[i] * k[i]);
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
    if (base) memcpy(to, base + n * base_stride, width * sizeof(float));
    else memset(to, 0, width * sizeof(float));
    i64 j = 0;
    for (; j + 4 <= length; j += 4) {
      const float *v0 = v + j * width, *v1 = v0 + width, *v2 = v1 + width, *v3 = v2 + width;
      float a0 = a[j], a1 = a[j + 1], a2 = a[j + 2], a3 = a[j + 3];
#pragma omp simd
      for (i64 i = 0; i < width; i++) to[i] += (a0 * v0[i] + a1 * v1[i]) + (a2 * v2[i] + a3 * v3[i]);
    }
    for (; j < length; j++) {
      const float *v0 = v + j * width;
#pragma omp simd
      for (i64 i = 0; i < width; i++) to[i] += a[j] * v0[i];
    }
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
