// What screens are made of: tables, bars, commands to copy, exports, and the words for what is not there.
import {html, useEffect, useRef, useState} from "./base.js";
import {advice, ask, askNow, query, setToken, useAnswer} from "./client.js";
import {ABSENT, ago, amount, clock, money} from "./figures.js";
import {change} from "./route.js";

// Commands, to be run by whoever may: nothing in this page writes.

const SHELL_SAFE = /^[A-Za-z0-9_@%+=:,./-]+$/;
export const quoted = (word) => (SHELL_SAFE.test(word) ? word : `'${String(word).replaceAll("'", "'\\''")}'`);
export const command = (...words) => words.map(quoted).join(" ");

export function Command({text, label}) {
  const [said, setSaid] = useState("");
  const code = useRef(null);
  async function copy() {
    try {
      await navigator.clipboard.writeText(text);
      setSaid("copied");
    } catch {
      getSelection().selectAllChildren(code.current);
      setSaid("marked: copy it");
    }
    setTimeout(() => setSaid(""), 2500);
  }
  return html`<div class="command">
    ${label && html`<p>${label}</p>`}
    <div class="line">
      <pre tabindex="0" role="group" aria-label=${label ?? "command"}><code ref=${code}>${text}</code></pre>
      <button type="button" onClick=${copy} aria-label=${`Copy: ${label ?? text}`}>${said || "Copy"}</button>
    </div>
    <span class="unseen" role="status">${said}</span>
  </div>`;
}

// What is not there, and why.

export function Notice({kind = "note", title, children}) {
  const sign = {bad: "▲", warn: "!", note: "i", good: "✓"}[kind];
  return html`<div class=${`notice ${kind}`}>
    <b class="sign" aria-hidden="true">${sign}</b>
    <div>${title && html`<strong>${title}</strong>`} ${children}</div>
  </div>`;
}

export function TokenBox() {
  const input = useRef(null);
  function take(event) {
    event.preventDefault();
    setToken(input.current.value.trim());
    input.current.value = "";
  }
  return html`<form class="token" onSubmit=${take}>
    <label for="token">Token</label>
    <input id="token" ref=${input} type="password" autocomplete="off" spellcheck=${false} required />
    <button type="submit">Look</button>
  </form>`;
}

export function Refused({fault}) {
  const {title, todo, commands} = advice(fault);
  return html`<section class="refused" role="alert">
    <h2>${title}</h2>
    <p>${todo}</p>
    ${commands.map((text) => html`<${Command} key=${text} text=${text} />`)}
    ${fault.wantsToken ? html`<${TokenBox} />` : html`<p><button type="button" onClick=${askNow}>Ask again now</button></p>`}
  </section>`;
}

// One answer on the screen: loading, refused, or what is made of it.
export function Answered({path, poll, children}) {
  const {entry, fault} = useAnswer(path, {poll});
  if (!entry) return fault ? html`<${Refused} fault=${fault} />` : html`<${Loading} />`;
  if (fault && [401, 403, 404].includes(fault.status)) return html`<${Refused} fault=${fault} />`;
  return children(entry.body);
}

export function Loading() {
  return html`<div class="loading" role="status"><span class="unseen">Loading</span><i></i><i></i><i></i></div>`;
}

export function Scope({scope}) {
  if (!scope || scope.wholeCluster) return null;
  return html`<${Notice} kind="note" title=${`${scope.words}.`}>
    What is here counts these alone; the rest of the cluster is left out of rows and sums.
  <//>`;
}

// Severity is told by a sign and a word; the colour only repeats it.
export const SEVERITIES = {
  short: {sign: "▲", word: "short"},
  over: {sign: "▽", word: "too much"},
  fits: {sign: "●", word: "fits"},
  unknown: {sign: "○", word: "not known"},
};

export function Severity({name, words}) {
  const {sign, word} = SEVERITIES[name] ?? SEVERITIES.unknown;
  return html`<span class=${`severity ${name}`} title=${words}><b aria-hidden="true">${sign}</b> ${word}</span>`;
}

// Used, requested and recommended on one track; words beside it say the same.
export function Bar({resource, used, requested, recommended, most}) {
  const top = most || Math.max(used ?? 0, requested ?? 0, recommended ?? 0);
  if (!top) return null;
  const at = (value) => `${Math.min(100, (100 * value) / top)}%`;
  const words = [
    ["used (P95)", used],
    ["requested", requested],
    ["recommended", recommended],
  ]
    .map(([name, value]) => `${name} ${amount(resource, value)}`)
    .join(", ");
  const isShort = requested !== null && used > requested;
  return html`<span class="bar" role="img" aria-label=${words} title=${words}>
    ${requested !== null && requested !== undefined && html`<i class="requested" style=${{width: at(requested)}}></i>`}
    ${used !== null && used !== undefined && html`<i class=${`used ${isShort ? "beyond" : ""}`} style=${{width: at(used)}}></i>`}
    ${recommended !== null && recommended !== undefined && html`<i class="recommended" style=${{left: at(recommended)}}></i>`}
  </span>`;
}

export function BarKey() {
  return html`<p class="key">
    <span><i class="swatch used"></i> used (P95 of the hour)</span>
    <span><i class="swatch requested"></i> requested now</span>
    <span><i class="swatch recommended"></i> recommended</span>
  </p>`;
}

// Money; with a mark where it is of a list and not of the operator's own prices.
export const Price = ({text, pricing, isList}) =>
  html`<span class="money">${money(text, pricing.currency)}${isList ? html`<abbr title=${pricing.listPriceNote}>*</abbr>` : ""}</span>`;

// A table: columns say how a cell is drawn, and how it reads in an export.
// What fits on no screen comes a moment after what does: of a long list, the first rows are there three times as soon.
const FIRST_ROWS = 40;

export function Table({caption, columns, rows, keyOf, sort, onSort, isReversed, empty}) {
  const [isWhole, setWhole] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setWhole(true), 0);
    return () => clearTimeout(timer);
  }, []);
  if (!rows.length) return html`<div class="empty">${empty}</div>`;
  return html`<div class="scroll" role="group" aria-label=${caption} tabindex="0">
    <table role="table">
      <caption class="unseen">${caption}</caption>
      <thead role="rowgroup"><tr role="row">
        ${columns.map(
          (column) => html`<th key=${column.name} role="columnheader" scope="col" class=${column.left ? "left" : ""}
            aria-sort=${column.sort && sort === column.sort ? (isReversed ? "ascending" : "descending") : undefined}>
            ${column.sort && onSort
              ? html`<button type="button" class="sort" onClick=${() => onSort(column.sort)}>${column.name}${sort === column.sort ? (isReversed ? " ↑" : " ↓") : ""}</button>`
              : column.name}
          </th>`
        )}
      </tr></thead>
      <tbody role="rowgroup">
        ${(isWhole ? rows : rows.slice(0, FIRST_ROWS)).map(
          (row) => html`<tr key=${keyOf(row)} role="row">
            ${columns.map(
              (column) => html`<td key=${column.name} role="cell" data-label=${column.name} class=${[column.left ? "left" : "", column.kind ?? ""].join(" ").trim()}>${column.cell(row)}</td>`
            )}
          </tr>`
        )}
      </tbody>
    </table>
  </div>`;
}

// Exports are made here, of what the webhook told; amounts are whole numbers with the unit in the column's name.

// A spreadsheet takes what begins so for a formula.
const FORMULA = /^[=+\-@\t\r]/;
const DECIMAL = /^-?\d+(\.\d+)?$/;

function csvCell(value) {
  if (value === null || value === undefined) return "";
  let text = String(value);
  if (typeof value === "string" && FORMULA.test(text) && !DECIMAL.test(text)) text = `'${text}`;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function csv(fields, rows) {
  const lines = [Object.keys(fields), ...rows.map((row) => Object.values(fields).map((field) => field(row)))];
  return lines.map((line) => line.map(csvCell).join(",")).join("\r\n") + "\r\n";
}

export function markdown(fields, rows) {
  const cell = (value) => (value === null || value === undefined ? ABSENT : String(value).replace(/[\\|`*_<>[\]]/g, "\\$&").replace(/\s+/g, " "));
  const line = (values) => `| ${values.join(" | ")} |`;
  const names = Object.keys(fields);
  return [line(names), line(names.map(() => "---")), ...rows.map((row) => line(Object.values(fields).map((field) => cell(field(row)))))].join("\n") + "\n";
}

export function save(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], {type}));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// All pages of a list: what is exported is all that matches, not what is on the screen.
export async function allOf(path, values, field) {
  const rows = [];
  let after = null;
  do {
    const {body} = await ask(query(path, {...values, limit: 500, after}));
    rows.push(...body[field]);
    after = body.next;
  } while (after);
  return rows;
}

export function Exports({name, fields, all}) {
  const [said, setSaid] = useState("");
  const makers = {
    CSV: ["csv", "text/csv", (rows) => csv(fields, rows)],
    JSON: ["json", "application/json", (rows) => JSON.stringify(rows, null, 2) + "\n"],
    Markdown: ["md", "text/markdown", (rows) => markdown(fields, rows)],
  };
  async function make(kind) {
    const [suffix, type, write] = makers[kind];
    setSaid("being fetched…");
    try {
      const rows = await all();
      save(`plimsoll-${name}.${suffix}`, type, write(rows));
      setSaid(`${rows.length.toLocaleString("en")} rows saved`);
    } catch (fault) {
      setSaid(`not saved: ${fault.said ?? fault.message}`);
    }
  }
  return html`<span class="exports">
    <span class="dim" id=${`save-${name}`}>Save as</span>
    ${Object.keys(makers).map((kind) => html`<button key=${kind} type="button" aria-describedby=${`save-${name}`} onClick=${() => make(kind)}>${kind}</button>`)}
    <span role="status" class="dim">${said}</span>
  </span>`;
}

// Filters: what is typed stands in the address after a breath.
export function FilterBox({label, name, value, placeholder, isFirst}) {
  const [text, setText] = useState(value ?? "");
  const timer = useRef(null);
  // What stands in the address by another's hand comes here; what comes from here must not come back over later keys.
  const held = useRef(value ?? "");
  useEffect(() => {
    if (held.current === (value ?? "")) return;
    held.current = value ?? "";
    setText(held.current);
  }, [value]);
  function typed(event) {
    const next = event.target.value;
    setText(next);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      held.current = next.trim();
      change({[name]: held.current, after: null});
    }, 200);
  }
  return html`<label class="filter"><span>${label}</span>
    <input type="search" data-first=${isFirst ? "yes" : undefined} value=${text} onInput=${typed} placeholder=${placeholder} spellcheck=${false} autocomplete="off" maxlength="100" />
  </label>`;
}

export function Choice({label, name, value, options}) {
  return html`<label class="filter"><span>${label}</span>
    <select value=${value ?? ""} onChange=${(event) => change({[name]: event.target.value, after: null})}>
      ${options.map(([key, words]) => html`<option key=${key} value=${key} selected=${key === (value ?? "")}>${words}</option>`)}
    </select>
  </label>`;
}

export function Pages({shown, total, next, after, what}) {
  const back = useRef([]);
  if (!after) back.current = [];
  return html`<nav class="pages" aria-label="pages">
    <span>${total === undefined || total === null ? `${shown.toLocaleString("en")} ${what}` : `${shown.toLocaleString("en")} of ${total.toLocaleString("en")} ${what}`}</span>
    ${after && html`<button type="button" onClick=${() => change({after: back.current.pop() ?? null})}>← Back</button>`}
    ${next && html`<button type="button" onClick=${() => { back.current.push(after); change({after: next}); scrollTo(0, 0); }}>More →</button>`}
  </nav>`;
}

const ACTIONS = {
  resize: "resized", revert: "taken back", restore: "restored", boost: "boosted for its start", unboost: "boost taken back",
  eviction: "evicted", taint: "tainted", untaint: "taint taken off", pod_limits: "pod limits", qos_reserve: "memory protected",
  pause: "paused", resume: "resumed", pin: "pinned", unpin: "unpinned", notice: "notice",
};
export const actionWords = (action) => ACTIONS[action] ?? action;

const GOOD = new Set(["applied", "accepted", "done"]);
const WAITING = new Set(["deferred", "proposed", "withheld"]);
export function Outcome({name}) {
  const kind = GOOD.has(name) ? "good" : WAITING.has(name) ? "waits" : "bad";
  const sign = {good: "✓", waits: "◷", bad: "✕"}[kind];
  return html`<span class=${`outcome ${kind}`}><b aria-hidden="true">${sign}</b> ${name}</span>`;
}

export function changeWords({container, resource, field, before, after}) {
  const side = (value) => (value === null || value === undefined ? "not set" : amount(resource, value));
  return `${container ? `${container}: ` : ""}${resource === "cpu" ? "CPU" : "memory"} ${field} ${side(before)} → ${side(after)}`;
}

export const Ago = ({seconds, now = Date.now()}) =>
  html`<time title=${seconds === null || seconds === undefined ? undefined : `${new Date(now - seconds * 1000).toISOString().slice(0, 19)}Z, ${clock(now - seconds * 1000)} here`}>${ago(seconds)}</time>`;
