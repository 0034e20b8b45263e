/* What the routines in C share. All arrays are float32 with unit stride in the last place, where nothing else is said;
   a stride counts numbers from row to row. */
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef int64_t i64;
#define ROWS _Pragma("omp parallel for schedule(static) num_threads(threads) if(threads > 1)")

/* e^x to a rounding or two; below -87 the smallest normal number. */
static inline float exp_(float x) {
  x = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
  float whole = (x * 1.44269504f + 12582912.0f) - 12582912.0f; /* rounds to an integer */
  float rest = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
  float y = 1.9875691500e-4f;
  y = y * rest + 1.3981999507e-3f;
  y = y * rest + 8.3334519073e-3f;
  y = y * rest + 4.1665795894e-2f;
  y = y * rest + 1.6666665459e-1f;
  y = y * rest + 5.0000001201e-1f;
  y = y * rest * rest + rest + 1.0f;
  int32_t power = ((int32_t)whole + 127) << 23;
  float scale;
  memcpy(&scale, &power, 4);
  return y * scale;
}

static inline float sigmoid_(float x) { return 1.0f / (1.0f + exp_(-x)); }
static inline float tanh_(float x) { return 2.0f / (1.0f + exp_(-2 * x)) - 1.0f; }

static inline float dot_(const float *a, const float *b, i64 size) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (i64 i = 0; i < size; i++) sum += a[i] * b[i];
  return sum;
}
