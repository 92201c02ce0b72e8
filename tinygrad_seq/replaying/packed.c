/* Matrix products whose second factor is laid out once for many: a weight is multiplied at every step of a run.

   BLAS copies the weight into an order that suits it at each product. Here it stands so already: panels of COLUMNS
   columns, each row of a panel close to the next. Every sum runs over k in order, fused (one rounding for a product and
   its addition), in pieces as BLAS cuts them, whose sums are added up in order: with the same pieces the bits are those of
   BLAS. Which pieces, is found by trial; where none give the same bits, or where it is not faster, BLAS is called. */

typedef long long I;
#define COLUMNS 32
#define HALF (COLUMNS / 2)
typedef float vector __attribute__((vector_size(4 * HALF), aligned(4)));

/* A row of a panel has two vectors, and so has each row of the result: so many rows fit into the registers. */
#ifdef __AVX512F__
#define MOST 8
#else
#define MOST 2
#endif

/* a[0], a matrix of dims[0] rows and dims[1] columns, as panels at a[1]; the last one is filled up with zeros. steps: in
   bytes, of rows and columns. */
void pack(char **a, const I *dims, const I *steps, void *data) {
  float *panel = (float *)a[1];
  for (I n = 0; n < dims[1]; n += COLUMNS)
    for (I k = 0; k < dims[0]; k++)
      for (I j = 0; j < COLUMNS; j++)
        *panel++ = n + j < dims[1] ? *(float *)(a[0] + k * steps[0] + (n + j) * steps[1]) : 0;
}

/* How long the piece is that begins where `rest` terms are left, if pieces have at most `most` (0: there is one piece). */
static inline I piece(I rest, I most) {
  if (!most || rest <= most) return rest;
  return rest >= 2 * most ? most : (rest / 2 + 15) / 16 * 16;
}

static inline void put(float *out, vector x, I width, int add) {
  if (width >= HALF) {
    if (add) *(vector *)out += x;
    else *(vector *)out = x;
  } else
    for (I j = 0; j < width; j++) out[j] = add ? out[j] + x[j] : x[j];
}

/* R rows of a times one panel. dims: rows, k, columns, most terms of a piece; steps, in numbers: of a along its rows and
   columns, of the panel from row to row, from panel to panel, of the result from row to row, whether to add to it. */
#define ROWS(R)                                                                                      \
  static void rows_##R(const float *a, const float *w, float *out, I width, const I *dims, const I *steps) { \
    vector total[R][2];                                                                              \
    for (I from = 0, to; from < dims[1]; from = to) {                                                \
      vector sum[R][2];                                                                              \
      for (int r = 0; r < R; r++) sum[r][0] = sum[r][1] = (vector){0};                               \
      to = from + piece(dims[1] - from, dims[3]);                                                    \
      for (I k = from; k < to; k++, w += steps[2]) {                                                 \
        vector left = *(const vector *)w, right = *(const vector *)(w + HALF);                       \
        for (int r = 0; r < R; r++) {                                                                \
          vector x = a[r * steps[0] + k * steps[1]] - (vector){0};                                   \
          sum[r][0] += x * left;                                                                     \
          sum[r][1] += x * right;                                                                    \
        }                                                                                            \
      }                                                                                              \
      for (int r = 0; r < R; r++)                                                                    \
        for (int h = 0; h < 2; h++) total[r][h] = from ? total[r][h] + sum[r][h] : sum[r][h];        \
    }                                                                                                \
    for (int r = 0; r < R; r++, out += steps[4]) {                                                   \
      put(out, total[r][0], width, steps[5] != 0);                                                   \
      if (width > HALF) put(out + HALF, total[r][1], width - HALF, steps[5] != 0);                   \
    }                                                                                                \
  }
ROWS(1)
ROWS(2)
#if MOST > 4
ROWS(4)
ROWS(8)
#endif

/* a[2] = a[0] times the panels at a[1], or a[2] += it. */
void product(char **arguments, const I *dims, const I *steps, void *data) {
  const float *panel = (const float *)arguments[1];
  for (I n = 0; n < dims[2]; n += COLUMNS, panel += steps[3]) {
    const float *a = (const float *)arguments[0];
    float *out = (float *)arguments[2] + n;
    I m = dims[0], width = dims[2] - n < COLUMNS ? dims[2] - n : COLUMNS;
#define BY(R)                                                                                        \
  for (; m >= R; m -= R, a += R * steps[0], out += R * steps[4]) rows_##R(a, panel, out, width, dims, steps);
#if MOST > 4
    BY(8)
    BY(4)
#endif
    BY(2)
    BY(1)
  }
}
