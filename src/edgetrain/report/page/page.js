/* Draws the pictures of a page live: zoom, pointing, keys, legends that switch series, light and dark.
   Without it the page shows the same pictures as drawn by the report, and tables. It fetches nothing. */
"use strict";
(() => {
  const root = document.documentElement;
  const SVG = "http://www.w3.org/2000/svg";
  const STEPS = 65534, MISSING = 65535;
  const LEFT = 62, RIGHT = 14, TOP = 26, BOTTOM = 34;
  root.classList.add("js");

  // ---- numbers ------------------------------------------------------------------------------------------------
  const digits = (value, count = 3) => {
    const text = Number(value.toPrecision(count));
    return Math.abs(text) >= 1e6 || (text !== 0 && Math.abs(text) < 1e-3) ? text.toExponential() : text.toLocaleString("en", { maximumFractionDigits: 9 });
  };
  const spellSeconds = (value) => {
    const size = Math.abs(value);
    if (size === 0) return "0 s";
    if (value < 0) return "−" + spellSeconds(size);
    if (size < 1e-3) return digits(value * 1e6) + " µs";
    if (size < 1) return digits(value * 1e3) + " ms";
    if (size < 100) return digits(value) + " s";
    if (size < 3600) return Math.floor(value / 60) + " min " + String(Math.floor(value % 60)).padStart(2, "0") + " s";
    return Math.floor(value / 3600) + " h " + String(Math.floor((value % 3600) / 60)).padStart(2, "0") + " min";
  };
  const spellScaled = (value, unit) => {
    for (const [limit, name] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])
      if (Math.abs(value) >= limit) return digits(value / limit) + " " + name + unit;
    return digits(value) + " " + unit;
  };
  const spell = (value, unit) => {
    if (value === null || !Number.isFinite(value)) return "–";
    if (unit === "s") return spellSeconds(value);
    if (unit === "1") return digits(100 * value) + " %";
    if (unit === "B" || unit === "B/s") return spellScaled(value, unit);
    if (unit === "Hz") return Math.abs(value) >= 1e9 ? digits(value / 1e9) + " GHz" : digits(value / 1e6, 4) + " MHz";
    if (unit === "1/s") return digits(value) + " /s";
    return unit ? digits(value) + " " + unit : digits(value);
  };
  const roundTicks = (span, most, base) => {
    if (span.log) {
      const found = [];
      const first = Math.floor(Math.log10(span.lo)), last = Math.ceil(Math.log10(span.hi));
      for (const factors of [[1, 2, 5], [1, 3], [1]]) {
        found.length = 0;
        for (let power = first; power <= last; power++) for (const factor of factors) found.push(factor * 10 ** power);
        const inside = found.filter((value) => value >= span.lo * 0.999 && value <= span.hi * 1.001);
        if (inside.length < 3) return roundTicks({ lo: span.lo, hi: span.hi }, most, 10);
        if (inside.length <= most + 2) return inside;
      }
      return found.filter((value) => value >= span.lo && value <= span.hi);
    }
    const rough = (span.hi - span.lo) / Math.max(most, 1);
    if (!(rough > 0)) return [span.lo];
    const power = base ** Math.floor(Math.log(rough) / Math.log(base));
    const factors = base === 10 ? [1, 2, 5, 10] : [1, 2, 3, 6, 10, 15, 30, 60];
    const step = power * factors.find((factor) => rough <= power * factor * 1.0001);
    const found = [];
    for (let at = Math.ceil(span.lo / step - 1e-9); at <= span.hi / step + 1e-9; at++) found.push(at * step);
    return found;
  };
  const ticksOf = (span, axis, most) => {
    const found = roundTicks(span, most, axis.unit === "s" && span.hi - span.lo > 120 ? 60 : 10);
    return axis.whole ? found.filter((value) => Math.abs(value - Math.round(value)) < 1e-9) : found;
  };

  // ---- data ---------------------------------------------------------------------------------------------------
  const unpack = (column) => {
    const raw = atob(column.at), found = new Float64Array(raw.length / 2);
    for (let place = 0; place < found.length; place++) {
      const step = raw.charCodeAt(2 * place) + 256 * raw.charCodeAt(2 * place + 1);
      found[place] = step === MISSING ? NaN : column.lo + (step / STEPS) * (column.hi - column.lo);
    }
    return found;
  };
  const read = (series) => {
    const even = Array.isArray(series.x);
    const x = even
      ? Float64Array.from({ length: series.n }, (_, place) => series.x[0] + ((series.x[1] - series.x[0]) * place) / (series.n - 1))
      : unpack(series.x);
    const found = { ...series, x, y: unpack(series.y), on: !series.hidden };
    for (const name of ["low", "high", "x_low", "x_high"]) if (series[name]) found[name] = unpack(series[name]);
    found.facts = (series.facts || []).map((fact) => ({ ...fact, values: unpack(fact.values) }));
    return found;
  };
  const make = (name, attributes = {}, parent = null) => {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (parent) parent.appendChild(node);
    return node;
  };
  const write = (parent, text, attributes) => { make("text", attributes, parent).textContent = text; };

  // ---- one tooltip for all -------------------------------------------------------------------------------------
  const tip = document.createElement("div");
  tip.className = "tip"; tip.hidden = true; tip.setAttribute("aria-hidden", "true");
  document.body.appendChild(tip);
  const showTip = (lines, x, y) => {
    tip.replaceChildren(...lines.map((line) => {
      const row = document.createElement("div");
      if (line.colour) { const swatch = document.createElement("i"); swatch.className = "s-" + line.colour + (line.dashed ? " dashed" : ""); row.appendChild(swatch); }
      row.appendChild(document.createTextNode(line.text));
      if (line.strong) row.style.fontWeight = "600";
      return row;
    }));
    tip.hidden = false;
    const wide = tip.offsetWidth, tall = tip.offsetHeight;
    tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - wide - 6)) + "px";
    tip.style.top = Math.max(4, y + 18 + tall > innerHeight ? y - tall - 12 : y + 18) + "px";
  };
  const hideTip = () => { tip.hidden = true; };
  for (const title of document.querySelectorAll(".barchart title")) {
    const of = title.parentNode;
    of.dataset.tip = title.textContent; title.remove();
    of.addEventListener("pointermove", (event) => showTip([{ text: of.dataset.tip }], event.clientX, event.clientY));
    of.addEventListener("pointerleave", hideTip);
  }

  // ---- a group of pictures with one x axis ---------------------------------------------------------------------
  class Group {
    constructor() { this.pictures = []; this.view = null; this.at = null; }
    whole() {
      const lows = this.pictures.map((picture) => picture.wholeX.lo), highs = this.pictures.map((picture) => picture.wholeX.hi);
      return { lo: Math.min(...lows), hi: Math.max(...highs) };
    }
    now() { return this.view || this.whole(); }
    zoom(lo, hi) {
      const whole = this.whole(), least = (whole.hi - whole.lo) * 1e-6;
      lo = Math.max(whole.lo, lo); hi = Math.min(whole.hi, hi);
      if (hi - lo < least) return;
      this.view = lo <= whole.lo && hi >= whole.hi ? null : { lo, hi };
      this.draw();
    }
    by(factor, around = null) {
      const now = this.now(), log = this.pictures[0].plot.x.log;
      const place = (value) => (log ? Math.log10(value) : value), back = (value) => (log ? 10 ** value : value);
      const lo = place(now.lo), hi = place(now.hi), middle = around === null ? (lo + hi) / 2 : place(around);
      this.zoom(back(middle - (middle - lo) * factor), back(middle + (hi - middle) * factor));
    }
    shift(share) { const now = this.now(), by = (now.hi - now.lo) * share; const whole = this.whole();
      const step = Math.max(whole.lo - now.lo, Math.min(whole.hi - now.hi, by)); this.zoom(now.lo + step, now.hi + step); }
    reset() { this.view = null; for (const picture of this.pictures) picture.viewY = null; this.draw(); }
    draw() { for (const picture of this.pictures) picture.draw(); }
    point(at) { this.at = at; for (const picture of this.pictures) picture.drawCursor(); }
  }

  class Picture {
    constructor(figure, plot, group) {
      this.figure = figure; this.plot = plot; this.group = group; this.viewY = null; this.chosen = null;
      this.series = plot.series.map(read);
      this.cloud = this.series.some((series) => series.style === "points" || series.style === "marked");
      this.wholeX = this.extent(plot.x, (series) => [series.x, series.x_low, series.x_high], true);
      group.pictures.push(this);
      figure.classList.add("live");
      this.svg = make("svg", { class: "chart", role: "img", "aria-label": plot.alt + ". Arrow keys point, plus and minus zoom, 0 shows all.", tabindex: "0" });
      figure.querySelector("svg.chart").replaceWith(this.svg);
      this.said = document.createElement("div");
      this.said.className = "quiet"; this.said.setAttribute("aria-live", "polite");
      figure.appendChild(this.said);
      this.legend(); this.listen();
      new ResizeObserver(() => this.draw()).observe(figure);
    }
    update(plot) {
      const hidden = new Set(this.series.filter((series) => !series.on).map((series) => series.name));
      this.plot = plot;
      this.series = plot.series.map(read);
      for (const series of this.series) series.on = !hidden.has(series.name);
      this.wholeX = this.extent(plot.x, (series) => [series.x, series.x_low, series.x_high], true);
      this.draw();
    }
    extent(axis, columns, along = false) {
      let lo = Infinity, hi = -Infinity;
      for (const series of this.series) {
        if (!along && !series.on) continue;
        for (const column of columns(series)) if (column) for (const value of column)
          if (Number.isFinite(value) && (!axis.log || value > 0)) { if (value < lo) lo = value; if (value > hi) hi = value; }
      }
      if (!along) for (const mark of this.plot.marks) if (mark.axis === "y") { lo = Math.min(lo, mark.at); hi = Math.max(hi, mark.at); }
      if (lo > hi) { lo = axis.log ? 0.1 : 0; hi = 1; }
      const exact = along && !this.cloud && this.series.some((series) => series.style === "line") && !axis.log;
      const pad = axis.log || exact ? 0 : 0.06 * (hi - lo || Math.abs(lo) || 1);
      const grow = axis.log ? (hi / lo) ** 0.02 : 1; // a point at the end of a logarithmic axis is not cut
      lo /= grow; hi *= grow;
      const from = axis.lo ?? lo - pad, to = axis.hi ?? (axis.first_hi && !this.group.view ? Math.min(axis.first_hi, hi + pad) : hi + pad);
      return { lo: from, hi: to > from ? to : from + (Math.abs(from) * 0.1 || 1), log: axis.log };
    }
    visibleY() {
      if (this.viewY) return { ...this.viewY, log: this.plot.y.log };
      if (!this.group.view || this.cloud) return this.extent(this.plot.y, (series) => [series.y, series.low, series.high]);
      const { lo, hi } = this.group.view;
      const cut = (series) => [series.y, series.low, series.high].map((column) => column && column.filter((_, place) => series.x[place] >= lo && series.x[place] <= hi));
      return this.extent(this.plot.y, cut);
    }
    legend() {
      const list = this.figure.querySelector("ul.legend");
      if (!list) return;
      [...list.children].forEach((item, place) => {
        const button = document.createElement("button");
        if (!this.series[place]) return;
        button.type = "button"; button.append(...item.childNodes); item.replaceChildren(button);
        const say = () => button.setAttribute("aria-pressed", String(this.series[place].on));
        button.addEventListener("click", () => { const series = this.series[place]; series.on = !series.on; say(); this.draw(); });
        say();
      });
    }
    place(span, value, size) {
      const share = span.log ? (Math.log10(Math.max(value, span.lo)) - Math.log10(span.lo)) / (Math.log10(span.hi) - Math.log10(span.lo)) : (value - span.lo) / (span.hi - span.lo);
      return share * size;
    }
    draw() {
      const wide = Math.max(260, this.figure.clientWidth), tall = this.plot.height;
      const innerW = wide - LEFT - RIGHT, innerH = tall - TOP - BOTTOM;
      const x = { ...this.group.now(), log: this.plot.x.log }, y = this.visibleY();
      this.size = { wide, tall, innerW, innerH, x, y };
      const across = (value) => LEFT + this.place(x, value, innerW), down = (value) => TOP + innerH - this.place(y, value, innerH);
      const svg = this.svg;
      svg.setAttribute("viewBox", `0 0 ${wide} ${tall}`); svg.replaceChildren();
      for (const value of ticksOf(y, this.plot.y, Math.max(3, Math.floor(innerH / 40)))) {
        const at = down(value); if (at < TOP - 1 || at > TOP + innerH + 1) continue;
        make("line", { class: "grid", x1: LEFT, x2: wide - RIGHT, y1: at, y2: at }, svg);
        write(svg, spell(value, this.plot.y.unit), { class: "tick", x: LEFT - 6, y: at + 4, "text-anchor": "end" });
      }
      for (const value of ticksOf(x, this.plot.x, Math.max(2, Math.floor(innerW / 95)))) {
        const at = across(value);
        make("line", { class: "grid", x1: at, x2: at, y1: tall - BOTTOM, y2: tall - BOTTOM + 4 }, svg);
        write(svg, spell(value, this.plot.x.unit), { class: "tick", x: at, y: tall - BOTTOM + 15, "text-anchor": at > wide - 40 ? "end" : "middle" });
      }
      write(svg, this.plot.x.label, { class: "axis", x: wide - RIGHT, y: tall - 4, "text-anchor": "end" });
      write(svg, this.plot.y.label, { class: "axis", x: 2, y: 11 });
      this.drawMarks(across, down);
      const clip = "clip-" + this.plot.id, defs = make("defs", {}, svg), path = make("clipPath", { id: clip }, defs);
      make("rect", { x: LEFT, y: TOP - 2, width: innerW, height: innerH + 4 }, path);
      const inner = make("g", { "clip-path": `url(#${clip})` }, svg);
      for (const series of this.series) if (series.on) this.drawSeries(series, inner, across, down);
      this.over = make("g", {}, svg);
      this.drawCursor();
    }
    drawMarks(across, down) {
      const { wide, tall, innerW, x } = this.size;
      const seen = this.plot.marks.filter((mark) => mark.axis === "y" || (mark.at >= x.lo && mark.at <= x.hi));
      const epochs = seen.filter((mark) => mark.kind === "epoch"), step = Math.max(1, Math.ceil(epochs.length / (innerW / 40)));
      let place = 0, written = -Infinity, level = 0;
      for (const mark of seen) {
        if (mark.kind === "epoch" && place++ % step) continue;
        if (mark.axis === "y") {
          make("line", { class: "mark " + mark.kind, x1: LEFT, x2: wide - RIGHT, y1: down(mark.at), y2: down(mark.at) }, this.svg);
          write(this.svg, mark.text, { class: "tick", x: wide - RIGHT, y: down(mark.at) - 4, "text-anchor": "end" });
          continue;
        }
        const at = across(mark.at), line = make("line", { class: "mark " + mark.kind, x1: at, x2: at, y1: TOP, y2: tall - BOTTOM }, this.svg);
        make("title", {}, line).textContent = mark.text;
        if (mark.kind === "event") continue;
        if (mark.kind !== "epoch") { level = at - written < 28 ? level + 1 : 0; written = at; } // not on the label before
        const right = mark.kind !== "epoch" && at > wide - 60;
        write(this.svg, mark.kind === "epoch" ? mark.text.replace("epoch ", "") : mark.text, { class: "tick", x: right ? at - 3 : at + 3, y: TOP + 9 + 12 * level, "text-anchor": right ? "end" : "start" });
      }
    }
    drawSeries(series, parent, across, down) {
      const { x } = this.size, colour = "s-" + series.colour, n = series.y.length;
      const strong = series.strong ? " strong" : "", dashed = series.dashed ? " dashed" : "";
      if (series.style === "bars") {
        const half = n > 1 ? (across(series.x[1]) - across(series.x[0])) / 2 : 10, base = down(Math.max(this.size.y.lo, 0));
        let d = "";
        for (let place = 0; place < n; place++) if (series.y[place] > 0) {
          const at = across(series.x[place]), left = n > 1 && this.plot.x.log && place ? (at + across(series.x[place - 1])) / 2 : at - half;
          d += `M${left.toFixed(1)} ${base.toFixed(1)}V${down(series.y[place]).toFixed(1)}h${(1.85 * (at - left)).toFixed(1)}V${base.toFixed(1)}Z`;
        }
        make("path", { class: "bars " + colour, d }, parent);
        return;
      }
      if (series.style === "points" || series.style === "marked") {
        let dots = "", ranges = "", joined = "";
        for (let place = 0; place < n; place++) {
          const value = series.y[place]; if (!Number.isFinite(value) || series.x[place] < x.lo || series.x[place] > x.hi) continue;
          const at = across(series.x[place]), to = down(value);
          dots += `M${at.toFixed(1)} ${to.toFixed(1)}h0`;
          joined += (joined ? "L" : "M") + at.toFixed(1) + " " + to.toFixed(1);
          if (series.low) ranges += `M${at.toFixed(1)} ${down(series.low[place]).toFixed(1)}V${down(series.high[place]).toFixed(1)}`;
          if (series.x_low) ranges += `M${across(series.x_low[place]).toFixed(1)} ${to.toFixed(1)}H${across(series.x_high[place]).toFixed(1)}`;
          if (series.labels) write(parent, series.labels[place], { class: "tick", x: at + 7, y: to - 6 });
        }
        if (series.style === "marked") make("path", { class: "line " + colour + strong + dashed, d: joined }, parent);
        if (ranges) make("path", { class: "whisker " + colour, d: ranges }, parent);
        make("path", { class: "dots " + colour + strong, d: dots }, parent);
        return;
      }
      let first = 0, last = n - 1;
      while (first < n - 1 && series.x[first + 1] < x.lo) first++;
      while (last > 0 && series.x[last - 1] > x.hi) last--;
      let line = "", top = [], bottom = [], drawing = false, band = "";
      const close = () => { if (top.length > 1) band += "M" + top.join("L") + "L" + bottom.reverse().join("L") + "Z"; top = []; bottom = []; };
      for (let place = first; place <= last; place++) {
        const value = series.y[place];
        if (!Number.isFinite(value)) { drawing = false; close(); continue; }
        const at = across(series.x[place]).toFixed(1);
        line += (drawing ? "L" : "M") + at + " " + down(value).toFixed(1);
        if (!drawing) line += "h.1";
        drawing = true;
        if (series.low) { top.push(at + " " + down(series.high[place]).toFixed(1)); bottom.push(at + " " + down(series.low[place]).toFixed(1)); }
      }
      close();
      if (band) make("path", { class: "band " + colour, d: band }, parent);
      make("path", { class: "line " + colour + strong + dashed, d: line }, parent);
    }
    nearest(series, at) {
      let lo = 0, hi = series.x.length - 1;
      while (hi - lo > 1) { const middle = (lo + hi) >> 1; if (series.x[middle] < at) lo = middle; else hi = middle; }
      return Math.abs(series.x[lo] - at) <= Math.abs(series.x[hi] - at) ? lo : hi;
    }
    drawCursor() {
      if (!this.over) return;
      this.over.replaceChildren();
      const { tall, innerW, innerH, x, y, wide } = this.size;
      if (this.chosen) {
        const { series, place } = this.chosen;
        make("circle", { class: "ring", r: 6, cx: LEFT + this.place(x, series.x[place], innerW), cy: TOP + innerH - this.place(y, series.y[place], innerH) }, this.over);
      }
      if (this.cloud || this.group.at === null) return;
      const at = LEFT + this.place(x, this.group.at, innerW);
      if (at >= LEFT && at <= wide - RIGHT) make("line", { class: "cursor", x1: at, x2: at, y1: TOP, y2: tall - BOTTOM }, this.over);
    }
    lines(at) {
      const found = [{ text: `${this.plot.x.label}: ${spell(at, this.plot.x.unit)}`, strong: true }];
      const epoch = this.plot.marks.filter((mark) => mark.kind === "epoch" && mark.axis === "x" && mark.at <= at).pop();
      if (epoch) found[0].text += `, ${epoch.text}`;
      for (const series of this.series) {
        if (!series.on) continue;
        const place = this.nearest(series, at), value = series.y[place];
        if (!Number.isFinite(value)) continue;
        let text = `${series.name} ${spell(value, this.plot.y.unit)}`;
        if (series.low && series.high[place] > series.low[place]) text += ` (${spell(series.low[place], this.plot.y.unit)} to ${spell(series.high[place], this.plot.y.unit)})`;
        found.push({ text, colour: series.colour, dashed: series.dashed });
        if (found.length > 18) break;
      }
      const near = (this.size.x.hi - this.size.x.lo) * 0.006;
      for (const mark of this.plot.marks) if (mark.kind === "event" && Math.abs(mark.at - at) < near) found.push({ text: mark.text });
      return found;
    }
    pointLines({ series, place }) {
      const found = [{ text: series.labels ? `${series.name}: ${series.labels[place]}` : series.name, strong: true, colour: series.colour }];
      const range = (low, high, unit) => (low && high[place] > low[place] ? ` (${spell(low[place], unit)} to ${spell(high[place], unit)})` : "");
      found.push({ text: `${this.plot.x.label}: ${spell(series.x[place], this.plot.x.unit)}${range(series.x_low, series.x_high, this.plot.x.unit)}` });
      found.push({ text: `${this.plot.y.label}: ${spell(series.y[place], this.plot.y.unit)}${range(series.low, series.high, this.plot.y.unit)}` });
      for (const fact of series.facts) if (Number.isFinite(fact.values[place])) found.push({ text: `${fact.name}: ${spell(fact.values[place], fact.unit)}` });
      return found;
    }
    closest(px, py) {
      const { x, y, innerW, innerH } = this.size;
      let best = null, far = 30 * 30;
      for (const series of this.series) if (series.on) for (let place = 0; place < series.x.length; place++) {
        const dx = LEFT + this.place(x, series.x[place], innerW) - px, dy = TOP + innerH - this.place(y, series.y[place], innerH) - py;
        const here = (dx * dx + dy * dy) * (series.strong ? 0.6 : 1);
        if (here < far) { far = here; best = { series, place }; }
      }
      return best;
    }
    valueAt(px, span, from, size, reversed = false) {
      const share = reversed ? 1 - (px - from) / size : (px - from) / size;
      return span.log ? 10 ** (Math.log10(span.lo) + share * (Math.log10(span.hi) - Math.log10(span.lo))) : span.lo + share * (span.hi - span.lo);
    }
    listen() {
      const svg = this.svg;
      let from = null, box = null;
      const where = (event) => { const rect = svg.getBoundingClientRect(); return [((event.clientX - rect.left) / rect.width) * this.size.wide, ((event.clientY - rect.top) / rect.height) * this.size.tall]; };
      svg.addEventListener("pointermove", (event) => {
        const [px, py] = where(event), { x, innerW, innerH } = this.size;
        if (from) {
          const left = Math.min(from[0], px), wide = Math.abs(px - from[0]);
          const top = this.cloud ? Math.min(from[1], py) : TOP, tall = this.cloud ? Math.abs(py - from[1]) : innerH;
          for (const [key, value] of Object.entries({ x: left, y: top, width: wide, height: tall })) box.setAttribute(key, value);
          return;
        }
        if (this.cloud) {
          this.chosen = this.closest(px, py); this.drawCursor();
          if (this.chosen) showTip(this.pointLines(this.chosen), event.clientX, event.clientY); else hideTip();
          return;
        }
        const at = this.valueAt(Math.max(LEFT, Math.min(px, LEFT + innerW)), x, LEFT, innerW);
        this.group.point(at); showTip(this.lines(at), event.clientX, event.clientY);
      });
      svg.addEventListener("pointerleave", () => { hideTip(); this.group.point(null); this.chosen = null; this.drawCursor(); });
      svg.addEventListener("pointerdown", (event) => {
        if (event.button) return;
        from = where(event); hideTip();
        try { svg.setPointerCapture(event.pointerId); } catch { /* the pointer has gone */ }
        box = make("rect", { class: "selection", x: from[0], y: TOP, width: 0, height: 0 }, this.over);
      });
      svg.addEventListener("pointercancel", () => { from = null; if (box) box.remove(); });
      svg.addEventListener("pointerup", (event) => {
        if (!from) return;
        const [px, py] = where(event), [fx, fy] = from, { x, y, innerW, innerH } = this.size;
        from = null; box.remove();
        if (Math.abs(px - fx) < 6 && !(this.cloud && Math.abs(py - fy) > 6)) return;
        if (this.cloud) {
          this.viewY = { lo: this.valueAt(Math.max(py, fy), y, TOP, innerH, true), hi: this.valueAt(Math.min(py, fy), y, TOP, innerH, true) };
        }
        this.group.zoom(this.valueAt(Math.min(px, fx), x, LEFT, innerW), this.valueAt(Math.max(px, fx), x, LEFT, innerW));
      });
      svg.addEventListener("dblclick", () => this.group.reset());
      svg.addEventListener("wheel", (event) => {
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        const { x, innerW } = this.size;
        this.group.by(event.deltaY > 0 ? 1.25 : 0.8, this.valueAt(where(event)[0], x, LEFT, innerW));
      }, { passive: false });
      svg.addEventListener("keydown", (event) => this.key(event));
      svg.addEventListener("blur", () => { hideTip(); this.group.point(null); });
    }
    key(event) {
      const { x } = this.size, step = (x.hi - x.lo) / (event.shiftKey ? 10 : 100);
      if (event.key === "+" || event.key === "=") this.group.by(0.6, this.group.at);
      else if (event.key === "-") this.group.by(1 / 0.6, this.group.at);
      else if (event.key === "0" || event.key === "Escape") this.group.reset();
      else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
        const way = event.key === "ArrowLeft" ? -1 : 1;
        if (this.cloud) { this.walk(way); event.preventDefault(); return; }
        const at = this.group.at === null ? (x.lo + x.hi) / 2 : this.group.at + way * step;
        this.group.point(Math.max(this.group.whole().lo, Math.min(this.group.whole().hi, at)));
        if (this.group.at < x.lo || this.group.at > x.hi) this.group.shift(way * 0.5);
        this.say(this.lines(this.group.at));
      } else return;
      event.preventDefault();
    }
    walk(way) {
      const shown = this.series.filter((series) => series.on), series = shown.find((one) => one.strong) || shown[0];
      if (!series) return;
      const before = this.chosen && this.chosen.series === series ? this.chosen.place : way > 0 ? -1 : series.x.length;
      this.chosen = { series, place: Math.max(0, Math.min(series.x.length - 1, before + way)) };
      this.drawCursor(); this.say(this.pointLines(this.chosen));
    }
    say(lines) {
      const rect = this.svg.getBoundingClientRect();
      this.said.textContent = lines.map((line) => line.text).join("; ");
      showTip(lines, rect.left + LEFT, rect.top + 10);
    }
  }

  // ---- start --------------------------------------------------------------------------------------------------
  const groups = new Map();
  const start = (plots) => {
    const marks = new Map(plots.map((plot) => [plot.id, plot.marks]));
    for (const plot of plots) {
      if (typeof plot.marks === "string") plot.marks = marks.get(plot.marks); // the same as those of that picture
      const figure = document.getElementById("plot-" + plot.id);
      if (!figure) continue;
      const key = plot.group || "own-" + plot.id;
      if (!groups.has(key)) groups.set(key, new Group());
      const picture = new Picture(figure, plot, groups.get(key));
      figure.picture = picture;
    }
    for (const group of groups.values()) group.draw();
    for (const tools of document.querySelectorAll(".tools[data-group]")) {
      const group = groups.get(tools.dataset.group);
      if (!group) continue;
      for (const button of tools.querySelectorAll("button")) button.addEventListener("click", () => {
        if (button.dataset.do === "in") group.by(0.5);
        else if (button.dataset.do === "out") group.by(2);
        else if (button.dataset.do === "left") group.shift(-0.4);
        else if (button.dataset.do === "right") group.shift(0.4);
        else group.reset();
      });
    }
  };
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  const theme = document.getElementById("theme");
  const keep = (value) => { try { localStorage.setItem("edgetrain-theme", value); } catch { /* a page from disk may not keep anything */ } };
  try { const kept = localStorage.getItem("edgetrain-theme"); if (kept === "light" || kept === "dark") root.dataset.theme = kept; } catch { /* likewise */ }
  const nameTheme = () => { if (theme) theme.textContent = dark() ? "Light colours" : "Dark colours"; };
  if (theme) theme.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; keep(root.dataset.theme); nameTheme(); });
  nameTheme();
  const data = document.getElementById("plots");
  if (data) start(JSON.parse(data.textContent));
  addEventListener("beforeprint", () => { for (const details of document.querySelectorAll("details")) details.open = true; });
  window.edgetrain = { groups, spell, start, Picture, Group };
})();
