/* Cells, one step there and back, and the sum that a readout is made of. */
#include "routines.h"

/* A GRU's step, with the reset after the product: gates from the input (and more of them, if any) and from the state.
   `acts` takes the gates as they opened, where it is wanted. */
void gru(const float *x, i64 x_stride, const float *more, i64 more_stride, const float *past, i64 past_stride,
         const float *h, i64 h_stride, float *acts, i64 acts_stride, float *out, i64 rows, i64 size, int threads) {
  ROWS
  for (i64 n = 0; n < rows; n++) {
    const float *a = x + n * x_stride, *p = past + n * past_stride, *s = h + n * h_stride;
    const float *b = more ? more + n * more_stride : 0;
    float *to = out + n * size, *act = acts ? acts + n * acts_stride : 0, gate[3 * size];
    if (b)
#pragma omp simd
      for (i64 i = 0; i < 3 * size; i++) gate[i] = a[i] + b[i];
    else memcpy(gate, a, 3 * size * sizeof(float));
#pragma omp simd
    for (i64 i = 0; i < 2 * size; i++) gate[i] = sigmoid_(gate[i] + p[i]);
#pragma omp simd
    for (i64 i = 0; i < size; i++) {
      float new = tanh_(gate[2 * size + i] + gate[i] * p[2 * size + i]);
      gate[2 * size + i] = new;
      to[i] = new + gate[size + i] * (s[i] - new);
    }
    if (act) memcpy(act, gate, 3 * size * sizeof(float));
  }
}

/* The way back through it: from the gradient of the new state, dh plus `outer` if any, to those of both shares of the
   gates; dh becomes that of the old state as far as it does not pass through them. */
void gru_back(float *dh, i64 dh_stride, const float *outer, i64 outer_stride, const float *acts, i64 acts_stride,
              const float *past, i64 past_stride, const float *h, i64 h_stride, float *dx, i64 dx_stride, float *dpast,
              i64 dpast_stride, i64 rows, i64 size, int threads) {
  ROWS
  for (i64 n = 0; n < rows; n++) {
    const float *r = acts + n * acts_stride, *z = r + size, *w = z + size, *p = past + n * past_stride + 2 * size;
    const float *s = h + n * h_stride, *o = outer ? outer + n * outer_stride : 0;
    float *d = dh + n * dh_stride, *x = dx + n * dx_stride, *y = dpast + n * dpast_stride;
#pragma omp simd
    for (i64 i = 0; i < size; i++) {
      float all = d[i] + (o ? o[i] : 0), direct = all * z[i], new = (all - direct) * (1 - w[i] * w[i]);
      float update = direct * (s[i] - w[i]) * (1 - z[i]), inner = new * r[i], reset = inner * p[i] * (1 - r[i]);
      x[i] = y[i] = reset;
      x[size + i] = y[size + i] = update;
      x[2 * size + i] = new;
      y[2 * size + i] = inner;
      d[i] = direct;
    }
  }
}

/* An LSTM's step: gates from the input (and more of them, if any) and from the state, in the order enter, forget, new,
   leave. `acts` takes them as they opened, where it is wanted. */
void lstm(const float *x, i64 x_stride, const float *more, i64 more_stride, const float *past, i64 past_stride,
          const float *c, i64 c_stride, float *acts, i64 acts_stride, float *out, i64 out_stride, float *memory,
          i64 memory_stride, i64 rows, i64 size, int threads) {
  ROWS
  for (i64 n = 0; n < rows; n++) {
    const float *a = x + n * x_stride, *p = past + n * past_stride, *m = c + n * c_stride;
    const float *b = more ? more + n * more_stride : 0;
    float *h = out + n * out_stride, *to = memory + n * memory_stride;
    float *act = acts ? acts + n * acts_stride : 0, gate[4 * size];
    if (b)
#pragma omp simd
      for (i64 i = 0; i < 4 * size; i++) gate[i] = a[i] + b[i] + p[i];
    else
#pragma omp simd
      for (i64 i = 0; i < 4 * size; i++) gate[i] = a[i] + p[i];
#pragma omp simd
    for (i64 i = 0; i < size; i++) {
      float enter = sigmoid_(gate[i]), forget = sigmoid_(gate[size + i]);
      float new = tanh_(gate[2 * size + i]), leave = sigmoid_(gate[3 * size + i]);
      float all = forget * m[i] + enter * new;
      gate[i] = enter, gate[size + i] = forget, gate[2 * size + i] = new, gate[3 * size + i] = leave;
      to[i] = all;
      h[i] = leave * tanh_(all);
    }
    if (act) memcpy(act, gate, 4 * size * sizeof(float));
  }
}

/* The way back through it: from the gradients of the new state (dh plus `outer` if any) and of the new memory to that
   of the gates, which both shares take; dc becomes that of the old memory, dh nothing. */
void lstm_back(float *dh, i64 dh_stride, const float *outer, i64 outer_stride, float *dc, i64 dc_stride,
               const float *acts, i64 acts_stride, const float *c, i64 c_stride, const float *memory, i64 memory_stride,
               float *dx, i64 dx_stride, float *dpast, i64 dpast_stride, i64 rows, i64 size, int threads) {
  ROWS
  for (i64 n = 0; n < rows; n++) {
    const float *enter = acts + n * acts_stride, *forget = enter + size, *new = forget + size, *leave = new + size;
    const float *o = outer ? outer + n * outer_stride : 0, *m = c + n * c_stride, *now = memory + n * memory_stride;
    float *d = dh + n * dh_stride, *e = dc + n * dc_stride, *x = dx + n * dx_stride;
#pragma omp simd
    for (i64 i = 0; i < size; i++) {
      float all = d[i] + (o ? o[i] : 0), shown = tanh_(now[i]);
      float kept = e[i] + all * leave[i] * (1 - shown * shown);
      x[i] = kept * new[i] * enter[i] * (1 - enter[i]);
      x[size + i] = kept * m[i] * forget[i] * (1 - forget[i]);
      x[2 * size + i] = kept * enter[i] * (1 - new[i] * new[i]);
      x[3 * size + i] = all * shown * leave[i] * (1 - leave[i]);
      e[i] = kept * forget[i];
      d[i] = 0;
    }
    memcpy(dpast + n * dpast_stride, x, 4 * size * sizeof(float));
  }
}

/* tanh of a sum of up to three. */
void tanh_sum(const float *x, i64 x_stride, const float *y, i64 y_stride, const float *z, i64 z_stride, float *out,
              i64 rows, i64 size, int threads) {
  ROWS
  for (i64 n = 0; n < rows; n++) {
    const float *a = x + n * x_stride, *b = y ? y + n * y_stride : 0, *c = z ? z + n * z_stride : 0;
    float *to = out + n * size;
    if (c)
#pragma omp simd
      for (i64 i = 0; i < size; i++) to[i] = tanh_(a[i] + b[i] + c[i]);
    else if (b)
#pragma omp simd
      for (i64 i = 0; i < size; i++) to[i] = tanh_(a[i] + b[i]);
    else
#pragma omp simd
      for (i64 i = 0; i < size; i++) to[i] = tanh_(a[i]);
  }
}

/* A layer over rows of the given counts, step by step, fewer and fewer: gates from the input (steps, rows, G), and the
   product of the state by weights that were laid out. The state h, and c of an LSTM, is left where each row ended. */
void walk(const float *gates, const i64 *counts, const void *weights, const float *bias, const float *scales,
          const int32_t *offsets, float *past, float *h, float *c, float *hs, i64 kind, i64 words, i64 steps, i64 rows,
          i64 size, int threads) {
  i64 wide = (c ? 4 : 3) * size;
  for (i64 t = 0; t < steps && counts[t]; t++, gates += rows * wide, hs += rows * size) {
    i64 many = counts[t];
    if (many * wide * size < MUCH) threads = 1; /* rows become fewer */
    multiply(h, size, 1, weights, bias, scales, offsets, past, wide, kind, many, size, words, wide, threads);
    if (c) lstm(gates, wide, 0, 0, past, wide, c, size, 0, 0, hs, size, c, size, many, size, threads);
    else gru(gates, wide, 0, 0, past, wide, h, size, 0, 0, hs, many, size, threads);
    memcpy(h, hs, many * size * sizeof(float));
  }
}
