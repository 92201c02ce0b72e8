/* The product that packed.c computes, in the stated order, and no more: out = a b or out += a b, row by row; a sum runs
   over k, fused, in pieces, and the sums of the pieces are added up in order. */
void plain(const float *a, const float *b, float *out, const long long *dims, long long most, int add) {
  long long m = dims[0], k = dims[1], n = dims[2];
  for (long long i = 0; i < m; i++)
    for (long long j = 0; j < n; j++) {
      float total = 0;
      for (long long from = 0, to; from < k; from = to) {
        long long rest = k - from, length = rest;
        if (most && rest >= 2 * most) length = most;
        else if (most && rest > most) length = (rest / 2 + 15) / 16 * 16;
        to = from + length;
        float sum = 0;
        for (long long l = from; l < to; l++) sum = __builtin_fmaf(a[i * k + l], b[l * n + j], sum);
        total = from ? total + sum : sum;
      }
      out[i * n + j] = add ? out[i * n + j] + total : total;
    }
}
