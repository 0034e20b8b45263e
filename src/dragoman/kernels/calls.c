/* Calls of routines that were written down with all they read and write, made again one after another: see calls.py. */
#include "native.h"

void multiply(const float *x, i64 stride, const void *weights, const float *bias, const float *scales,
              const int32_t *offsets, float *out, i64 out_stride, i64 kind, i64 rows, i64 size, i64 words, i64 results,
              int threads);
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

typedef union {
  void *p;
  i64 n;
  float f;
} Given;
#define LONGEST 24 /* a routine's number, what it is given, and how many threads take part */
enum { MULTIPLY, LOOK, GRU, LSTM, TANH_SUM, GATHER };

void again(const Given *calls, i64 count, int threads) {
  for (const Given *g = calls + 1; count--; g += LONGEST) switch (g[-1].n) {
      case MULTIPLY:
        multiply(g[0].p, g[1].n, g[2].p, g[3].p, g[4].p, g[5].p, g[6].p, g[7].n, g[8].n, g[9].n, g[10].n, g[11].n,
                 g[12].n, g[13].n);
        break;
      case LOOK:
        look(g[0].p, g[1].p, g[2].p, g[3].p, g[4].p, g[5].f, g[6].p, g[7].n, g[8].p, g[9].n, g[10].p, g[11].p, g[12].n,
             g[13].n, g[14].n, g[15].n, g[16].n, g[17].n, g[18].n);
        break;
      case GRU:
        gru(g[0].p, g[1].n, g[2].p, g[3].n, g[4].p, g[5].n, g[6].p, g[7].n, g[8].p, g[9].n, g[10].p, g[11].n, g[12].n,
            g[13].n);
        break;
      case LSTM:
        lstm(g[0].p, g[1].n, g[2].p, g[3].n, g[4].p, g[5].n, g[6].p, g[7].n, g[8].p, g[9].n, g[10].p, g[11].n, g[12].p,
             g[13].n, g[14].n, g[15].n, g[16].n);
        break;
      case TANH_SUM:
        tanh_sum(g[0].p, g[1].n, g[2].p, g[3].n, g[4].p, g[5].n, g[6].p, g[7].n, g[8].n, g[9].n);
        break;
      default: gather(g[0].p, g[1].n, g[2].p, g[3].p, g[4].n, g[5].n, g[6].n);
    }
}
