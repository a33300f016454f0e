/* Follows a training: server-sent events replace the parts of the page that changed, and the pictures. */
"use strict";
(() => {
  const { start, groups } = window.edgetrain;
  const said = document.getElementById("link"), place = document.getElementById("plots-live");
  const known = {};
  const replace = (name, html) => {
    if (known[name] === html) return;
    const part = document.getElementById("part-" + name);
    if (!part || part.contains(document.activeElement) && name === "runs") return;
    const chosen = new Set([...part.querySelectorAll("input[type=checkbox]:checked")].map((box) => box.value));
    part.innerHTML = html; known[name] = html;
    for (const box of part.querySelectorAll("input[type=checkbox]")) box.checked = chosen.has(box.value);
  };
  const element = (name, attributes, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const show = (plot) => {
    const figure = document.getElementById("plot-" + plot.id);
    if (figure && figure.picture && figure.dataset.names === plot.series.map((one) => one.name).join("|")) {
      figure.picture.update(plot);
      const note = figure.querySelector("figcaption .note");
      if (note) note.textContent = plot.note;
      return;
    }
    const legend = element("ul", { class: "legend" }, ...plot.series.map((one) => element("li", {}, element("i", { class: "s-" + one.colour + (one.dashed ? " dashed" : "") }), one.name)));
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("class", "chart");
    const fresh = element("figure", { class: "plot", id: "plot-" + plot.id }, element("figcaption", {}, plot.title, ...(plot.note ? [element("span", { class: "note" }, plot.note)] : [])), ...(plot.series.length > 1 ? [legend] : []), svg);
    fresh.dataset.names = plot.series.map((one) => one.name).join("|");
    if (figure) {
      for (const group of groups.values()) group.pictures = group.pictures.filter((picture) => picture !== figure.picture);
      figure.replaceWith(fresh);
    } else place.appendChild(fresh);
    start([plot]);
  };
  for (const figure of place.querySelectorAll("figure.plot"))
    if (figure.picture) figure.dataset.names = figure.picture.series.map((one) => one.name).join("|");
  let source = null, waiting = 1000;
  const connect = () => {
    if (source && source.readyState !== EventSource.CLOSED) return; // reconnected already, when the page was shown again
    source = new EventSource("/events");
    source.onopen = () => { waiting = 1000; };
    source.onmessage = (event) => {
      const news = JSON.parse(event.data);
      for (const [name, html] of Object.entries(news.parts)) replace(name, html);
      const there = new Set(news.plots.map((plot) => "plot-" + plot.id));
      for (const figure of [...place.querySelectorAll("figure.plot")]) if (!there.has(figure.id)) {
        for (const group of groups.values()) group.pictures = group.pictures.filter((picture) => picture !== figure.picture);
        figure.remove();
      }
      for (const plot of news.plots) show(plot);
      said.textContent = "live, " + new Date().toLocaleTimeString();
      document.body.dataset.events = String(Number(document.body.dataset.events || 0) + 1);
    };
    source.onerror = () => {
      said.textContent = "the connection was lost; trying again";
      if (source.readyState === EventSource.CLOSED) { setTimeout(connect, waiting); waiting = Math.min(30000, waiting * 2); }
    };
  };
  connect();
  // A hidden page need not be fed.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) source.close(); else if (source.readyState === EventSource.CLOSED) connect();
  });

  const token = () => new URLSearchParams(location.hash.slice(1)).get("token") || prompt("The token that edgetrain serve printed") || "";
  for (const button of document.querySelectorAll("[data-post]")) button.addEventListener("click", async () => {
    if (!confirm(button.textContent + "?")) return;
    const told = document.getElementById("control-said");
    try {
      const answer = await fetch(button.dataset.post, { method: "POST", headers: { Authorization: "Bearer " + token() } });
      const text = await answer.text();
      let found = {};
      try { found = JSON.parse(text); } catch { found.error = text; } // a refusal is plain text
      told.textContent = found.said || found.error || String(answer.status);
    } catch { told.textContent = "the server does not answer"; }
  });

  const box = document.getElementById("whatif");
  if (box) {
    const output = document.getElementById("whatif-said"), run = document.getElementById("whatif-run");
    const sliders = [...box.querySelectorAll("input[type=range]")];
    const value = (slider) => { const words = slider.dataset.values.split(","); return slider.dataset.values ? words[Number(slider.value)] : slider.value; };
    // The point comes at once; the interval takes longer and is asked for when the sliders rest.
    const RESTS_MS = 250;
    let asked = 0, timer = null, resting = null, stop = null;
    const fetched = async (query) => {
      const answer = await fetch("/api/whatif?" + query, { signal: stop.signal });
      return answer.json().catch(() => ({ error: "no answer" }));
    };
    const ask = async () => {
      const query = new URLSearchParams({ run: run.value });
      for (const slider of sliders) {
        const changed = box.querySelector(`[data-use="${slider.dataset.name}"]`).checked;
        slider.parentNode.querySelector("output").textContent = changed ? value(slider) : "as recorded";
        if (changed) query.set(slider.dataset.name, value(slider));
      }
      clearTimeout(resting);
      if (stop) stop.abort();
      stop = new AbortController();
      output.dataset.took = ""; output.dataset.interval = "";
      const mine = ++asked, began = performance.now();
      const say = (found) => { if (mine === asked) output.textContent = found.said || found.error; };
      const failed = (error) => { if (mine === asked && error.name !== "AbortError") output.textContent = "the server does not answer"; };
      try {
        const point = await fetched(new URLSearchParams([...query, ["interval", "no"]]));
        if (mine !== asked) return;
        output.dataset.took = String(Math.round(performance.now() - began));
        say(point);
        if (point.error) return;
      } catch (error) { failed(error); return; }
      resting = setTimeout(() => fetched(query).then((found) => { say(found); if (mine === asked) output.dataset.interval = "there"; }).catch(failed), RESTS_MS);
    };
    const later = () => { clearTimeout(timer); timer = setTimeout(ask, 30); };
    for (const slider of sliders) slider.addEventListener("input", () => { box.querySelector(`[data-use="${slider.dataset.name}"]`).checked = true; later(); });
    for (const tick of box.querySelectorAll("[data-use]")) tick.addEventListener("change", later);
    run.addEventListener("change", later);
    // Without any change: the recorded setting; this makes the model, so that later answers are quick.
    if (run.value) { output.textContent = "Preparing the model of this run…"; later(); } else output.textContent = "No finished run to ask about yet.";
  }
})();
