/* A step of a beam search: the scores of all paths that go on, the best ways from there, and what becomes of them.
   After the last step, the best paths of each item, followed to the start. See beams.py. */
#include "routines.h"

#define PAD 0
#define EOS 2

/* As `Turn` of beams.py has it. */
typedef struct {
  const void *weights; /* the output layer, as it was laid out */
  const float *bias, *scales;
  const int32_t *offsets;
  i64 kind, size, words, results;
  const float *features; /* (items * count, size) */
  i64 features_stride;
  i64 items, count, ways, width; /* paths of an item: so many, each with so many ways to go on, and so many then */
  const i64 *alive, *least, *most;
  i64 *tokens, *lengths, *rows, *lead;
  float *scores;
  uint8_t *done;
  float *some, *values, *sums; /* room for features, for what ways add, and for `best` */
  i64 *symbols, *going;
  uint8_t *rule;
  const float *divisors; /* of scores, by length */
  i64 all;
  int32_t *parents, *written; /* (steps, all, width) */
  float *gains;
  float *final;
  i64 *final_lengths, *last; /* (all, width) and (all,) */
  i64 *left;                 /* paths that are not done, and items that are */
  i64 threads;
} Turn;

/* Rows that go on, as `best` wants them: their features side by side, and what they may write. */
static i64 gather_(const Turn *t, i64 time, const float **x, i64 *stride) {
  i64 many = 0, rows = t->items * t->count;
  for (i64 n = 0; n < rows; n++) {
    if (t->done[n]) continue;
    i64 item = t->alive[n / t->count];
    t->rule[many] = time >= t->most[item] ? 2 : time < t->least[item];
    t->going[many++] = n;
  }
  *x = t->features, *stride = t->features_stride;
  if (many == rows) return many;
  for (i64 i = 0; i < many; i++)
    memcpy(t->some + i * t->size, t->features + t->going[i] * t->features_stride, t->size * sizeof(float));
  *x = t->some, *stride = t->size;
  return many;
}

/* A way to go on from a path. */
typedef struct {
  float rank, score, gain;
  i64 path, symbol, place;
} Way;

/* Whether a way comes before another. What is no number comes first: it is not to go unseen. */
static int before_(const Way *one, const Way *other) {
  return other->path < 0 || one->rank > other->rank || (isnan(one->rank) && !isnan(other->rank));
}

static void insert_way_(Way *ways, i64 width, Way way) {
  i64 k = width - 1;
  if (!before_(&way, ways + k)) return;
  for (; k > 0 && before_(&way, ways + k - 1); k--) ways[k] = ways[k - 1];
  ways[k] = way;
}

/* The best ways of one item, and among them that of the greedy path. `i` counts the rows that go on. */
static i64 rank_(const Turn *t, i64 b, i64 i, Way *found) {
  Way wanted = {.path = -1};
  for (i64 k = 0; k < t->width; k++) found[k] = (Way){-INFINITY, -INFINITY, -INFINITY, -1, PAD, -1};
  for (i64 k = 0; k < t->count; k++) {
    i64 n = b * t->count + k, done = t->done[n];
    float by = t->divisors[t->lengths[n] + !done];
    for (i64 j = 0; j < (done ? 1 : t->ways); j++) {
      float gain = done ? 0 : t->values[i * t->ways + j], score = t->scores[n] + gain;
      Way way = {score / by, score, gain, k, done ? PAD : t->symbols[i * t->ways + j], k * t->ways + j};
      if (k == t->lead[b] && !j) wanted = way;
      insert_way_(found, t->width, way);
    }
    i += !done;
  }
  i64 lead = 0;
  while (lead < t->width - 1 && found[lead].place != wanted.place) lead++;
  found[lead] = wanted;
  t->lead[b] = lead;
  return i;
}

/* The paths of one item, as the ways lead them. */
static void go_on_(const Turn *t, i64 b, i64 time, const Way *found, i64 *lengths, uint8_t *done) {
  i64 item = t->alive[b], over = 1;
  for (i64 k = 0; k < t->width; k++) {
    i64 place = b * t->width + k, log = (time * t->all + item) * t->width + k;
    i64 parent = found[k].path < 0 ? t->count - 1 : found[k].path, from = b * t->count + parent;
    done[place] = t->done[from] || found[k].symbol == EOS || isinf(found[k].score);
    lengths[place] = t->lengths[from] + !t->done[from];
    t->rows[place] = from;
    t->parents[log] = parent, t->written[log] = found[k].symbol, t->gains[log] = found[k].gain;
    t->final[item * t->width + k] = found[k].score, t->final_lengths[item * t->width + k] = lengths[place];
    t->left[0] += !done[place];
    over &= done[place];
  }
  t->left[1] += over;
  t->last[item] = time;
}

void turn(const Turn *t, i64 time, int threads) {
  const float *x;
  i64 stride, many = gather_(t, time, &x, &stride), rows = t->items * t->width, i = 0;
  best(x, stride, t->weights, t->bias, t->scales, t->offsets, t->rule, t->values, t->symbols, t->sums, t->kind, many,
       t->size, t->words, t->results, t->ways, t->threads);
  Way *found = malloc(rows * sizeof(Way));
  i64 *lengths = malloc(rows * sizeof(i64));
  uint8_t *done = malloc(rows);
  t->left[0] = t->left[1] = 0;
  for (i64 b = 0; b < t->items; b++) {
    i = rank_(t, b, i, found + b * t->width);
    go_on_(t, b, time, found + b * t->width, lengths, done);
  }
  for (i64 n = 0; n < rows; n++) t->tokens[n] = found[n].symbol, t->scores[n] = found[n].score;
  memcpy(t->lengths, lengths, rows * sizeof(i64));
  memcpy(t->done, done, rows);
  free(found), free(lengths), free(done);
}

/* The `count` best paths of each item: tokens (all, count, steps), what they added, and by the path of which row they
   came (steps, all, count); their scores (all, count). */
void trace(const Turn *t, i64 steps, i64 count, i64 *tokens, float *gains, i64 *rows, float *scores, int threads) {
  memset(tokens, 0, t->all * count * steps * sizeof(i64));
  memset(gains, 0, t->all * count * steps * sizeof(float));
  memset(rows, 0, t->all * count * steps * sizeof(i64));
  for (i64 item = 0; item < t->all; item++) {
    Way order[count];
    for (i64 k = 0; k < count; k++) order[k] = (Way){-INFINITY, -INFINITY, -INFINITY, -1, PAD, -1};
    for (i64 k = 0; k < t->width; k++) {
      float score = t->final[item * t->width + k];
      Way way = {score / t->divisors[t->final_lengths[item * t->width + k]], score, 0, k, 0, k};
      insert_way_(order, count, way);
    }
    for (i64 n = 0; n < count; n++) {
      i64 slot = order[n].path, at = (item * count + n) * steps;
      scores[item * count + n] = order[n].score;
      for (i64 time = t->last[item]; time >= 0; time--) {
        i64 log = (time * t->all + item) * t->width + slot;
        tokens[at + time] = t->written[log];
        gains[at + time] = t->written[log] == PAD ? 0 : t->gains[log];
        slot = rows[(time * t->all + item) * count + n] = t->parents[log];
      }
    }
  }
}

/* out = rows of a table, by their numbers. */
void gather(const float *table, i64 stride, const i64 *rows, float *out, i64 count, i64 size, int threads) {
  for (i64 i = 0; i < count; i++) memcpy(out + i * size, table + rows[i] * stride, size * sizeof(float));
}
