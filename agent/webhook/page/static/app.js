// The page: its head, the screen that the address names, the keyboard, and how fresh all of it is.
import {html, render, useEffect, useLayoutEffect, useRef, useState} from "./base.js";
import {askNow, useFreshness} from "./client.js";
import {age, clock} from "./figures.js";
import {Notice} from "./parts.js";
import {go, to, useRoute} from "./route.js";
import {Cost, Events, Nodes, Now, Policy} from "./screens.js";
import {Workload, Workloads} from "./workloads.js";

const SCREENS = {
  now: {title: "Now", screen: Now},
  workloads: {title: "Workloads", screen: Workloads},
  nodes: {title: "Nodes", screen: Nodes},
  events: {title: "Events", screen: Events},
  policy: {title: "Policy", screen: Policy},
  cost: {title: "Cost", screen: Cost},
};

const KEYS = [
  ["1 … 6", "the screens, in their order"],
  ["/", "to the first filter"],
  ["j, k", "next and previous row"],
  ["Enter", "open the row"],
  ["← →, PgUp, PgDn", "in a plot: hour by hour, day by day"],
  ["r", "ask again now"],
  ["Esc", "leave a filter, close this, or back to the list"],
  ["?", "this help"],
];

const screenOf = (route) => (route.screen === "workloads" && route.parts.length === 3 ? Workload : SCREENS[route.screen]?.screen);

function Help({onClose}) {
  const dialog = useRef(null);
  useEffect(() => {
    dialog.current.showModal();
  }, []);
  return html`<dialog ref=${dialog} onClose=${onClose} aria-labelledby="help">
    <h2 id="help">Keys</h2>
    <dl class="keys">${KEYS.map(([key, words]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${words}</dd></div>`)}</dl>
    <h2>Words</h2>
    <dl class="words">
      <div><dt>requested</dt><dd>what the scheduler sets aside: the sum of the pods' requests</dd></div>
      <div><dt>as written</dt><dd>what the manifests ask for, before Plimsoll sized anything</dd></div>
      <div><dt>recommended</dt><dd>what Plimsoll would request</dd></div>
      <div><dt>used</dt><dd>mean and 95th percentile of what was measured in an hour</dd></div>
      <div><dt>short</dt><dd>used more than it requested, was killed for want of memory, or should request over 5 % more</dd></div>
      <div><dt>–</dt><dd>not known; never 0</dd></div>
    </dl>
    <form method="dialog"><button autofocus>Close</button></form>
  </dialog>`;
}

function Freshness() {
  const {at, fault, isStale} = useFreshness();
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((times) => times + 1), 5000);
    return () => clearInterval(timer);
  }, []);
  if (!at) return html`<span class="fresh dim">${fault ? "no answer" : ""}</span>`;
  const seconds = (Date.now() - at) / 1000;
  return html`<span class=${`fresh ${isStale ? "stale" : "dim"}`} title=${`answered at ${clock(at)}; asked each 10 s`}>${isStale ? "▲ " : ""}${seconds < 12 ? "up to date" : `${age(seconds)} old`}</span>`;
}

function StaleBanner() {
  const {at, fault, isStale} = useFreshness();
  if (!isStale || !at || [401, 403, 404].includes(fault.status)) return null;
  return html`<div class="stale-banner" role="alert"><${Notice} kind="warn" title=${`What you see is of ${clock(at)}.`}>
    Since then the webhook does not answer: ${fault.said}. It is asked again by itself. <button type="button" onClick=${askNow}>Ask now</button>
  <//></div>`;
}

function rows(step) {
  const links = [...document.querySelectorAll("[data-row]")];
  if (!links.length) return;
  const at = links.indexOf(document.activeElement);
  links[Math.max(0, Math.min(links.length - 1, at < 0 ? (step > 0 ? 0 : links.length - 1) : at + step))].focus();
}

function useKeys(route, setHelp) {
  // With the picture, not after it, and by what is open now: a key right after another finds what that one left.
  useLayoutEffect(() => {
    function press(event) {
      if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      const {target} = event;
      if (/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) {
        if (event.key === "Escape") target.blur();
        return;
      }
      const number = Number(event.key);
      if (number >= 1 && number <= 6) go(to(Object.keys(SCREENS)[number - 1]));
      else if (event.key === "/") document.querySelector("[data-first], .filter input, .filter select")?.focus();
      else if (event.key === "j") rows(1);
      else if (event.key === "k") rows(-1);
      else if (event.key === "r") askNow();
      else if (event.key === "?") setHelp(true);
      else if (event.key === "Escape" && route.parts.length) history.back();
      else return;
      event.preventDefault();
    }
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [route, setHelp]);
}

function Page() {
  const route = useRoute();
  const [help, setHelp] = useState(false);
  const main = useRef(null);
  const place = [route.screen, ...route.parts].join("/");
  const before = useRef(place);
  useKeys(route, setHelp);
  useLayoutEffect(() => { // as the keys: later it would take the focus from where a key has put it
    document.title = `${[...route.parts].reverse().join(", ") || SCREENS[route.screen]?.title || "?"} – Plimsoll`;
    if (before.current !== place) {
      before.current = place;
      scrollTo(0, 0);
      main.current.focus({preventScroll: true});
    }
  }, [place]);
  const Screen = screenOf(route);
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); main.current.focus(); }}>To the content</a>
    <header>
      <a class="brand" href=${to("now")}><svg viewBox="0 0 32 32" aria-hidden="true"><circle cx="16" cy="16" r="9" /><path d="M2 16h28" /></svg>Plimsoll</a>
      <nav aria-label="screens">${Object.entries(SCREENS).map(
        ([name, {title}]) => html`<a key=${name} href=${to(name)} aria-current=${route.screen === name ? "page" : undefined}>${title}</a>`
      )}</nav>
      <span class="side"><${Freshness} /><button type="button" onClick=${() => setHelp(true)} aria-label="Help: keys and words">?</button></span>
    </header>
    <${StaleBanner} />
    <main ref=${main} tabindex="-1" id="main" data-shown=${route.hash}>
      ${Screen ? html`<${Screen} key=${place} route=${route} />` : html`<h1>There is no such screen</h1><p><a href=${to("now")}>Back to Now</a></p>`}
    </main>
    ${help && html`<${Help} onClose=${() => setHelp(false)} />`}
  `;
}

const root = document.getElementById("page");
root.textContent = "";
render(html`<${Page} />`, root);
