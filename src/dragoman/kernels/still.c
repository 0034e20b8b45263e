/* Products with weights that stay as they are, and what a search wants of its scores (the best few, and the sum of all)
   taken while they are still near. See lanes.py. */
#include "still.h"
#include "lanes.h"
#include "laying.h"

/* Which kinds of numbers this processor multiplies. */
void lanes(i64 *kinds, int threads) {
  *kinds = 0;
#ifdef LANES
  *kinds |= 1 << FLOAT32;
#ifdef __AVX512BF16__
  *kinds |= 1 << BFLOAT16;
#endif
#ifdef __AVX512VNNI__
  *kinds |= 1 << INT8;
#endif
#ifdef TILES
  if (tiles_allowed_()) *kinds |= 7 << TILED;
#endif
#endif
}

/* Weights, in rows or in columns, laid out for tiles: `panels` of 16 results, the last of them perhaps empty. */
void lay(const float *weights, i64 row, i64 column, char *to, float *scales, i64 kind, i64 results, i64 size,
         i64 panels, i64 words, int threads) {
#ifdef TILES
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (int part = 0; part < threads; part++) {
    i64 first = panels * part / threads * 16, end = panels * (part + 1) / threads * 16;
    i64 many = (end < results ? end : results) - first;
    Matrix m = {weights + first * row, row, column, many > 0 ? many : 0, size};
    lay_panels_(kind - TILED, m, 1, words, to + first * words * 4, scales + first);
  }
  for (i64 r = (results + 15) / 16 * 16; r < 16 * panels; r += 16) {
    memset(to + r * words * 4, 0, 64 * words);
    for (int i = 0; i < 16; i++) scales[r + i] = 1;
  }
#endif
}

#ifdef LANES
/* Rows that stay near while all weights pass by. */
typedef struct {
  Rows rows;
  float *to; /* their results of one block */
  i64 many;  /* at most */
} Near;

#define NEAR_LANES 96
#define NEAR_TILES (768 * 1024) /* bytes: weights pass by faster than they are fetched, where rows are few */

static Near near_(const Laid *by, i64 rows) {
  Near near = {.many = NEAR_LANES};
  if (by->kind >= TILED) near.many = NEAR_TILES / (4 * by->words) < 512 ? NEAR_TILES / (4 * by->words) / 32 * 32 : 512;
  if (near.many < 32) near.many = 32;
  if (near.many > rows) near.many = (rows + 31) / 32 * 32;
  i64 room = (near.many * by->words * 4 + 63) / 64 * 64, to = near.many * BLOCK * sizeof(float);
  char *all = aligned_alloc(64, room + to + near.many * sizeof(float));
  near.rows.room = (word *)all, near.to = (float *)(all + room), near.rows.scale = (float *)(all + room + to);
#ifdef TILES
  if (by->kind >= TILED) tiles_begin_();
#endif
  return near;
}

static void done_(const Laid *by, Near *near) {
  free(near->rows.room);
#ifdef TILES
  if (by->kind >= TILED) _tile_release();
#endif
}

static void lay_(const Laid *by, const float *x, i64 stride, i64 step, i64 many, Rows *rows) {
#ifdef TILES
  if (by->kind >= TILED) {
    rows->at = rows->room;
    Matrix m = {x, stride, step, many, by->size};
    return lay_panels_(by->kind - TILED, m, 0, by->words, (char *)rows->room, rows->scale);
  }
#endif
  lay_lanes_(by, x, stride, many, rows);
}

static void block_(const Laid *by, i64 block, const Near *near, i64 many, float *to, i64 wide) {
#ifdef TILES
  if (by->kind >= TILED) return block_tiles_(by, block, &near->rows, many, to, wide);
#endif
  block_lanes_(by, block, &near->rows, many, to, wide);
}

/* out = x W^T + b, for `rows` rows of `size` numbers and `results` results. For tiles, x may stand in columns. */
void multiply(const float *x, i64 stride, i64 step, const void *weights, const float *bias, const float *scales,
              const int32_t *offsets, float *out, i64 out_stride, i64 kind, i64 rows, i64 size, i64 words, i64 results,
              int threads) {
  Laid by = {weights, bias, scales, offsets, size, words, kind};
  i64 blocks = (results + BLOCK - 1) / BLOCK;
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (int part = 0; part < threads; part++) {
    Near near = near_(&by, rows);
    for (i64 first = 0; first < rows; first += near.many) {
      i64 many = rows - first < near.many ? rows - first : near.many;
      lay_(&by, x + first * stride, stride, step, many, &near.rows);
      for (i64 b = blocks * part / threads; b < blocks * (part + 1) / threads; b++) {
        i64 width = results - b * BLOCK;
        float *to = out + first * out_stride + b * BLOCK;
        if (width >= BLOCK) {
          block_(&by, b, &near, many, to, out_stride);
          continue;
        }
        block_(&by, b, &near, many, near.to, BLOCK);
        for (i64 r = 0; r < many; r++) memcpy(to + r * out_stride, near.to + r * BLOCK, width * sizeof(float));
      }
    }
    done_(&by, &near);
  }
}

INLINE __m512 exp_(__m512 x) { /* as exp_ of native.h */
  x = _mm512_max_ps(_mm512_set1_ps(-87.0f), x); /* the second of them where one is no number */
  __m512 whole = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), 8);
  __m512 rest = _mm512_fnmadd_ps(whole, _mm512_set1_ps(0.693359375f), x);
  rest = _mm512_fmadd_ps(whole, _mm512_set1_ps(2.12194440e-4f), rest);
  __m512 y = _mm512_set1_ps(1.9875691500e-4f);
  y = _mm512_fmadd_ps(y, rest, _mm512_set1_ps(1.3981999507e-3f));
  y = _mm512_fmadd_ps(y, rest, _mm512_set1_ps(8.3334519073e-3f));
  y = _mm512_fmadd_ps(y, rest, _mm512_set1_ps(4.1665795894e-2f));
  y = _mm512_fmadd_ps(y, rest, _mm512_set1_ps(1.6666665459e-1f));
  y = _mm512_fmadd_ps(y, rest, _mm512_set1_ps(5.0000001201e-1f));
  y = _mm512_fmadd_ps(_mm512_mul_ps(y, rest), rest, _mm512_add_ps(rest, _mm512_set1_ps(1.0f)));
  return _mm512_scalef_ps(y, whole);
}

/* What a row has found so far: its largest score, the sum of e^(score - largest), the best symbols. */
typedef struct {
  float *top, *sum, *values;
  i64 *places, count;
} Found;

static void insert_(Found *found, float x, i64 place) {
  float *v = found->values;
  i64 k = found->count - 1, *p = found->places;
  if (!(x > v[k])) return;
  for (; k > 0 && v[k - 1] < x; k--) v[k] = v[k - 1], p[k] = p[k - 1];
  v[k] = x, p[k] = place;
}

/* A block of a row's scores. Of them the symbols from `begin` to `end` may be written. */
INLINE void absorb_(Found *found, const float *x, i64 first, i64 begin, i64 end) {
  __m512 x0 = _mm512_loadu_ps(x), x1 = _mm512_loadu_ps(x + 16), x2 = _mm512_loadu_ps(x + 32);
  __m512 x3 = _mm512_loadu_ps(x + 48);
  float top = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_max_ps(x0, x1), _mm512_max_ps(x2, x3)));
  if (top > *found->top) {
    *found->sum *= expf(*found->top - top);
    *found->top = top;
  }
  __m512 off = _mm512_set1_ps(*found->top > -INFINITY ? *found->top : 0);
  __m512 e = _mm512_add_ps(exp_(_mm512_sub_ps(x0, off)), exp_(_mm512_sub_ps(x1, off)));
  e = _mm512_add_ps(e, _mm512_add_ps(exp_(_mm512_sub_ps(x2, off)), exp_(_mm512_sub_ps(x3, off))));
  *found->sum += _mm512_reduce_add_ps(e);
  if (!(top > found->values[found->count - 1])) return;
  i64 stop = first + BLOCK < end ? first + BLOCK : end;
  for (i64 i = first > begin ? first : begin; i < stop; i++) insert_(found, x[i - first], i);
}

/* What `pick` of scores.c finds in the scores that `multiply` makes. Threads share out the blocks, and each writes
   into a part of its own: `values` and `places` have (threads, rows, count) places, `sums` (threads, rows, 2). */
void best(const float *x, i64 stride, const void *weights, const float *bias, const float *scales,
          const int32_t *offsets, const uint8_t *rule, float *values, i64 *places, float *sums, i64 kind, i64 rows,
          i64 size, i64 words, i64 results, i64 count, int threads) {
  Laid by = {weights, bias, scales, offsets, size, words, kind};
  i64 blocks = (results + BLOCK - 1) / BLOCK;
  for (i64 i = 0; i < threads * rows * count; i++) values[i] = -INFINITY, places[i] = 0;
  for (i64 i = 0; i < threads * rows; i++) sums[2 * i] = -INFINITY, sums[2 * i + 1] = 0;
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (int part = 0; part < threads; part++) {
    Near near = near_(&by, rows);
    for (i64 first = 0; first < rows; first += near.many) {
      i64 many = rows - first < near.many ? rows - first : near.many;
      lay_(&by, x + first * stride, stride, 1, many, &near.rows);
      for (i64 b = blocks * part / threads; b < blocks * (part + 1) / threads; b++) {
        block_(&by, b, &near, many, near.to, BLOCK);
        for (i64 r = 0; r < many; r++) {
          i64 n = first + r, at = part * rows + n;
          Found found = {sums + 2 * at, sums + 2 * at + 1, values + at * count, places + at * count, count};
          absorb_(&found, near.to + r * BLOCK, b * BLOCK, rule[n] == 1 ? 3 : 2, rule[n] == 2 ? 3 : results);
        }
      }
    }
    done_(&by, &near);
  }
  for (i64 n = 0; n < rows; n++) {
    Found all = {sums + 2 * n, sums + 2 * n + 1, values + n * count, places + n * count, count};
    for (i64 at = rows + n; at < threads * rows; at += rows) {
      if (sums[2 * at + 1] == 0) continue; /* a thread without a block */
      float top = sums[2 * at] > *all.top ? sums[2 * at] : *all.top;
      *all.sum = *all.sum * expf(*all.top - top) + sums[2 * at + 1] * expf(sums[2 * at] - top);
      *all.top = top;
      for (i64 k = 0; k < count; k++) insert_(&all, values[at * count + k], places[at * count + k]);
    }
    float whole = *all.top + logf(*all.sum);
    for (i64 k = 0; k < count; k++) all.values[k] -= whole;
  }
}
#else
void multiply(const float *x, i64 stride, i64 step, const void *weights, const float *bias, const float *scales,
              const int32_t *offsets, float *out, i64 out_stride, i64 kind, i64 rows, i64 size, i64 words, i64 results,
              int threads) {}
void best(const float *x, i64 stride, const void *weights, const float *bias, const float *scales,
          const int32_t *offsets, const uint8_t *rule, float *values, i64 *places, float *sums, i64 kind, i64 rows,
          i64 size, i64 words, i64 results, i64 count, int threads) {}
#endif
