/* What torch's operations take several passes over memory for, in one: attention and a GRU's step, there and back,
   the best few scores with the sum of all, the slopes of a cross-entropy. Compiled on first use; see native.py.
   All arrays are float32 with unit stride in the last place; a stride counts floats from row to row. */
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef int64_t i64;
#define BLOCK 64
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

/* Scores become the slopes of their cross-entropy with the targets; a negative target counts for nothing.
   `sums` takes -log p of each row's target, and minus the mean log p of all symbols. */
void slopes(float *scores, i64 stride, const i64 *targets, float smoothing, float *sums, i64 rows, i64 size,
            int threads) {
  ROWS
  for (i64 r = 0; r < rows; r++) {
    float *x = scores + r * stride, top = -INFINITY, sum = 0, all = 0;
    i64 target = targets[r];
    sums[2 * r] = sums[2 * r + 1] = 0;
    if (target < 0) {
      memset(x, 0, size * sizeof(float));
      continue;
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
    sums[2 * r] = whole - own;
    sums[2 * r + 1] = whole - all / size;
  }
}

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

/* tanh of a sum of up to three. */
void tanh_sum(const float *x, i64 x_stride, const float *y, i64 y_stride, const float *z, i64 z_stride, float *out,
              i64 rows, i64 size, int threads) {
  ROWS
  for (i64 n = 0; n < rows; n++) {
    const float *a = x + n * x_stride, *b = y ? y + n * y_stride : 0, *c = z ? z + n * z_stride : 0;
    float *to = out + n * size;
#pragma omp simd
    for (i64 i = 0; i < size; i++) to[i] = tanh_(a[i] + (b ? b[i] : 0) + (c ? c[i] : 0));
  }
}
