"use strict";
// The page computes. It carries a recorded program (see page_program.py): a list of primitives for the values, and for
// each recorded operation a list of primitives for what it sends back to its inputs. Nothing here knows a derivative.

// The primitives ------------------------------------------------------------------------------------------------------
// Arrays are flat. An index map says where entries come from or go to.

const sigmoid = (x) => 1 / (1 + Math.exp(-x));
const entryByEntry = {
  add: (a, b) => a + b, subtract: (a, b) => a - b, multiply: (a, b) => a * b, divide: (a, b) => a / b,
  power: (a, b) => a ** b, maximum: (a, b) => Math.max(a, b), minimum: (a, b) => Math.min(a, b),
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
  logsumexp: (x, n, group) => relative(x, n, group, (total, top) => Math.log(total) + top),
  softmax(x, n, group) {
    const e = exponentials(x, n, group).e, total = folded(e, n, group, (sum, v) => sum + v, 0);
    return e.map((v, k) => v / (total[group[k]] || 1)); // a fully masked row is zeros
  },
  log_softmax(x, n, group) {
    const { e, top } = exponentials(x, n, group), total = folded(e, n, group, (sum, v) => sum + v, 0);
    return x.map((v, k) => v - top[group[k]] - (total[group[k]] === 0 ? 0 : Math.log(total[group[k]])));
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
  return { top, e: x.map((v, k) => Math.exp(v - top[group[k]])) };
}
function relative(x, n, group, f) {
  const { e, top } = exponentials(x, n, group);
  return folded(e, n, group, (sum, v) => sum + v, 0).map((total, k) => f(total, top[k]));
}

const joining = {
  take: ([x], map) => Float64Array.from(map, (k) => x[k]),
  put(parts, size, ...maps) {
    const out = new Float64Array(size);
    parts.forEach((part, p) => maps[p].forEach((to, k) => { out[to] += part[k]; }));
    return out;
  },
  product(factors, size, to, ...from) { // a sum of products: every term says where it goes and where its factors stand
    const out = new Float64Array(size);
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
    this.order = new Map(this.backward.map((block, k) => [block[0], k]));
  }

  run(operations) {
    for (const [name, slot, inputs, ...rest] of operations) {
      const given = inputs.map((k) => this.values[k]);
      if (name in entryByEntry) this.values[slot] = eachEntry(entryByEntry[name], given);
      else if (name in byGroups) this.values[slot] = byGroups[name](given[0], rest[0], this.maps[rest[1]]);
      else if (name === "take") this.values[slot] = joining.take(given, this.maps[rest[0]]);
      else this.values[slot] = joining[name](given, rest[0], ...rest.slice(1).map((k) => this.maps[k]));
    }
  }

  compute() { this.run(this.forward); }

  value(t) { return this.values[this.tensors[t][0]]; }

  // One reading backward: what arrived at each tensor. crosses(t, x) says whether credit may pass from t to its input x;
  // `told` hears of every contribution, and stops the pass by answering true.
  sweep(seeds, crosses, told = () => false) {
    const arrived = new Map(seeds);
    for (let k = Math.min(...[...seeds.keys()].map((t) => this.order.get(t) ?? Infinity)); k < this.backward.length; k++) {
      const [t, slot, operations, edges] = this.backward[k];
      if (!arrived.has(t)) continue;
      this.values[slot] = arrived.get(t);
      this.run(operations);
      for (const [x, from, part, rate] of edges) {
        if (!crosses(t, x)) continue;
        const sent = this.values[from], old = arrived.get(x);
        const c = part === null ? sent : joining.put([sent], this.value(x).length, this.maps[part]);
        arrived.set(x, old ? old.map((v, i) => v + c[i]) : c);
        if (told({ t, x, c, rate, sum: arrived.get(x) })) return arrived;
      }
    }
    return arrived;
  }
}

function indexMap([kind, ...numbers]) {
  if (kind === "list") return Int32Array.from(numbers);
  let places = [numbers[0]];
  for (let k = 1; k < numbers.length; k += 2) {
    const [n, stride] = [numbers[k], numbers[k + 1]];
    places = places.flatMap((place) => Array.from({ length: n }, (_, i) => place + i * stride));
  }
  return Int32Array.from(places);
}

// Whether credit may cross from t to x, where some boundaries are cut and some tensors are held.
function crossing(program, cuts, held) {
  return (t, x) => {
    if (held.has(x) || held.has(t)) return false;
    const here = program.tensors[t][1], there = program.tensors[x][1];
    return here === null || there === null || !cuts.some((before) => (here > before) !== (there > before));
  };
}

// The page ------------------------------------------------------------------------------------------------------------

// As Python prints a number with so many digits: ties go to the even digit.
function short(v, digits) {
  if (v === 0) return "0";
  if (!Number.isFinite(v)) return Number.isNaN(v) ? "nan" : v > 0 ? "inf" : "-inf";
  const exact = v.toExponential(60), tie = new RegExp(`^-?\\d\\.\\d{${digits - 2}}[02468]50*e`).test(exact);
  const cut = exact.slice(0, digits + 1 + (v < 0));
  const rounded = tie ? cut + exact.slice(exact.indexOf("e")) : v.toExponential(digits - 1);
  const [mantissa, power] = rounded.split("e").map((part, k) => (k ? +part : part));
  if (power >= -4 && power < digits) return String(+(+rounded).toFixed(digits - 1 - power));
  return `${+mantissa}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
}
const length = (x) => byGroups.norm(x, 1, new Int32Array(x.length))[0];
const size = (x) => (x.length === 1 ? Math.abs(x[0]) : length(x));
function look(x, digits, entry) {
  if (x === undefined) return "—";
  if (entry !== undefined) return short(x[entry], digits);
  return x.length === 1 ? short(x[0], digits) : `‖${short(length(x), digits)}‖`;
}
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const byId = (id) => document.getElementById(id);

class Page {
  constructor(spec) {
    Object.assign(this, spec);
    this.programs = spec.programs.map((data) => new Program(data));
    this.state = { knobs: spec.knobs.map((k) => k.value), cuts: [], holds: [], seed: spec.seed, at: null, task: spec.task,
      rate: spec.update?.rate, clip: spec.update?.clip };
    this.cells = all("[data-cell]").map((cell) => {
      const [what, ...places] = cell.dataset.cell.split(" ");
      const digits = cell.closest("svg") ? 4 : 6;
      return { cell, what, places: places.map(Number), digits, p: +cell.closest("[data-program]").dataset.program };
    });
    this.read();
    this.bind();
    this.show();
  }

  // The controls, and the address of the page: each says what the other does ------------------------------------------

  bind() {
    const set = (change) => { change(); this.show(); this.write(); };
    const on = (selector, event, act) => all(selector).forEach((e, k) => e.addEventListener(event, () => set(() => act(e, k))));
    for (const kind of ["knob", "exact"]) {
      on(`[data-${kind}]`, "input", (e) => {
        const v = e.type === "checkbox" ? +e.checked : parseFloat(e.value);
        if (!Number.isNaN(v)) this.state.knobs[+e.dataset[kind]] = v;
      });
    }
    for (const [attribute, list] of [["cut", "cuts"], ["hold", "holds"]]) {
      on(`[data-${attribute}]`, "input", () => {
        this.state[list] = all(`[data-${attribute}]`).filter((e) => e.checked).map((e) => +e.dataset[attribute]);
      });
    }
    for (const name of ["rate", "clip", "seed"]) on(`#${name}`, "input", (e) => { this.state[name] = e.value === "" ? null : +e.value; });
    for (const event of ["mouseenter", "focus"]) on("[data-seed]", event, (e) => { this.state.seed = +e.dataset.seed; });
    on("[data-preset]", "click", (e) => this.choose(this.presets[+e.dataset.preset]));
    on("#update", "click", () => this.take());
    on("#reset", "click", () => Object.assign(this.state, { knobs: this.knobs.map((k) => k.value), cuts: [], holds: [], at: null }));
    on("[data-go]", "click", (e) => this.go(e.dataset.go));
    byId("stepper")?.addEventListener("keydown", (event) => {
      const go = { ArrowRight: "1", ArrowLeft: "-1", Home: "first", End: "last", Escape: "leave" }[event.key];
      if (go) { event.preventDefault(); set(() => this.go(go)); }
    });
    addEventListener("hashchange", () => { if (location.hash.slice(1) !== this.written) { this.read(); this.show(); } });
  }
  choose(preset) {
    for (const [k, v] of Object.entries(preset.set)) this.state.knobs[k] = v;
    if (preset.task) this.state.task = preset.task;
    this.says = preset.says;
  }
  read() {
    const said = new URLSearchParams(location.hash.slice(1)), state = this.state;
    const numbers = (name) => (said.get(name) || "").split(",").filter(Boolean).map(Number);
    this.knobs.forEach((k, i) => {
      const v = said.has(`k${i}`) ? Number(said.get(`k${i}`)) : k.value;
      state.knobs[i] = Number.isNaN(v) ? k.value : v;
    });
    [state.cuts, state.holds] = [numbers("cut").filter((k) => k in this.cuts), numbers("hold").filter((k) => k in this.holds)];
    for (const name of ["rate", "clip", "seed", "at"]) if (Number.isFinite(parseFloat(said.get(name)))) state[name] = +said.get(name);
    if (!(state.seed in (this.seeds ?? []))) state.seed = this.seed;
    if (this.presets?.some((preset) => preset.task === said.get("task"))) state.task = said.get("task");
  }
  write() {
    const { knobs, cuts, holds, at, seed, rate, clip, task } = this.state, said = new URLSearchParams();
    knobs.forEach((v, i) => { if (v !== this.knobs[i].value) said.set(`k${i}`, v); });
    if (cuts.length) said.set("cut", cuts);
    if (holds.length) said.set("hold", holds);
    const rest = [["at", at, null], ["seed", seed, this.seed], ["rate", rate, this.update?.rate], ["clip", clip, this.update?.clip], ["task", task, this.task]];
    for (const [name, v, usual] of rest) if (v !== usual && v !== null && v !== undefined) said.set(name, v);
    this.written = said.toString();
    history.replaceState(null, "", `#${this.written}`);
  }

  // What is computed when something changes ---------------------------------------------------------------------------

  show() {
    this.found = this.programs.map((program, p) => this.computed(program, p));
    for (const cell of this.cells) cell.cell.textContent = this.text(cell);
    this.programs.forEach((program, p) => this.draw(program, this.found[p], this.drawings[p]));
    this.controls();
    this.stepper();
    this.lights();
    this.shades();
    all("[data-chart]").forEach((svg) => drawChart(svg, this.charts[+svg.dataset.chart], this.found));
  }

  computed(program, p) {
    const { knobs, cuts, holds, seed, at } = this.state;
    this.knobs.forEach((knob, k) => {
      for (const [q, t, entry] of knob.places) {
        if (q !== p) continue;
        const x = Float64Array.from(program.value(t));
        x[entry] = knobs[k];
        program.values[program.tensors[t][0]] = x;
      }
    });
    program.compute();
    const boundaries = cuts.map((k) => this.cuts[k][0]), held = new Set(holds.flatMap((k) => this.holds[k].tensors[p]));
    const from = this.seeds ? this.seeds[seed].tensors[p] : program.result;
    const found = { program, held, crosses: crossing(program, boundaries, held), sent: [] };
    const seeds = new Map([[from, new Float64Array(program.value(from).length).fill(1)]]);
    if (held.has(from)) seeds.clear();
    const told = (contribution) => { found.sent.push(contribution); return false; };
    found.arrived = program.sweep(seeds, found.crosses, told);
    found.uses = usesByStep(program, found.sent);
    if (this.update) found.after = this.moved(program, found, this.update.tensors[p]);
    if (p === 0 && at !== null) this.stopped(program, found, seeds);
    return found;
  }

  // The values after one step against the gradient, whose length may be clipped.
  moved(program, found, tensors) {
    const before = program.values.slice(), { rate, clip } = this.state;
    const gradients = tensors.map((t) => found.arrived.get(t) ?? new Float64Array(program.value(t).length));
    const total = Math.hypot(...gradients.map(length)), factor = clip > 0 && total > clip ? clip / total : 1;
    found.norm = total;
    tensors.forEach((t, k) => {
      program.values[program.tensors[t][0]] = program.value(t).map((v, i) => v - rate * factor * gradients[k][i]);
    });
    program.compute();
    const after = program.values;
    program.values = before;
    return after;
  }
  take() { // the update itself: the knobs go where it leads
    this.knobs.forEach((knob, k) => {
      const [p, t, entry] = knob.places[0];
      if (this.update.tensors[p].includes(t)) this.state.knobs[k] = this.found[p].after[this.programs[p].tensors[t][0]][entry];
    });
  }

  text({ what, places: [t, entry, held], digits, p, cell }) {
    const found = this.found[p], { program } = found, hidden = p === 0 && this.state.at !== null && t > this.last;
    if (what === "value") return hidden ? "·" : look(program.value(t), digits, entry);
    if (what === "credit") return look(found.arrived.get(t), digits, entry);
    if (what === "after") return look(found.after[program.tensors[t][0]], digits, entry);
    if (what === "norm") return short(found.norm, digits);
    if (what === "use") return look(found.uses.get(t)?.get(entry), digits);
    if (what === "sum") return (cell.closest("svg") ? "= " : "") + look(found.arrived.get(t) ?? new Float64Array(program.value(t).length), digits);
    if (what === "route") return look(route(found, t, entry), digits);
    if (what === "rate") { // of t by x, with another one held
      const crosses = (u, x) => found.crosses(u, x) && x !== held;
      return look(program.sweep(new Map([[t, new Float64Array(program.value(t).length).fill(1)]]), crosses).get(entry), digits);
    }
    if (what === "low" || what === "high") return short(Math[what === "low" ? "min" : "max"](...rows(found.arrived.get(t), entry)), digits);
    // nudges: t is what was added to a tensor, and was 0
    const loss = program.value(program.result)[0], delta = program.value(t), before = program.values;
    program.values = before.slice();
    program.values[program.tensors[t][0]] = new Float64Array(delta.length);
    program.compute();
    const credit = program.sweep(new Map([[program.result, Float64Array.of(1)]]), found.crosses).get(t) ?? [0];
    const linear = credit[0] * delta[0], change = loss - program.value(program.result)[0];
    program.values = before;
    return short({ linear, change, left: change - linear }[what], digits);
  }

  // What the page shows -----------------------------------------------------------------------------------------------

  draw(program, found, drawing) {
    const svg = drawing && document.querySelector(`[data-program="${program === this.programs[0] ? 0 : this.programs.indexOf(program)}"] svg.unrolled`);
    if (!svg) return;
    const drawn = new Set([...drawing.nodes, ...drawing.shared]), credit = new Map();
    for (const t of new Set(drawing.edges.map(([, target]) => target))) {
      if (found.arrived.has(t)) credit.set(t, program.sweep(new Map([[t, found.arrived.get(t)]]), (u, x) => (u === t || !drawn.has(u)) && found.crosses(u, x)));
    }
    const credits = drawing.edges.map(([source, target]) => credit.get(target)?.get(source));
    const sizes = credits.map((c) => (c ? size(c) : 0)), largest = Math.max(0, ...sizes.filter(Number.isFinite));
    for (const group of all("[data-edge]", svg)) {
      const k = +group.dataset.edge, [path, head] = all("path", group), carries = sizes[k] > 0 || Number.isNaN(sizes[k]);
      const share = Number.isFinite(sizes[k]) ? Math.max(1 + Math.log10(sizes[k] / largest) / 4, 0) : 1; // four decades
      path.classList.toggle("value", !carries);
      path.style.strokeWidth = carries ? 0.75 + 4.25 * share : 1;
      path.style.opacity = carries ? 0.35 + 0.65 * share : 1;
      if (head) head.style.display = carries ? "" : "none";
      const title = group.querySelector("title");
      if (title) title.textContent = title.textContent.replace(/: [^:]*$/, `: ${carries ? `credit ${look(credits[k], 4)}` : credits[k] ? "credit 0" : "the value crosses, the credit does not"}`);
    }
    for (const group of all("[data-node]", svg)) {
      const t = drawing.nodes[+group.dataset.node];
      group.querySelector("rect")?.classList.toggle("held", found.held.has(t));
      group.classList.toggle("now", this.state.at !== null && this.now?.includes(t));
    }
    all(".on-page", svg).forEach((line) => line.remove());
    for (const k of this.state.cuts) {
      const column = svg.querySelector(`[data-step="${this.cuts[k][1]}"]`);
      if (!column) continue;
      const x = +column.getAttribute("x") - 2, line = svgElement("line", { class: "cut on-page", x1: x, x2: x, y1: 0, y2: +column.getAttribute("height") + 6 });
      svg.append(line);
    }
  }

  controls() {
    const { knobs, cuts, holds, seed, rate, clip, at } = this.state;
    for (const e of all("[data-knob], [data-exact]")) {
      const k = +(e.dataset.knob ?? e.dataset.exact), v = knobs[k];
      if (e.type === "checkbox") e.checked = v !== 0;
      else if (document.activeElement !== e || parseFloat(e.value) !== v) e.value = e.type === "range" ? v : +v.toPrecision(12);
      if (e.type === "range") e.setAttribute("aria-valuetext", `${this.knobs[k].label} = ${short(v, 6)}`);
    }
    for (const e of all("[data-cut]")) e.checked = cuts.includes(+e.dataset.cut);
    for (const e of all("[data-hold]")) e.checked = holds.includes(+e.dataset.hold);
    for (const [name, v] of [["rate", rate], ["clip", clip], ["seed", seed]]) {
      const e = byId(name);
      if (e && document.activeElement !== e) e.value = v ?? "";
    }
    if (byId("seed")) byId("seed").setAttribute("aria-valuetext", this.seeds[seed].label);
    all(".seed-says").forEach((e) => { e.textContent = this.seeds[seed].label; });
    const last = this.drawings[0] && this.programs[0].tensors.length;
    all(".preset-says").forEach((e) => { e.textContent = this.says ?? e.textContent; });
    if (byId("where")) byId("where").hidden = at === null && !last;
  }

  // Step by step ------------------------------------------------------------------------------------------------------

  go(where) {
    const last = this.events, at = this.state.at ?? 0;
    const to = { first: 1, last, leave: null };
    this.state.at = where in to ? to[where] : Math.min(Math.max(at + Number(where), 1), last);
  }
  stopped(program, found, seeds) {
    const forward = program.forwardTensors ??= program.tensors.map((_, t) => t).filter((t) => program.tensors[t][3]);
    this.events = forward.length + found.sent.length;
    this.state.at = Math.min(this.state.at, this.events);
    const { at } = this.state, back = at - forward.length;
    this.last = back >= 0 ? Infinity : forward[at - 1] ?? -1;
    const name = (t) => program.tensors[t][2];
    if (back <= 0) {
      found.arrived = back < 0 ? new Map() : new Map(seeds);
      this.now = [forward[at - 1]];
      const t = forward[at - 1], step = program.tensors[t][1];
      this.sentence = `Forward${step === null ? "" : `, step ${step}`}: ${name(t)} = ${program.tensors[t][3]} = ${look(program.value(t), 6)}`;
    } else {
      const { t, x, c, rate, sum } = found.sent[back - 1], g = found.arrived.get(t);
      let left = back;
      found.arrived = program.sweep(seeds, found.crosses, () => (left -= 1) === 0);
      found.sent = found.sent.slice(0, back);
      found.uses = usesByStep(program, found.sent);
      this.now = [t, x];
      this.sentence = `Back, from ${name(t)} = ${program.tensors[t][3]} to ${name(x)}: ${look(g, 6)} arrived, times the local rate (${program.rates[rate]}): ${look(c, 6)} is added to ${name(x)}, which has ${look(sum, 6)} so far`;
    }
  }
  stepper() {
    const box = byId("stepper");
    if (!box) return;
    const { program, sent } = this.found[0], { at } = this.state;
    if (at === null) this.events = program.tensors.filter((t) => t[3]).length + sent.length;
    byId("says").textContent = at === null ? `${this.events} things happen, one after another.` : `${at} of ${this.events}. ${this.sentence}.`;
  }

  lights() {
    if (!this.tasks) return;
    const { pairs, says } = this.tasks[this.state.task], value = ([p, t]) => this.programs[p].value(t)[0];
    const right = pairs.map(([state, target]) => Math.abs(value(state) - value(target)) < 0.1), wrong = right.indexOf(false);
    all("[data-light]").forEach((e, k) => {
      e.textContent = right[k] ? "● right" : "○ wrong";
      e.className = right[k] ? "right" : "wrong";
    });
    all("[data-target]").forEach((e, k) => { e.textContent = short(value(pairs[k][1]), 4); });
    byId("light").textContent = `${says} ${wrong < 0 ? "Every step is right." : `The first step that goes wrong: ${wrong + 1}.`}`;
  }
  shades() {
    const marks = all("[data-shade]"), { arrived } = this.found[0];
    const amounts = marks.map((e) => (arrived.has(+e.dataset.shade) ? length(arrived.get(+e.dataset.shade)) : 0));
    const largest = Math.max(...amounts) || 1;
    marks.forEach((e, k) => {
      e.style.setProperty("--share", `${Math.round(100 * amounts[k] / largest)}%`);
      e.title = `credit ${short(amounts[k], 3)}`;
      e.classList.toggle("chosen", +e.dataset.seed === this.state.seed);
    });
  }
}

// What the uses of each tensor give, by the step in which they are. A copy (a transposed or joined weight) is looked through.
function usesByStep(program, sent) {
  const uses = new Map(), copies = new Set(program.copies);
  const add = (x, step, c) => {
    if (!uses.has(x)) uses.set(x, new Map());
    const old = uses.get(x).get(step);
    uses.get(x).set(step, old ? old.map((v, i) => v + c[i]) : c);
  };
  for (const { t, x, c } of sent) {
    if (!copies.has(t) || !uses.has(t)) { add(x, program.tensors[t][1] ?? NaN, c); continue; }
    for (const [step, g] of uses.get(t)) {
      program.sweep(new Map([[t, g]]), (u) => u === t, (told) => { if (told.x === x) add(x, step, told.c); return false; });
    }
  }
  return uses;
}
// What arrives at x by way of t alone.
function route({ program, arrived, crosses }, t, x) {
  return arrived.has(t) ? program.sweep(new Map([[t, arrived.get(t)]]), crosses).get(x) : undefined;
}
const rows = (x, n) => Array.from({ length: n }, (_, k) => length((x ?? new Float64Array(n)).slice((k * x?.length) / n, ((k + 1) * x?.length) / n)));

function svgElement(name, attributes, text = "") {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, v] of Object.entries(attributes)) e.setAttribute(key, v);
  e.textContent = text;
  return e;
}
function ticks(from, to, whole) {
  const step = whole ? Math.max(Math.ceil((to - from) / 5), 1) : (to - from) / 4;
  return Array.from({ length: 6 }, (_, k) => (whole ? Math.ceil(from) : from) + k * step).filter((v) => v <= to + 1e-9);
}
// Lines over the distance: values or credits, or the band of the rows of a credit, on a scale of powers of ten if asked for.
function drawChart(svg, { lines, log, low, high }, found) {
  const width = 640, height = 300, left = 52, bottom = 270, top = 10;
  const points = lines.map(({ p, tensors, what, rows: n }) => tensors.map((t) => {
    const x = what === "credit" ? found[p].arrived.get(t) : found[p].program.value(t);
    return n ? rows(x, n) : [x ? size(x) * (x.length === 1 ? Math.sign(x[0]) || 1 : 1) : 0];
  }));
  const scale = log ? (v) => Math.log10(Math.max(Math.abs(v), 1e-300)) : (v) => v;
  const seen = points.flat(2).map(scale).filter(Number.isFinite), from = low ?? Math.min(0, ...seen), to = high ?? Math.max(log ? 0 : 1e-9, ...seen);
  const n = Math.max(...points.map((line) => line.length)) - 1, at = (k) => (left + (k / n) * (width - left - 10)).toFixed(1);
  const y = (v) => Math.min(Math.max(bottom - ((scale(v) - from) / (to - from || 1)) * (bottom - top), top), bottom).toFixed(1);
  svg.replaceChildren();
  for (const v of ticks(from, to, log)) {
    const place = bottom - ((v - from) / (to - from || 1)) * (bottom - top);
    svg.append(svgElement("line", { class: "grid", x1: left, x2: width - 10, y1: place, y2: place }));
    svg.append(svgElement("text", { x: left - 6, y: place + 4, class: "tick" }, log ? `1e${v}` : short(v, 3)));
  }
  for (const k of ticks(0, n, true)) svg.append(svgElement("text", { x: at(k), y: bottom + 18, class: "tick middle" }, String(k)));
  points.forEach((line, k) => {
    const upper = line.map((v, i) => `${at(i)} ${y(Math.max(...v))}`), lower = line.map((v, i) => `${at(i)} ${y(Math.min(...v))}`);
    const band = lines[k].rows ? `L${lower.reverse().join("L")}z` : "";
    svg.append(svgElement("path", { class: `line line-${k}${band ? " band" : ""}`, d: `M${upper.join("L")}${band}` }));
  });
}

if (typeof document !== "undefined") globalThis.page = new Page(JSON.parse(byId("data").textContent));
