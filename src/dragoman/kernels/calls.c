/* Calls of routines that were written down with all they read and write, made again one after another: see calls.py. */
#include "routines.h"

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
        multiply(g[0].p, g[1].n, g[2].n, g[3].p, g[4].p, g[5].p, g[6].p, g[7].p, g[8].n, g[9].n, g[10].n, g[11].n,
                 g[12].n, g[13].n, g[14].n);
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
