// Zooms the timeline: by buttons, keys and the wheel. All of what it says is in the page's table of events.
"use strict";
(() => {
  const svg = document.querySelector("svg.timeline");
  if (!svg) return;
  const number = (name) => Number(svg.getAttribute("data-" + name));
  const [left, right, first, last] = ["left", "right", "first", "last"].map(number);
  const start = [number("from"), number("until")];
  let [from, until] = start;
  const slices = [...svg.querySelectorAll(".slices rect")].map((rect) => ({
    rect,
    a: Number(rect.getAttribute("data-a")),
    b: rect.getAttribute("data-b") === "" ? Infinity : Number(rect.getAttribute("data-b")),
    y: Number(rect.getAttribute("y")),
    high: Number(rect.getAttribute("height")),
  }));
  const rows = document.querySelectorAll("#events tbody tr");
  const order = [...slices.keys()].sort((i, j) => slices[i].a - slices[j].a);
  const [axis, labels] = [".axis", ".labels"].map((name) => svg.querySelector(name));
  const told = document.getElementById("told");
  const lanes = document.getElementById("lanes");
  const cell = (at, column) => rows[at].cells[column].textContent;
  const x = (time) => left + ((Math.min(Math.max(time, from), until) - from) / (until - from)) * (right - left);
  let current = -1;
  let waiting = false;

  const make = (parent, name, attributes, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    parent.append(element);
  };

  const ticks = () => {
    const high = axis.getAttribute("data-height");
    let step = 1;
    for (let at = 0; (until - from) / step > 9; at++) step = [2, 5, 10][at % 3] * 10 ** Math.floor(at / 3);
    const [unit, name] = step >= 1e9 ? [1e9, "s"] : step >= 1e6 ? [1e6, "ms"] : step >= 1e3 ? [1e3, "us"] : [1, "ns"];
    axis.replaceChildren();
    for (let at = Math.ceil(from / step) * step; at <= until; at += step) {
      make(axis, "line", { x1: x(at), x2: x(at), y1: 18, y2: high, class: at === 0 ? "zero" : "tick" });
      make(axis, "text", { x: x(at), y: 13, "text-anchor": "middle" }, Number((at / unit).toPrecision(12)) + " " + name);
    }
  };

  const draw = () => {
    waiting = false;
    ticks();
    labels.replaceChildren();
    let room = 300;
    slices.forEach(({ rect, a, b, y, high }, at) => {
      const there = a <= until && b >= from;
      const begin = Math.min(x(a), right - 1.5);
      const wide = there ? Math.max(x(b) - begin, 1.5) : 0;
      rect.setAttribute("x", begin);
      rect.setAttribute("width", wide);
      if (wide >= 46 && high >= 12 && room-- > 0) {
        const what = rect.getAttribute("data-l") || "";
        const letters = Math.floor(wide / 7) - 1;
        const label = what.length > letters ? what.slice(0, letters - 1) + "\u2026" : what;
        make(labels, "text", { x: begin + 4, y: y + high / 2 + 4, class: rect.classList[0] }, label);
      }
    });
  };

  const show = (newFrom, newUntil) => {
    const span = Math.min(Math.max(newUntil - newFrom, 100), last - first);
    from = Math.min(Math.max(newFrom, first), last - span);
    until = from + span;
    if (!waiting) requestAnimationFrame(draw);
    waiting = true;
  };
  // What is looked at stays where it is: the chosen event, else the hang.
  const middle = () => {
    const at = current < 0 ? 0 : slices[current].a;
    return from <= at && at <= until ? at : (from + until) / 2;
  };
  const zoom = (factor, middle) => show(middle - (middle - from) * factor, middle + (until - middle) * factor);
  const move = (part) => show(from + (until - from) * part, until + (until - from) * part);

  const select = (at) => {
    for (const one of document.querySelectorAll("#events .current, .slices .current")) one.classList.remove("current");
    current = at;
    const { rect, a, b } = slices[at];
    rect.classList.add("current");
    rows[at].classList.add("current");
    told.textContent = [0, 1, 2, 3, 4].map((column) => cell(at, column)).join(", ");
    if (a > until || b < from) show(a - (until - from) / 2, a + (until - from) / 2);
  };
  const go = (by) => {
    const there = order.indexOf(current);
    const near = order.findIndex((at) => slices[at].a >= from);
    const next = there < 0 ? Math.max(near, 0) : there + by;
    if (order[next] !== undefined) select(order[next]);
  };

  const actions = {
    in: () => zoom(0.5, middle()), out: () => zoom(2, middle()), left: () => move(-0.25), right: () => move(0.25),
    all: () => show(first, last), first: () => show(...start), before: () => go(-1), next: () => go(1),
  };
  const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", Home: "all", End: "first", n: "next", p: "before" };
  for (const button of document.querySelectorAll("#tools button")) button.addEventListener("click", actions[button.dataset.do]);
  lanes.addEventListener("keydown", (event) => {
    const action = actions[keys[event.key]];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  });
  const time = (event) => {
    const box = svg.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
    return from + ((at - left) / (right - left)) * (until - from);
  };
  svg.addEventListener("wheel", (event) => {
    // Without a modifier the wheel scrolls the page.
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    zoom(event.deltaY + event.deltaX > 0 ? 1.25 : 0.8, time(event));
  }, { passive: false });
  svg.addEventListener("click", (event) => {
    const at = event.target.getAttribute("data-n");
    if (at !== null) select(Number(at));
  });
  document.getElementById("tools").hidden = false;
})();
