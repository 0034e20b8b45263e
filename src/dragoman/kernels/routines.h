/* Routines that others here call. */
#pragma once
#include "native.h"

#define MUCH (1 << 22) /* products of two numbers for which it is worth waking other threads; as in turns.py */

void multiply(const float *x, i64 stride, i64 step, const void *weights, const float *bias, const float *scales,
              const int32_t *offsets, float *out, i64 out_stride, i64 kind, i64 rows, i64 size, i64 words, i64 results,
              int threads);
void best(const float *x, i64 stride, const void *weights, const float *bias, const float *scales,
          const int32_t *offsets, const uint8_t *rule, float *values, i64 *places, float *sums, i64 kind, i64 rows,
          i64 size, i64 words, i64 results, i64 count, int threads);
void look(const float *keys, const float *powers, const void *values, const uint8_t *real, const float *score,
          float twice, const float *query, i64 query_stride, const float *base, i64 base_stride, float *weights,
          float *out, i64 items, i64 each, i64 length, i64 size, i64 width, i64 low, int threads);
void gru(const float *x, i64 x_stride, const float *more, i64 more_stride, const float *past, i64 past_stride,
         const float *h, i64 h_stride, float *acts, i64 acts_stride, float *out, i64 rows, i64 size, int threads);
void lstm(const float *x, i64 x_stride, const float *more, i64 more_stride, const float *past, i64 past_stride,
          const float *c, i64 c_stride, float *acts, i64 acts_stride, float *out, i64 out_stride, float *memory,
          i64 memory_stride, i64 rows, i64 size, int threads);
void tanh_sum(const float *x, i64 x_stride, const float *y, i64 y_stride, const float *z, i64 z_stride, float *out,
              i64 rows, i64 size, int threads);
void gather(const float *table, i64 stride, const i64 *rows, float *out, i64 count, i64 size, int threads);
