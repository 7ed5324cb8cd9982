// Plots as SVG: lines over days with marks, and amounts beside each other. What is drawn can be read as a table too.
import {html, useEffect, useRef, useState} from "./base.js";
import {ABSENT, MIB, age, amount, unixHour} from "./figures.js";

const LEFT = 74;
const RIGHT = 10;
const TOP = 30;
const BOTTOM = 24;
const HEIGHT = 240;

function useWidth() {
  const box = useRef(null);
  const [width, setWidth] = useState(640);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.max(240, Math.floor(entry.contentRect.width))));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  return [box, width];
}

// Three to five round values from 0 up: of CPU in tens, of memory in powers of two.
function ticks(resource, most) {
  const unit = resource === "cpu" ? 1 : MIB;
  const steps = resource === "cpu" ? [1, 2, 2.5, 5, 10] : [1, 2, 4, 8];
  const base = resource === "cpu" ? 10 : 8;
  let scale = unit;
  for (;;) {
    for (const step of steps) {
      if (step * scale * 4 >= most) {
        const made = [];
        for (let value = 0; value <= most || made.length < 2; value += step * scale) made.push(value);
        return made;
      }
    }
    scale *= base;
  }
}

// Lines break where hours are missing: what was not reported is no value.
function stretches(points) {
  const made = [];
  for (const [hour, value] of points) {
    const last = made.at(-1);
    if (value === null || value === undefined) {
      if (last?.length) made.push([]);
    } else if (last?.length && hour - last.at(-1)[0] <= 1) last.push([hour, value]);
    else if (last && !last.length) last.push([hour, value]);
    else made.push([[hour, value]]);
  }
  return made.filter((stretch) => stretch.length);
}

// A figure holds for its whole hour.
function stepPath(points, x, y) {
  return stretches(points)
    .map((stretch) => "M" + stretch.map(([hour, value]) => `${x(hour)} ${y(value)}H${x(hour + 1)}`).join("V").replace(/V(\S+) (\S+)H/g, "V$2H"))
    .join("");
}

function bandPath(low, high, x, y) {
  const lows = new Map(low);
  return stretches(high.filter(([hour, value]) => value !== null && lows.get(hour) !== null && lows.get(hour) !== undefined))
    .map((stretch) => {
      const there = stretch.map(([hour, value]) => `${x(hour)} ${y(value)}L${x(hour + 1)} ${y(value)}`).join("L");
      const back = [...stretch].reverse().map(([hour]) => `${x(hour + 1)} ${y(lows.get(hour))}L${x(hour)} ${y(lows.get(hour))}`).join("L");
      return `M${there}L${back}Z`;
    })
    .join("");
}

const PLOTTED = {
  cpu: {written: "writtenMillicores", requested: "requestedMillicores", recommended: "recommendedMillicores", mean: "usedMeanMillicores", p95: "usedP95Millicores"},
  memory: {written: "writtenBytes", requested: "requestedBytes", recommended: "recommendedBytes", mean: "usedMeanBytes", p95: "usedP95Bytes"},
};
const NAMES = {written: "as written", requested: "requested", recommended: "recommended", p95: "used, P95", mean: "used, mean"};

// hours: [{unixHour, cpu, memory}], oldest first. marks: [{unixHour, words, kind: "resize" | "kill"}].
export function History({title, resource, hours, marks = [], each = "hour", now = Date.now()}) {
  const [box, width] = useWidth();
  const [cursor, setCursor] = useState(null);
  const keys = PLOTTED[resource];
  const series = Object.fromEntries(Object.entries(keys).map(([name, key]) => [name, hours.map((hour) => [hour.unixHour, hour[resource][key]])]));
  const values = Object.values(series).flat().map(([, value]) => value).filter((value) => value !== null && value !== undefined);
  if (!values.length) {
    return html`<figure class="plot"><figcaption>${title}</figcaption><p class="empty" ref=${box}>No hour of it is known yet. The first figures come a quarter of an hour after the end of an hour in which a node reported.</p></figure>`;
  }
  const until = Math.floor(now / 3600000) + 1;
  const since = Math.min(hours[0].unixHour, until - 24);
  const lines = ticks(resource, Math.max(...values) * 1.04);
  const most = Math.max(lines.at(-1), Math.max(...values) * 1.04);
  const x = (hour) => LEFT + ((width - LEFT - RIGHT) * (hour - since)) / (until - since);
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / most);
  const r = (made) => (hour) => Math.round(made(hour) * 10) / 10;
  const [px, py] = [r(x), r(y)];
  const days = [];
  for (let at = new Date(since * 3600000); days.length < 40; ) {
    at = new Date(at.getFullYear(), at.getMonth(), at.getDate() + 1);
    if (at.getTime() / 3600000 >= until) break;
    days.push(at);
  }
  const every = Math.ceil((days.length * 46) / Math.max(1, width - LEFT - RIGHT));
  const known = new Map(hours.map((hour) => [hour.unixHour, hour]));
  const at = cursor === null ? null : known.get(cursor);

  function point(event) {
    const {left} = event.currentTarget.getBoundingClientRect();
    const hour = Math.floor(since + ((event.clientX - left - LEFT) / (width - LEFT - RIGHT)) * (until - since));
    setCursor(Math.max(since, Math.min(until - 1, hour)));
  }
  function press(event) {
    const step = {ArrowLeft: -1, ArrowRight: 1, PageUp: -24, PageDown: 24}[event.key];
    if (step) setCursor(Math.max(since, Math.min(until - 1, (cursor ?? until) + step)));
    else if (event.key === "Home") setCursor(since);
    else if (event.key === "End") setCursor(until - 1);
    else if (event.key === "Escape" && cursor !== null) setCursor(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
  const marksHere = cursor === null ? [] : marks.filter((mark) => mark.unixHour === cursor);
  const readout = cursor === null
    ? `Point at the plot, or go over it with the arrow keys, to read ${each === "hour" ? "an hour" : "a day"}.`
    : `${unixHour(cursor).here} (${unixHour(cursor).utc}): ${
        at ? Object.keys(NAMES).map((name) => `${NAMES[name]} ${amount(resource, at[resource][keys[name]])}`).join(", ") : "nothing was reported"
      }${marksHere.length ? `. ${marksHere.map((mark) => mark.words).join("; ")}` : ""}`;

  return html`<figure class="plot">
    <figcaption>${title} <span class="dim">all pods together, each ${each}</span></figcaption>
    <div ref=${box}>
      <svg width=${width} height=${HEIGHT} viewBox=${`0 0 ${width} ${HEIGHT}`} role="application" tabindex="0"
        aria-label=${`${title} over ${age((until - since) * 3600)}; arrow keys go from hour to hour`} aria-roledescription="plot"
        onPointerMove=${point} onPointerLeave=${() => setCursor(null)} onKeyDown=${press}>
        ${lines.map((value) => html`<g key=${value}><path class="grid" d=${`M${LEFT} ${py(value)}H${width - RIGHT}`} /><text class="tick" x=${LEFT - 8} y=${py(value) + 4} text-anchor="end">${amount(resource, value)}</text></g>`)}
        ${days.map((day, index) => html`<g key=${index}><path class="grid day" d=${`M${px(day.getTime() / 3600000)} ${TOP}V${HEIGHT - BOTTOM}`} />${index % every === 0 && html`<text class="tick" x=${px(day.getTime() / 3600000)} y=${HEIGHT - 7} text-anchor="middle">${`${day.getMonth() + 1}/${day.getDate()}`}</text>`}</g>`)}
        <path class="band" d=${bandPath(series.mean, series.p95, px, py)} />
        <path class="line mean" d=${stepPath(series.mean, px, py)} />
        <path class="line p95" d=${stepPath(series.p95, px, py)} />
        <path class="line written" d=${stepPath(series.written, px, py)} />
        <path class="line requested" d=${stepPath(series.requested, px, py)} />
        <path class="line recommended" d=${stepPath(series.recommended, px, py)} />
        ${marks.filter((mark) => mark.unixHour >= since).map((mark, index) => {
          const [mx, my] = [px(mark.unixHour + 0.5), mark.kind === "kill" ? 8 : 21];
          return html`<path key=${index} class=${`mark ${mark.kind}`} d=${mark.kind === "kill" ? `M${mx - 4} ${my - 4}l8 8m0 -8l-8 8` : `M${mx - 4} ${my + 4}h8l-4 -8z`}><title>${mark.words}</title></path>`;
        })}
        ${cursor !== null && html`<path class="cursor" d=${`M${px(cursor + 0.5)} ${TOP - 4}V${HEIGHT - BOTTOM}`} />`}
      </svg>
    </div>
    <p class="key">
      <span><i class="stroke p95"></i> used: mean to P95</span>
      <span><i class="stroke requested"></i> requested</span>
      <span><i class="stroke recommended"></i> recommended</span>
      <span><i class="stroke written"></i> as written</span>
      ${marks.some((mark) => mark.kind === "resize") && html`<span><b class="mark-sign">▲</b> resized</span>`}
      ${marks.some((mark) => mark.kind === "kill") && html`<span><b class="mark-sign kill">✕</b> killed for want of memory</span>`}
    </p>
    <p class="readout" role="status">${readout}</p>
    <details>
      <summary>The same as a table</summary>
      <${HourTable} title=${title} resource=${resource} hours=${hours} />
    </details>
  </figure>`;
}

function HourTable({title, resource, hours}) {
  const keys = PLOTTED[resource];
  const newest = hours.slice(-72).reverse();
  return html`<div class="scroll" tabindex="0" role="group" aria-label=${`${title}, the last ${newest.length} hours`}>
    <table role="table"><thead><tr><th class="left" scope="col">Hour (UTC)</th>${Object.values(NAMES).map((name) => html`<th key=${name} scope="col">${name}</th>`)}</tr></thead>
    <tbody>${newest.map((hour) => html`<tr key=${hour.unixHour}><td class="left" data-label="Hour (UTC)">${unixHour(hour.unixHour).utc}</td>${Object.keys(NAMES).map((name) => html`<td key=${name} data-label=${NAMES[name]}>${amount(resource, hour[resource][keys[name]])}</td>`)}</tr>`)}</tbody></table>
  </div>`;
}

// A node's resource as one track: reserved, base, headroom and what is free, with a mark at what pods request now.
// Where more is planned than there is, the track is as long as the plan, and the end of what is there has a mark.
const STACK = [["reserved", "reserved"], ["base", "base"], ["headroom", "headroom"]];

export function Stack({resource, sums}) {
  const of = (name) => sums[`${name}${resource === "cpu" ? "Millicores" : "Bytes"}`];
  const [allocatable, free, requested] = ["allocatable", "free", "requested"].map(of);
  const top = Math.max(allocatable, allocatable - free, requested, 1);
  const at = (value) => `${(100 * value) / top}%`;
  const say = (value) => amount(resource, value);
  const rest = free < 0 ? `${say(-free)} too much` : `${say(free)} free`;
  return html`<span class="stacked">
    <span class="stack" aria-hidden="true">
      ${STACK.map(([name]) => html`<i key=${name} class=${name} style=${{width: at(of(name))}}></i>`)}
      ${free < 0 && html`<b class="edge" style=${{left: at(allocatable)}}></b>`}
      <b class="now" style=${{left: at(requested)}}></b>
    </span>
    <span>${sums.infeasible ? html`<b class="bad">▲ does not fit, </b>` : ""}<b>${rest}</b> <span class="dim">of ${say(allocatable)}</span></span>
    <small class="dim">${STACK.map(([name, words]) => `${words} ${say(of(name))}`).join(", ")}; requested now ${say(requested)}</small>
  </span>`;
}

export const StackKey = () => html`<p class="key">
    <span><i class="swatch reserved"></i> reserved: pods that are not sized</span>
    <span><i class="swatch base"></i> base: what the others use for longer</span>
    <span><i class="swatch headroom"></i> headroom for spikes</span>
    <span><i class="swatch"></i> free by the plan</span>
    <span><b class="swatch now"></b> requested now</span>
  </p>`;

// Amounts of one kind beside each other, longest first or as given: bars with their figures.
export function Amounts({title, resource, items}) {
  const most = Math.max(...items.map(({value}) => value ?? 0), 1);
  return html`<figure class="amounts">
    <figcaption>${title}</figcaption>
    <dl>${items.map(
      ({name, value, kind, words}) => html`<div key=${name}>
        <dt>${name}</dt>
        <dd><span class="meter" aria-hidden="true"><i class=${kind} style=${{width: value === null || value === undefined ? "0" : `${(100 * value) / most}%`}}></i></span>
        <b>${value === null || value === undefined ? ABSENT : amount(resource, value)}</b>${words && html` <small class="dim">${words}</small>`}</dd>
      </div>`
    )}</dl>
  </figure>`;
}

