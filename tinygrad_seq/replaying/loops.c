/* A replayed step without the interpreter: a list of records is walked, and each record is one call of an inner loop.

   A ufunc of NumPy is a table of such loops, void loop(char **arguments, const I *dims, const I *steps, void *data), one
   for each combination of types. A record says which loop, on which memory, and the axes around it. So the arithmetic is
   NumPy's own, on the same buffers, in the same order; what stands below the walk are loops that only move values, look
   at them, or add, subtract and multiply, which IEEE 754 rounds exactly in whatever way it is done.

   No header is included, so that a compiler is enough. A record is a row of 64-bit words:
     0 kind   1 words in all   2 loop   3 data   4 n arguments   5 k outer axes   6, 7 where dims and steps stand
     8 ... n addresses; k counts, from the outermost axis; k times n strides in bytes; dims; steps */

typedef long long I;
typedef void loop(char **, const I *, const I *, void *);
typedef int asking(char **, const I *, const I *, void *);
/* ASKS: it may say no, and then Python makes the call. QUIET + 4 flags: which are hidden. CLEARS: as NumPy's comparisons,
   it clears the flags that others have raised. */
enum { PLAIN, ASKS, QUIET, CLEARS };
enum { ARGUMENTS = 8, AXES = 40 };

/* The floating-point flags. Where the compiler cannot read them, C's own functions are handed in. */

int (*test_flags)(int), (*clear_flags)(int);
int flag_bits[4]; /* of divide, over, under, invalid */

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__TINYC__)
/* Of both units: NumPy raises overflow by C's feraiseexcept, which in some libraries sets the older unit's flags. */
static unsigned older(void) {
  unsigned short x;
  __asm__ volatile("fnstsw %0" : "=a"(x));
  return x & 63;
}
static unsigned raised(void) { return (__builtin_ia32_stmxcsr() & 63) | older(); }
static void put(unsigned flags) {
  if (older()) __asm__ volatile("fnclex");
  __builtin_ia32_ldmxcsr((__builtin_ia32_stmxcsr() & ~63u) | flags);
}
static const int own_bits[4] = {4, 8, 16, 1};
static const int *bits(void) { return own_bits; }
#elif defined(__aarch64__) && defined(__GNUC__) && !defined(__TINYC__)
static unsigned raised(void) { unsigned long long x; __asm__ volatile("mrs %0, fpsr" : "=r"(x)); return x & 31; }
static void put(unsigned flags) {
  unsigned long long x;
  __asm__ volatile("mrs %0, fpsr" : "=r"(x));
  x = (x & ~31ull) | flags;
  __asm__ volatile("msr fpsr, %0" : : "r"(x));
}
static const int own_bits[4] = {2, 4, 8, 1};
static const int *bits(void) { return own_bits; }
#else
static unsigned raised(void) { return test_flags(flag_bits[0] | flag_bits[1] | flag_bits[2] | flag_bits[3]); }
static void put(unsigned flags) {
  clear_flags((flag_bits[0] | flag_bits[1] | flag_bits[2] | flag_bits[3]) & ~flags); /* none is ever set here */
}
static const int *bits(void) { return flag_bits; }
#endif

/* The walk ---------------------------------------------------------------------------------------------------------- */

static int one(const I *record, char **a) {
  const I *dims = record + record[6], *steps = record + record[7];
  void *data = (void *)record[3];
  if (record[0] == PLAIN || record[0] == CLEARS) {
    ((loop *)record[2])(a, dims, steps, data);
    return 1;
  }
  unsigned before = raised(), hidden = 0;
  if (record[0] == ASKS) {
    int fine = ((asking *)record[2])(a, dims, steps, data);
    put(before);
    return fine;
  }
  for (int i = 0; i < 4; i++)
    if (record[0] >> 2 & 1 << i) hidden |= bits()[i];
  ((loop *)record[2])(a, dims, steps, data);
  put(before | (raised() & ~hidden));
  return 1;
}

static int played(const I *record) {
  I n = record[4], k = record[5], at[AXES], i, j;
  const I *counts = record + 8 + n, *strides = counts + k;
  char *a[ARGUMENTS], *given[ARGUMENTS]; /* some loops, as that of matmul, write to the list of their arguments */
  for (j = 0; j < n; j++) a[j] = (char *)record[8 + j];
  for (i = 0; i < k; i++) at[i] = 0;
  for (;;) {
    for (j = 0; j < n; j++) given[j] = a[j];
    if (!one(record, given)) return 0;
    for (i = k - 1; i >= 0; i--) { /* the next place: the innermost of the outer axes first */
      const I *s = strides + i * n;
      if (++at[i] < counts[i]) {
        for (j = 0; j < n; j++) a[j] += s[j];
        break;
      }
      at[i] = 0;
      for (j = 0; j < n; j++) a[j] -= (counts[i] - 1) * s[j];
    }
    if (i < 0) return 1;
  }
}

/* Plays the records between two words; returns where it stopped: at a record that said no, else at the end. `flags`
   gathers what arithmetic raised, 1 2 4 8 for divide, over, under, invalid as NumPy counts them. */
I run(const I *program, I from, I to, I *flags) {
  unsigned before = raised(), seen = 0;
  put(0);
  while (from < to) {
    if (program[from] == CLEARS) seen |= raised();
    if (!played(program + from)) break;
    from += program[from + 1];
  }
  seen |= raised();
  put(before);
  for (int i = 0; i < 4; i++)
    if (seen & bits()[i]) *flags |= 1 << i;
  return from;
}

/* Whether a record leaves the flags standing that were raised before it. */
int leaves_flags(const I *record) {
  unsigned before = raised(), all = 0;
  for (int i = 0; i < 4; i++) all |= bits()[i];
  put(all);
  played(record);
  int kept = (raised() & all) == all;
  put(before);
  return kept;
}

/* Values moved about ------------------------------------------------------------------------------------------------ */

#if defined(__clang__)
#define EACH_BY_ITSELF _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__) && !defined(__TINYC__)
#define EACH_BY_ITSELF _Pragma("GCC ivdep")
#else
#define EACH_BY_ITSELF
#endif
typedef unsigned char U1;
typedef unsigned short U2;
typedef unsigned U4;
typedef unsigned long long U8;

/* a[0] to a[1]: dims[0] rows of `data` bytes. */
void rows(char **a, const I *dims, const I *steps, void *data) {
  char *from = a[0], *to = a[1];
  for (I i = 0; i < dims[0]; i++, from += steps[0], to += steps[1]) __builtin_memcpy(to, from, (I)data);
}

/* a[0] to a[1]: dims[0] times dims[1] items of `data` bytes; steps: of both along the first axis, then the second. In
   tiles, because a transposed matrix would else be read a line of memory for each item. */
#define TILE 16
#define ITEMS(T)                                                                                     \
  if (dims[0] == 1 && s == 0 && t == sizeof(T)) {                                                    \
    T value = *(T *)a[0], *to = (T *)a[1];                                                           \
    for (I j = 0; j < dims[1]; j++) to[j] = value;                                                   \
  } else                                                                                             \
    for (I i0 = 0; i0 < dims[0]; i0 += TILE)                                                         \
      for (I j0 = 0; j0 < dims[1]; j0 += TILE)                                                       \
        for (I i = i0; i < i0 + TILE && i < dims[0]; i++)                                            \
          for (I j = j0; j < j0 + TILE && j < dims[1]; j++)                                          \
            *(T *)(a[1] + i * steps[1] + j * t) = *(T *)(a[0] + i * steps[0] + j * s);               \
  return;

void items(char **a, const I *dims, const I *steps, void *data) {
  I s = steps[2], t = steps[3];
  switch ((I)data) {
  case 1: ITEMS(U1)
  case 2: ITEMS(U2)
  case 4: ITEMS(U4)
  case 8: ITEMS(U8)
  }
}

/* a[1] to a[2] where a[0]: dims[0] items of `data` bytes. Without a branch, which would be mispredicted. */
#define SELECT(T, M, S, D)                                                                           \
  {                                                                                                  \
    EACH_BY_ITSELF                                                                                   \
    for (I i = 0; i < n; i++) {                                                                      \
      T new = *(T *)(source + i * (S)), old = *(T *)(to + i * (D));                                  \
      *(T *)(to + i * (D)) = mask[i * (M)] ? new : old;                                              \
    }                                                                                                \
    return;                                                                                          \
  }
#define MASKED(T)                                                                                    \
  {                                                                                                  \
    I z = sizeof(T);                                                                                 \
    if (steps[2] == z && steps[1] == z && steps[0] == 0) {                                           \
      if (*mask) __builtin_memmove(to, source, n * z);                                               \
      return;                                                                                        \
    }                                                                                                \
    if (steps[2] == z && steps[1] == z && steps[0] == 1) SELECT(T, 1, sizeof(T), sizeof(T))          \
    if (steps[2] == z && steps[1] == 0 && steps[0] == 1) SELECT(T, 1, 0, sizeof(T))                  \
    SELECT(T, steps[0], steps[1], steps[2])                                                          \
  }

void masked(char **a, const I *dims, const I *steps, void *data) {
  char *mask = a[0], *source = a[1], *to = a[2];
  I n = dims[0];
  switch ((I)data) {
  case 1: MASKED(U1)
  case 2: MASKED(U2)
  case 4: MASKED(U4)
  case 8: MASKED(U8)
  }
}

/* Numbers of one type as numbers of another, of which there are as many or fewer digits: NumPy's own rounding. */
#define CAST(NAME, S, D)                                                                             \
  void NAME(char **a, const I *dims, const I *steps, void *data) {                                   \
    for (I i = 0; i < dims[0]; i++) *(D *)(a[1] + i * steps[1]) = (D) * (const S *)(a[0] + i * steps[0]); \
  }
#define TO_FLOATS(C, S) CAST(cast_##C##_f, S, float) CAST(cast_##C##_d, S, double)
TO_FLOATS(bool, U1) TO_FLOATS(i, int) TO_FLOATS(l, I)
CAST(cast_f_d, float, double) CAST(cast_d_f, double, float)
CAST(cast_bool_l, U1, I) CAST(cast_bool_i, U1, int) CAST(cast_i_l, int, I)

/* Arithmetic that is rounded exactly -------------------------------------------------------------------------------- */

/* a[2] = a[0] op a[1]: dims[1] rows of dims[0] numbers, which lie closely or are one number; steps: of the three along a
   row, then from row to row. NumPy calls a loop for each row. */
#define ROW(T, OP, X, Y)                                                                             \
  for (I r = 0; r < dims[1]; r++) {                                                                  \
    const T *x = (const T *)(a[0] + r * steps[3]), *y = (const T *)(a[1] + r * steps[4]);            \
    T *z = (T *)(a[2] + r * steps[5]);                                                               \
    EACH_BY_ITSELF                                                                                   \
    for (I i = 0; i < n; i++) z[i] = x[X] OP y[Y];                                                   \
  }
#define ARITHMETIC(NAME, T, OP)                                                                      \
  void NAME(char **a, const I *dims, const I *steps, void *data) {                                   \
    I n = dims[0];                                                                                   \
    if (!steps[0]) { ROW(T, OP, 0, i) } else if (!steps[1]) { ROW(T, OP, i, 0) } else { ROW(T, OP, i, i) } \
  }
ARITHMETIC(add_f, float, +) ARITHMETIC(subtract_f, float, -) ARITHMETIC(multiply_f, float, *)
ARITHMETIC(add_d, double, +) ARITHMETIC(subtract_d, double, -) ARITHMETIC(multiply_d, double, *)

/* Loops that look at numbers, and may say no ------------------------------------------------------------------------ */

static inline I whole(const char *x, I size) { return size == 4 ? *(const int *)x : *(const I *)x; }

/* a[1] = a[0], whole numbers of `data` bytes, where all lie in dims[1]..dims[2]; those that are dims[4] (if dims[3]) are
   ignored, and give 0. */
int checked(char **a, const I *dims, const I *steps, void *data) {
  I size = (I)data;
  for (I i = 0; i < dims[0]; i++) {
    I x = whole(a[0] + i * steps[0], size);
    if (dims[3] && x == dims[4]) x = 0;
    else if (x < dims[1] || x > dims[2]) return 0;
    if (size == 4) *(int *)(a[1] + i * steps[1]) = (int)x;
    else *(I *)(a[1] + i * steps[1]) = x;
  }
  return 1;
}

/* Whether dims[0] numbers of `data` bytes lie in 0..1 (or are NaN), as NumPy compares them. */
int probabilities(char **a, const I *dims, const I *steps, void *data) {
  for (I i = 0; i < dims[0]; i++) {
    const char *p = a[0] + i * steps[0];
    double x = (I)data == 4 ? *(const float *)p : *(const double *)p;
    if (x < 0 || x > 1) return 0;
  }
  return 1;
}

/* The place of entry i of the index in a table: a[0] the table, a[1] its rows' numbers, a[3] numbers along its second
   axis, if steps[4]. dims: entries, -, rows, entries along the second axis. `data`: the bytes of a number. */
static inline I place(char **a, const I *dims, const I *steps, I i, I size) {
  I row = whole(a[1] + i * steps[1], size), column = 0;
  if (row < 0 || row >= dims[2]) return -1;
  if (steps[4]) {
    column = whole(a[3] + i * steps[3], size);
    if (column < 0 || column >= dims[3]) return -1;
  }
  return row * steps[0] + column * steps[4];
}

/* a[2][i] = table[ids[i]], dims[1] bytes each. */
int take(char **a, const I *dims, const I *steps, void *data) {
  for (I i = 0; i < dims[0]; i++) {
    I at = place(a, dims, steps, i, (I)data);
    if (at < 0) return 0;
    __builtin_memcpy(a[2] + i * steps[2], a[0] + at, dims[1]);
  }
  return 1;
}

/* table[ids[i]] += a[2][i], dims[1] numbers each, one after the other; the table holds nothing else. */
#define ADD_AT(NAME, T)                                                                              \
  int NAME(char **a, const I *dims, const I *steps, void *data) {                                    \
    for (I i = 0; i < dims[0]; i++)                                                                  \
      if (place(a, dims, steps, i, (I)data) < 0) return 0;                                           \
    for (I i = 0; i < dims[0]; i++) {                                                                \
      T *to = (T *)(a[0] + place(a, dims, steps, i, (I)data)), *row = (T *)(a[2] + i * steps[2]);    \
      EACH_BY_ITSELF                                                                                 \
      for (I j = 0; j < dims[1]; j++) to[j] += row[j];                                               \
    }                                                                                                \
    return 1;                                                                                        \
  }
ADD_AT(add_at_f, float) ADD_AT(add_at_d, double)
