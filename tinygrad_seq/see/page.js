// What the page does with its programs. page.py writes the HTML, in which data-cell, data-knob, data-edge … say what is
// what; whenever something changes, all is computed anew and every cell is written.

const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const byId = (id) => document.getElementById(id);
const ones = (x) => new Float64Array(x.length).fill(1);
const length = (x) => byGroups.norm(x, 1, new Int32Array(x.length))[0];
const size = (x) => (x.length === 1 ? Math.abs(x[0]) : length(x));

// As Python prints a number with so many digits: ties go to the even digit.
function short(v, digits) {
  if (v === 0) return "0";
  if (!Number.isFinite(v)) return Number.isNaN(v) ? "nan" : v > 0 ? "inf" : "-inf";
  const exact = v.toExponential(60), tie = new RegExp(`^-?\\d\\.\\d{${digits - 2}}[02468]50*e`).test(exact);
  const cut = exact.slice(0, digits + 1 + (v < 0)) + exact.slice(exact.indexOf("e"));
  const rounded = tie ? cut : v.toExponential(digits - 1), power = Number(rounded.split("e")[1]);
  if (power >= -4 && power < digits) return String(Number(Number(rounded).toFixed(digits - 1 - power)));
  return `${Number(rounded.split("e")[0])}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
}

// A number, an entry, or the norm of an array; a dash where nothing arrived.
function look(x, digits, entry) {
  if (x === undefined) return "—";
  if (entry !== undefined) return short(x[entry], digits);
  return x.length === 1 ? short(x[0], digits) : `‖${short(length(x), digits)}‖`;
}

class Page {
  constructor(spec) {
    Object.assign(this, spec);
    this.programs = spec.programs.map((data) => new Program(data));
    this.state = { cuts: [], holds: [], at: null, ...this.usual() };
    this.cells = all("[data-cell]").map((cell) => {
      const [what, ...places] = cell.dataset.cell.split(" "), drawn = cell.closest("svg") !== null;
      return { cell, what, places: places.map(Number), drawn, p: +cell.closest("[data-program]").dataset.program };
    });
    this.read();
    this.bind();
    this.show();
  }

  usual() { // what the page begins with
    const { seed, task, update } = this;
    return { knobs: this.knobs.map((knob) => knob.value), seed, task, rate: update?.rate, clip: update?.clip };
  }

  // The controls, and the address of the page: each says what the other does ------------------------------------------

  bind() {
    const { state } = this;
    const on = (selector, event, act) => {
      for (const e of all(selector)) e.addEventListener(event, () => { act(e); this.show(); this.write(); });
    };
    for (const kind of ["knob", "exact"]) {
      on(`[data-${kind}]`, "input", (e) => {
        const v = e.type === "checkbox" ? Number(e.checked) : parseFloat(e.value);
        if (!Number.isNaN(v)) state.knobs[e.dataset[kind]] = v;
      });
    }
    for (const [kind, list] of [["cut", "cuts"], ["hold", "holds"]]) {
      on(`[data-${kind}]`, "input", () => {
        state[list] = all(`[data-${kind}]`).filter((e) => e.checked).map((e) => +e.dataset[kind]);
      });
    }
    for (const name of ["rate", "clip", "seed"]) {
      on(`#${name}`, "input", (e) => { if (e.value !== "") state[name] = +e.value; });
    }
    for (const event of ["mouseenter", "focus"]) on("[data-seed]", event, (e) => { state.seed = +e.dataset.seed; });
    on("[data-preset]", "click", (e) => this.choose(this.presets[e.dataset.preset]));
    on("#update", "click", () => this.take());
    on("#reset", "click", () => Object.assign(state, this.usual(), { cuts: [], holds: [], at: null }));
    on("[data-go]", "click", (e) => this.go(e.dataset.go));
    byId("stepper")?.addEventListener("keydown", (event) => {
      const to = { ArrowRight: "1", ArrowLeft: "-1", Home: "first", End: "last", Escape: "leave" }[event.key];
      if (!to) return;
      event.preventDefault();
      this.go(to);
      this.show();
      this.write();
    });
    addEventListener("hashchange", () => {
      if (location.hash.slice(1) === this.written) return;
      this.read();
      this.show();
    });
  }

  choose({ set, task, says }) {
    for (const [k, v] of Object.entries(set)) this.state.knobs[k] = v;
    this.state.task = task ?? this.state.task;
    all(".preset-says").forEach((e) => { e.textContent = says; });
  }

  read() {
    const said = new URLSearchParams(location.hash.slice(1)), { state } = this;
    const number = (name, otherwise) => {
      const v = parseFloat(said.get(name));
      return Number.isFinite(v) ? v : otherwise;
    };
    const places = (name, list) => (said.get(name) ?? "").split(",").filter((k) => k in list).map(Number);
    Object.assign(state, this.usual(), { cuts: places("cut", this.cuts), holds: places("hold", this.holds) });
    state.knobs = state.knobs.map((v, k) => number(`k${k}`, v));
    for (const name of ["rate", "clip", "seed"]) state[name] = number(name, state[name]);
    state.at = number("at", null);
    if (!(state.seed in (this.seeds ?? []))) state.seed = this.seed;
    if (said.get("task") in (this.tasks ?? {})) state.task = said.get("task");
  }

  write() {
    const said = new URLSearchParams(), { state } = this, usual = this.usual();
    state.knobs.forEach((v, k) => { if (v !== usual.knobs[k]) said.set(`k${k}`, v); });
    for (const [name, list] of [["cut", state.cuts], ["hold", state.holds]]) if (list.length) said.set(name, list);
    for (const name of ["rate", "clip", "seed", "task"]) if (state[name] !== usual[name]) said.set(name, state[name]);
    if (state.at !== null) said.set("at", state.at);
    this.written = said.toString();
    if (location.protocol !== "about:") history.replaceState(null, "", `#${this.written}`); // a notebook's has none
  }

  // What is computed when something changes ---------------------------------------------------------------------------

  show() {
    this.found = this.programs.map((program, p) => this.computed(program, p));
    for (const cell of this.cells) cell.cell.textContent = this.text(cell, this.found[cell.p]);
    this.found.forEach((found, p) => this.draw(found, p));
    this.controls();
    this.lights();
    this.shades();
    for (const svg of all("[data-chart]")) drawChart(svg, this.charts[svg.dataset.chart], this.found);
  }

  computed(program, p) {
    const { state } = this;
    this.knobs.forEach(({ places }, k) => {
      for (const [, t, entry] of places.filter(([q]) => q === p)) {
        const x = Float64Array.from(program.value(t));
        x[entry] = state.knobs[k];
        program.set(t, x);
      }
    });
    program.run(program.forward);
    const held = new Set(state.holds.flatMap((k) => this.holds[k].tensors[p]));
    const crosses = crossing(program, state.cuts.map((k) => this.cuts[k][0]), held);
    const asked = this.seeds ? this.seeds[state.seed].tensors[p] : program.result;
    const seeds = new Map(held.has(asked) ? [] : [[asked, ones(program.value(asked))]]);
    const found = { program, held, crosses, sent: [] };
    found.arrived = program.sweep(seeds, crosses, (contribution) => { found.sent.push(contribution); });
    if (this.update) this.descend(found, this.update.tensors[p]);
    if (p === 0) this.stop(found, seeds);
    found.uses = usesByStep(program, found.sent);
    return found;
  }

  // The values after one step against the gradient, whose length may be clipped.
  descend(found, tensors) {
    const { program, arrived } = found, { rate, clip } = this.state;
    const gradients = tensors.map((t) => arrived.get(t) ?? new Float64Array(program.value(t).length));
    found.norm = Math.hypot(...gradients.map(length));
    const factor = rate * (clip > 0 && found.norm > clip ? clip / found.norm : 1);
    found.after = program.aside(() => {
      tensors.forEach((t, k) => program.set(t, program.value(t).map((v, i) => v - factor * gradients[k][i])));
      program.run(program.forward);
      return program.values;
    });
  }

  take() { // the step itself: the knobs go where it leads
    this.knobs.forEach(({ places: [[p, t, entry]] }, k) => {
      const { program, after } = this.found[p];
      if (this.update.tensors[p].includes(t)) this.state.knobs[k] = after[program.tensors[t][0]][entry];
    });
  }

  text({ what, places: [t, x, held], drawn, p }, found) {
    const { program, arrived, crosses } = found, digits = drawn ? 4 : 6;
    const later = p === 0 && t > this.last; // the stepper has not come to it
    if (what === "value") return later ? "·" : look(program.value(t), digits, x);
    if (what === "credit") return look(arrived.get(t), digits, x);
    if (what === "after") return look(found.after[program.tensors[t][0]], digits, x);
    if (what === "norm") return short(found.norm, digits);
    if (what === "use") return look(found.uses.get(t)?.get(x), digits);
    if (what === "sum") return (drawn ? "= " : "") + look(arrived.get(t) ?? program.value(t).map(() => 0), digits);
    if (what === "low") return short(Math.min(...rows(arrived.get(t), x)), digits);
    if (what === "high") return short(Math.max(...rows(arrived.get(t), x)), digits);
    if (what === "route") { // what arrives at x by way of t alone
      return look(arrived.has(t) ? program.sweep(new Map([[t, arrived.get(t)]]), crosses).get(x) : undefined, digits);
    }
    if (what === "rate") { // of t by x, with another one held
      const open = (u, v) => crosses(u, v) && v !== held;
      return look(program.sweep(new Map([[t, ones(program.value(t))]]), open).get(x), digits);
    }
    return short(this.pushed(found, t)[what], digits);
  }

  // t is what was added to a tensor: what the gradient without it foretold, what it does to the loss, what is left.
  pushed({ program, crosses }, t) {
    const loss = () => program.value(program.result), delta = program.value(t), pushed = loss()[0];
    return program.aside(() => {
      program.set(t, delta.map(() => 0));
      program.run(program.forward);
      const credit = program.sweep(new Map([[program.result, ones(loss())]]), crosses).get(t) ?? [0];
      const linear = credit[0] * delta[0], change = pushed - loss()[0];
      return { linear, change, left: change - linear };
    });
  }

  // Step by step: forward, one operation after another, then back, one contribution after another ---------------------

  go(where) {
    const at = Math.max(1, Math.min((this.state.at ?? 0) + Number(where), this.events));
    this.state.at = { first: 1, last: this.events, leave: null }[where] ?? (where === "leave" ? null : at);
  }

  stop(found, seeds) {
    const { program, sent } = found, { state } = this;
    const forward = program.tensors.map((_, t) => t).filter((t) => program.tensors[t][3]);
    this.events = forward.length + sent.length;
    [this.last, this.now, this.says] = [Infinity, [], `${this.events} things happen, one after another.`];
    if (state.at === null) return;
    state.at = Math.max(1, Math.min(Math.round(state.at), this.events));
    const back = state.at - forward.length, name = (t) => program.tensors[t][2];
    if (back <= 0) {
      const t = forward[state.at - 1], [, step, , equation] = program.tensors[t];
      [this.last, this.now, found.arrived, found.sent] = [t, [t], back < 0 ? new Map() : new Map(seeds), []];
      const where = step === null ? "" : `, step ${step}`;
      this.says = `Forward${where}: ${name(t)} = ${equation} = ${look(program.value(t), 6)}.`;
    } else {
      const { t, x, c, rate, sum } = sent[back - 1], g = found.arrived.get(t);
      [this.now, found.sent] = [[t, x], sent.slice(0, back)];
      let left = back;
      found.arrived = program.sweep(seeds, found.crosses, () => --left === 0);
      this.says = `Back, from ${name(t)} = ${program.tensors[t][3]} to ${name(x)}: ${look(g, 6)} arrived, times the `
        + `local rate (${program.rates[rate]}): ${look(c, 6)} is added to ${name(x)}, `
        + `which has ${look(sum, 6)} so far.`;
    }
    this.says = `${state.at} of ${this.events}. ${this.says}`;
  }

  // What the page shows -----------------------------------------------------------------------------------------------

  draw({ program, arrived, crosses, held }, p) {
    const drawing = this.drawings[p];
    if (!drawing) return;
    const svg = document.querySelector(`section[data-program="${p}"] svg.unrolled`);
    const drawn = new Set([...drawing.nodes, ...drawing.shared]), passes = new Map();
    for (const t of new Set(drawing.edges.map(([, target]) => target))) { // through what is not drawn
      if (!arrived.has(t)) continue;
      const between = (u, x) => (u === t || !drawn.has(u)) && crosses(u, x);
      passes.set(t, program.sweep(new Map([[t, arrived.get(t)]]), between));
    }
    const credits = drawing.edges.map(([source, target]) => passes.get(target)?.get(source));
    const sizes = credits.map((c) => (c ? size(c) : 0)), largest = Math.max(0, ...sizes.filter(Number.isFinite));
    for (const group of all("[data-edge]", svg)) {
      const k = +group.dataset.edge, [path, head] = all("path", group), title = group.querySelector("title");
      if (drawing.edges[k].includes(-1)) continue; // from a constant, or from what stands for several
      const carries = sizes[k] !== 0, finite = Number.isFinite(sizes[k]);
      const share = finite ? Math.max(1 + Math.log10(sizes[k] / largest) / 4, 0) : 1; // over four decades
      path.classList.toggle("value", !carries);
      path.style.strokeWidth = carries ? 0.9 + 4.1 * share : 1.2;
      if (head) head.style.display = carries ? "" : "none";
      const none = credits[k] ? "credit 0" : "the value crosses, the credit does not";
      const says = carries ? `credit ${look(credits[k], 4)}` : none;
      if (title) title.textContent = title.textContent.replace(/[^:]*$/, ` ${says}`);
    }
    const now = this.now.map((t) => drawing.owners[t]);
    for (const group of all("[data-node]", svg)) {
      const t = drawing.nodes[group.dataset.node];
      group.querySelector("rect")?.classList.toggle("held", held.has(t));
      group.classList.toggle("now", now.includes(t));
    }
    for (const line of all(".on-page", svg)) line.remove();
    for (const k of this.state.cuts) {
      const column = svg.querySelector(`[data-step="${this.cuts[k][1]}"]`);
      if (!column) continue;
      const x = column.getAttribute("x") - 2, y2 = +column.getAttribute("height") + 6;
      svg.append(svgElement("line", { class: "cut on-page", x1: x, x2: x, y1: 0, y2 }));
    }
  }

  controls() {
    const { state } = this, free = (e) => document.activeElement !== e;
    for (const e of all("[data-knob], [data-exact]")) {
      const k = e.dataset.knob ?? e.dataset.exact, v = state.knobs[k];
      if (e.type === "checkbox") e.checked = v !== 0;
      else if (e.type === "range") e.value = v;
      else if (free(e) || parseFloat(e.value) !== v) e.value = +v.toPrecision(12);
      if (e.type === "range") e.setAttribute("aria-valuetext", `${this.knobs[k].label} = ${short(v, 6)}`);
    }
    for (const e of all("[data-cut]")) e.checked = state.cuts.includes(+e.dataset.cut);
    for (const e of all("[data-hold]")) e.checked = state.holds.includes(+e.dataset.hold);
    for (const name of ["rate", "clip", "seed"]) if (byId(name) && free(byId(name))) byId(name).value = state[name];
    if (this.seeds) {
      byId("seed")?.setAttribute("aria-valuetext", this.seeds[state.seed].label);
      for (const e of all(".seed-says")) e.textContent = this.seeds[state.seed].label;
    }
    if (byId("says")) byId("says").textContent = this.says;
  }

  // Of a machine with a task: at which steps its state is what it should be.
  lights() {
    if (!this.tasks) return;
    const { pairs, says } = this.tasks[this.state.task], value = ([p, t]) => this.programs[p].value(t)[0];
    const right = pairs.map(([state, target]) => Math.abs(value(state) - value(target)) < 0.1);
    all("[data-light]").forEach((e, k) => {
      e.textContent = right[k] ? "● right" : "○ wrong";
      e.className = right[k] ? "right" : "wrong";
    });
    all("[data-target]").forEach((e, k) => { e.textContent = short(value(pairs[k][1]), 4); });
    const wrong = right.indexOf(false) + 1;
    const verdict = wrong ? `The first step that goes wrong: ${wrong}.` : "Every step is right.";
    byId("light").textContent = `${says} ${verdict}`;
  }

  // Of a text: each character by how much credit it gets.
  shades() {
    const marks = all("[data-shade]"), { arrived } = this.found[0];
    const amounts = marks.map((e) => (arrived.has(+e.dataset.shade) ? length(arrived.get(+e.dataset.shade)) : 0));
    const largest = Math.max(...amounts) || 1;
    marks.forEach((e, k) => {
      e.style.setProperty("--share", `${Math.round(100 * amounts[k] / largest)}%`);
      e.title = `credit ${short(amounts[k], 3)}`;
    });
    for (const e of all("[data-seed]")) e.classList.toggle("chosen", +e.dataset.seed === this.state.seed);
  }
}

// What the uses of each tensor give, by the step they are in. A copy (a transposed or joined weight) is looked through.
function usesByStep(program, sent) {
  const uses = new Map(), copies = new Set(program.copies), seen = new Set();
  const add = (x, step, c) => {
    if (!uses.has(x)) uses.set(x, new Map());
    uses.get(x).set(step, sum(uses.get(x).get(step), c));
  };
  for (const { t, x, c } of sent) {
    const step = program.tensors[t][1] ?? NaN;
    if (!copies.has(t) || !uses.has(t)) add(x, step, c);
    else if (!seen.has(`${t} ${x}`)) { // all that it sends to x at once
      seen.add(`${t} ${x}`);
      for (const [at, g] of uses.get(t)) add(x, at, program.sweep(new Map([[t, g]]), (u) => u === t).get(x));
    }
  }
  return uses;
}

// The lengths of the rows of a credit, which is an array of so many.
function rows(x, n) {
  if (x === undefined) return new Array(n).fill(0);
  return Array.from({ length: n }, (_, k) => length(x.slice((k * x.length) / n, ((k + 1) * x.length) / n)));
}

function svgElement(name, attributes, text = "") {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, v] of Object.entries(attributes)) e.setAttribute(key, v);
  e.textContent = text;
  return e;
}

function ticks(from, to, whole) {
  const first = whole ? Math.ceil(from) : from;
  const step = whole ? Math.max(Math.ceil((to - from) / 5), 1) : (to - from) / 4;
  return Array.from({ length: 6 }, (_, k) => first + k * step).filter((v) => v <= to + 1e-9);
}

// Lines from place to place: values or credits, or the band of the rows of a credit; in powers of ten if asked for.
function drawChart(svg, { lines, log, low, high, first = 0 }, found) {
  const left = 66, right = 620, top = 10, bottom = 270;
  const points = lines.map(({ p, tensors, what, rows: n }) => tensors.map((t) => {
    const x = what === "credit" ? found[p].arrived.get(t) : found[p].program.value(t);
    return n ? rows(x, n) : [x === undefined ? 0 : x.length === 1 ? x[0] : length(x)];
  }));
  const scaled = (v) => (log ? Math.log10(Math.max(Math.abs(v), 1e-300)) : v);
  const seen = points.flat(2).map(scaled).filter(Number.isFinite);
  const n = Math.max(...points.map((line) => line.length)) - 1;
  const from = low ?? Math.min(0, ...seen), to = high ?? Math.max(log ? 0 : 1e-9, ...seen);
  const across = (k) => left + (k / n) * (right - left);
  const up = (v) => Math.min(Math.max(bottom - ((v - from) / (to - from || 1)) * (bottom - top), top), bottom);
  const corner = (v, k) => `${across(k).toFixed(1)} ${up(scaled(v)).toFixed(1)}`;
  svg.replaceChildren();
  for (const v of ticks(from, to, log)) {
    svg.append(svgElement("line", { class: "grid", x1: left, x2: right, y1: up(v), y2: up(v) }));
    svg.append(svgElement("text", { x: left - 6, y: up(v) + 4 }, log ? `1e${v}` : short(v, 3)));
  }
  for (const k of ticks(0, n, true)) {
    svg.append(svgElement("text", { x: across(k), y: bottom + 18, class: "middle" }, String(k + first)));
  }
  points.forEach((line, k) => {
    const upper = line.map((v, i) => corner(Math.max(...v), i)).join("L");
    const lower = line.map((v, i) => corner(Math.min(...v), i)).reverse().join("L");
    const d = lines[k].rows ? `M${upper}L${lower}z` : `M${upper}`;
    svg.append(svgElement("path", { class: `line line-${k}${lines[k].rows ? " band" : ""}`, d }));
  });
}

if (typeof document !== "undefined") globalThis.page = new Page(JSON.parse(byId("data").textContent));
