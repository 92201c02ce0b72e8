"use strict";
// The page computes. It carries a recorded program, which page_program.py writes: a list of primitives for the values,
// and for each recorded operation a list of primitives for what it sends back to its inputs. Nothing here knows a
// derivative.

// The primitives ------------------------------------------------------------------------------------------------------
// Arrays are flat. An index map says where entries come from or go to.

const sigmoid = (x) => 1 / (1 + Math.exp(-x));
const entryByEntry = {
  add: (a, b) => a + b, subtract: (a, b) => a - b, multiply: (a, b) => a * b, divide: (a, b) => a / b,
  power: (a, b) => a ** b, maximum: (a, b) => Math.max(a, b), minimum: (a, b) => Math.min(a, b),
  clip: (x, low, high) => Math.min(Math.max(x, low), high),
  where: (c, a, b) => (c ? a : b), negative: (a) => -a, exp: Math.exp, expm1: Math.expm1, log: Math.log,
  log1p: Math.log1p, sqrt: Math.sqrt, square: (a) => a * a, abs: Math.abs, sign: Math.sign, sin: Math.sin,
  cos: Math.cos, tanh: Math.tanh, sigmoid, logsigmoid: (a) => Math.min(a, 0) - Math.log1p(Math.exp(-Math.abs(a))),
  relu: (a) => Math.max(a, 0), equal: (a, b) => +(a === b), not_equal: (a, b) => +(a !== b), less: (a, b) => +(a < b),
  less_equal: (a, b) => +(a <= b), greater: (a, b) => +(a > b), greater_equal: (a, b) => +(a >= b),
  integer: Math.trunc, truth: (a) => +(a !== 0),
};

function eachEntry(f, [a, b, c]) {
  const n = [a, b, c].reduce((n, x) => (x && (n === 1 || x.length === 0) ? x.length : n), 1);
  const [i, j, k] = [a, b, c].map((x) => (x && x.length === 1 ? 0 : 1)); // a single number serves all entries
  return Float64Array.from({ length: n }, (_, at) => f(a[i * at], b && b[j * at], c && c[k * at]));
}

const byGroups = {
  max: (x, n, group) => folded(x, n, group, Math.max, -Infinity),
  min: (x, n, group) => folded(x, n, group, Math.min, Infinity),
  norm(x, n, group) {
    const largest = byGroups.max(x.map(Math.abs), n, group).map((m) => (m > 0 && m < Infinity ? m : 1));
    const total = folded(x.map((v, k) => v / largest[group[k]]), n, group, (sum, v) => sum + v * v, 0);
    return total.map((sum, k) => Math.sqrt(sum) * largest[k]);
  },
  logsumexp(x, n, group) {
    const { top, total } = exponentials(x, n, group);
    return total.map((sum, k) => Math.log(sum) + top[k]);
  },
  softmax(x, n, group) {
    const { e, total } = exponentials(x, n, group);
    return e.map((v, k) => v / (total[group[k]] || 1)); // a fully masked row is zeros
  },
  log_softmax(x, n, group) {
    const { top, total } = exponentials(x, n, group);
    return x.map((v, k) => v - top[group[k]] - Math.log(total[group[k]] || 1));
  },
  cumsum(x, n, group) {
    const total = new Float64Array(n);
    return x.map((v, k) => (total[group[k]] += v));
  },
};
function folded(x, n, group, f, start) {
  const out = new Float64Array(n).fill(start);
  x.forEach((v, k) => { out[group[k]] = f(out[group[k]], v); });
  return out;
}
function exponentials(x, n, group) {
  const top = byGroups.max(x, n, group).map((m) => (Number.isFinite(m) ? m : 0));
  const e = x.map((v, k) => Math.exp(v - top[group[k]]));
  return { top, e, total: folded(e, n, group, (sum, v) => sum + v, 0) };
}

const joining = {
  take: ([x], n, map) => Float64Array.from(map, (k) => x[k]),
  put(parts, n, ...maps) {
    const out = new Float64Array(n);
    parts.forEach((part, p) => maps[p].forEach((to, k) => { out[to] += part[k]; }));
    return out;
  },
  product(factors, n, to, ...from) { // a sum of products: each term says where it goes and where its factors stand
    const out = new Float64Array(n);
    for (let k = 0; k < to.length; k++) {
      let term = factors[0][from[0][k]];
      for (let f = 1; f < factors.length; f++) term *= factors[f][from[f][k]];
      out[to[k]] += term;
    }
    return out;
  },
};

// The program ---------------------------------------------------------------------------------------------------------

class Program {
  constructor(data) {
    Object.assign(this, data);
    this.maps = data.maps.map(indexMap);
    this.values = new Array(data.slots);
    for (const [slot, numbers] of Object.entries(data.start)) this.values[slot] = Float64Array.from(numbers, Number);
    this.order = new Map(this.backward.map(([t], k) => [t, k]));
  }

  value(t) { return this.values[this.tensors[t][0]]; }

  set(t, x) { this.values[this.tensors[t][0]] = x; }

  run(operations) {
    for (const [name, slot, inputs, n, ...maps] of operations) {
      const given = inputs.map((k) => this.values[k]), indices = maps.map((k) => this.maps[k]);
      if (name in entryByEntry) this.values[slot] = eachEntry(entryByEntry[name], given);
      else if (name in byGroups) this.values[slot] = byGroups[name](given[0], n, ...indices);
      else this.values[slot] = joining[name](given, n, ...indices);
    }
  }

  // What f finds in a run with other numbers, which leaves this one's values as they are.
  aside(f) {
    const kept = this.values;
    this.values = kept.slice();
    const found = f();
    this.values = kept;
    return found;
  }

  // One reading backward: what arrived at each tensor. `crosses(t, x)` says whether credit may pass from t to its
  // input x; `told` hears of every contribution, and stops the pass by answering true.
  sweep(seeds, crosses, told = () => false) {
    const arrived = new Map(seeds), first = [...seeds.keys()].map((t) => this.order.get(t) ?? Infinity);
    for (let k = Math.min(...first); k < this.backward.length; k++) {
      const [t, slot, operations, edges] = this.backward[k];
      if (!arrived.has(t)) continue;
      this.values[slot] = arrived.get(t);
      this.run(operations);
      for (const [x, from, part, rate] of edges) {
        if (!crosses(t, x)) continue;
        const sent = this.values[from];
        const c = part === null ? sent : joining.put([sent], this.value(x).length, this.maps[part]);
        arrived.set(x, sum(arrived.get(x), c));
        if (told({ t, x, c, rate, sum: arrived.get(x) })) return arrived;
      }
    }
    return arrived;
  }
}

const sum = (a, b) => (a === undefined ? b : a.map((v, k) => v + b[k]));

function indexMap([kind, ...numbers]) {
  if (kind === "list") return Int32Array.from(numbers);
  let places = [numbers[0]]; // where it starts; then lengths and strides, axis by axis
  for (let k = 1; k < numbers.length; k += 2) {
    const [n, stride] = [numbers[k], numbers[k + 1]];
    places = places.flatMap((place) => Array.from({ length: n }, (_, i) => place + i * stride));
  }
  return Int32Array.from(places);
}

// Whether credit may pass, where it is cut after some steps and some tensors are held.
function crossing(program, cuts, held) {
  return (t, x) => {
    if (held.has(x) || held.has(t)) return false;
    const here = program.tensors[t][1], there = program.tensors[x][1];
    return here === null || there === null || !cuts.some((before) => (here > before) !== (there > before));
  };
}
