// Questions to /v1: the token, what is kept, when to ask again, and what a refusal means for who looks at it.
import {useEffect, useRef, useState} from "./base.js";

const POLL_MS = 10000;
const MOST_WAIT_MS = 80000;
const KEPT = 40;

// In memory only: a reload forgets it, and nothing else can read it.
let token = null;
const tokenHolders = new Set();
export function setToken(text) {
  token = text || null;
  kept.clear();
  for (const holder of tokenHolders) holder();
}
export const hasToken = () => token !== null;

const kept = new Map();

function keep(path, entry) {
  kept.delete(path);
  kept.set(path, entry);
  if (kept.size > KEPT) kept.delete(kept.keys().next().value);
}

export class Fault extends Error {
  constructor(status, said, {retrySeconds = null, wantsToken = false} = {}) {
    super(said);
    Object.assign(this, {status, said, retrySeconds, wantsToken});
  }
}

// Fields that grow by themselves, so that a 304 says nothing of them: those that `tagged` of reader_request.py leaves out.
const AGES = /^(ageSeconds|[a-zA-Z]+AgeSeconds|historySeconds)$/;

function older(value, seconds, key) {
  if (typeof value === "number") return AGES.test(key) ? value + seconds : key === "stopShrinkingSeconds" ? Math.max(0, value - seconds) : value;
  if (Array.isArray(value)) return value.map((item) => older(item, seconds));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, older(item, seconds, name)]));
}

// An answer that was kept, with ages of now; null = there is none.
function aged(entry) {
  if (!entry) return null;
  const now = Date.now();
  return Object.assign(entry, {body: older(entry.body, (now - entry.since) / 1000), since: now});
}

// Return {body, since, at}: what the webhook said, the moment its ages are of, and when it still held. Throws a Fault.
export async function ask(path, signal) {
  const headers = token === null ? {} : {Authorization: `Bearer ${token}`};
  const before = kept.get(path);
  if (before?.etag) headers["If-None-Match"] = before.etag;
  let answer;
  try {
    answer = await fetch(path, {headers, signal, cache: "no-store", credentials: "same-origin", redirect: "error"});
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Fault(0, "nothing answers at this address");
  }
  if (answer.status === 304 && before) {
    before.at = Date.now();
    return aged(before);
  }
  const text = await answer.text();
  let body = null;
  try {
    body = JSON.parse(text);
  } catch {
    if (answer.ok) throw new Fault(answer.status, "the answer is no JSON");
  }
  if (!answer.ok) {
    throw new Fault(answer.status, typeof body?.error === "string" ? body.error : answer.statusText, {
      retrySeconds: Number(answer.headers.get("Retry-After")) || null,
      wantsToken: answer.status === 401 && /bearer/i.test(answer.headers.get("WWW-Authenticate") ?? ""),
    });
  }
  const entry = {body, since: Date.now(), at: Date.now(), etag: answer.headers.get("ETag")};
  keep(path, entry);
  return entry;
}

// What is wrong in a few words, and what to do about it.
export function advice(fault) {
  const said = fault.said ? `It said: ${fault.said}.` : "";
  switch (fault.status) {
    case 0:
      return {
        title: "The webhook does not answer.",
        todo: "If you came by plimsoll ui or kubectl port-forward, see in the terminal whether it still runs, and start it again. Otherwise look at its pods:",
        commands: ["plimsoll ui", "kubectl -n plimsoll get pods -l plimsoll.dev/part=webhook"],
      };
    case 401:
      return fault.wantsToken
        ? {
            title: "The webhook wants to know who asks.",
            todo: "Paste a token below. It is kept in this page's memory only, and forgotten with a reload. This prints one that is good for an hour:",
            commands: ["kubectl -n plimsoll create token plimsoll-webhook-reader --audience plimsoll-webhook --duration 1h"],
          }
        : {
            title: "This address is not open any more.",
            todo: `${said} Start it again, and open the address that it prints:`,
            commands: ["plimsoll ui"],
          };
    case 403:
      return {
        title: "You may not read this.",
        todo: `${said} Whoever may list the pods of a namespace sees that namespace here; the right to get the nonResourceURL /v1/* shows the whole cluster. Ask an administrator for one of them:`,
        commands: ["kubectl auth can-i list pods -n NAMESPACE", "kubectl auth can-i get /v1/workloads"],
      };
    case 404:
      return {
        title: "This webhook does not have it.",
        todo: `${said} Either what was asked for is not known here, or the webhook is of a release without this screen: then upgrade the chart.`,
        commands: ["helm -n plimsoll list"],
      };
    case 400:
      return {title: "The question was not understood.", todo: `${said} Clear the filter, or take another screen.`, commands: []};
    case 429:
      return {title: "Too many questions at once.", todo: `${said} It is asked again by itself.`, commands: []};
    case 502:
      return {
        title: "No way to the webhook.",
        todo: `${said} It is asked again by itself. If this stays, look at its pods:`,
        commands: ["kubectl -n plimsoll get pods -l plimsoll.dev/part=webhook"],
      };
    case 503:
      return {
        title: "The webhook cannot tell now.",
        todo: `${said} Nodes go on by themselves meanwhile. It is asked again by itself. If this stays, see its log:`,
        commands: ["kubectl -n plimsoll logs -l plimsoll.dev/part=webhook --tail 50"],
      };
    default:
      return {
        title: `The webhook failed (${fault.status}).`,
        todo: `${said} See its log:`,
        commands: ["kubectl -n plimsoll logs -l plimsoll.dev/part=webhook --tail 50"],
      };
  }
}

// Of whatever is on the screen: when the oldest answer came, and what is wrong.
const watched = new Map();
const freshHolders = new Set();
const tell = () => freshHolders.forEach((holder) => holder());
export function useFreshness() {
  const [, again] = useState(0);
  useEffect(() => {
    const holder = () => again((times) => times + 1);
    freshHolders.add(holder);
    return () => freshHolders.delete(holder);
  }, []);
  const entries = [...watched.values()];
  const times = entries.map((entry) => entry.at).filter(Boolean);
  return {
    at: times.length ? Math.min(...times) : null,
    fault: entries.find((entry) => entry.fault)?.fault ?? null,
    isStale: entries.some((entry) => entry.fault && entry.at),
    next: Math.min(...entries.map((entry) => entry.next ?? Infinity)),
  };
}

const askers = new Set();
export const askNow = () => askers.forEach((asker) => asker());

// Ask for a path now and each ten seconds while the page is looked at; null = nothing is asked.
export function useAnswer(path, {poll = true} = {}) {
  const [state, setState] = useState(() => ({path, entry: aged(kept.get(path)), fault: null}));
  const key = useRef(Symbol("asked"));
  useEffect(() => {
    if (!path) return undefined;
    const own = key.current;
    let timer = null;
    let waitMs = POLL_MS;
    let stop = new AbortController();
    const before = aged(kept.get(path));
    setState({path, entry: before, fault: null});
    watched.set(own, {at: before?.at ?? null, fault: null});

    async function look() {
      clearTimeout(timer);
      stop.abort();
      stop = new AbortController();
      const {signal} = stop;
      try {
        const entry = await ask(path, signal);
        if (signal.aborted) return;
        waitMs = POLL_MS;
        setState({path, entry: {...entry}, fault: null});
        watched.set(own, {at: entry.at, fault: null});
      } catch (fault) {
        if (signal.aborted) return;
        waitMs = fault.retrySeconds ? fault.retrySeconds * 1000 : Math.min(waitMs * 2, MOST_WAIT_MS);
        const held = aged(kept.get(path));
        setState({path, entry: held, fault});
        watched.set(own, {at: held?.at ?? null, fault, next: Date.now() + waitMs});
      }
      tell();
      if (poll) timer = setTimeout(() => (document.hidden ? wait() : look()), waitMs);
    }
    function wait() {
      document.addEventListener("visibilitychange", look, {once: true});
    }
    askers.add(look);
    tokenHolders.add(look);
    look();
    return () => {
      clearTimeout(timer);
      stop.abort();
      document.removeEventListener("visibilitychange", look);
      askers.delete(look);
      tokenHolders.delete(look);
      watched.delete(own);
      tell();
    };
  }, [path, poll]);
  // Until the effect has run, what is held is of the path of before.
  return state.path === path ? state : {path, entry: aged(kept.get(path)), fault: null};
}

export function query(path, values) {
  const made = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== null && value !== undefined && value !== "") made.set(name, value);
  }
  const text = made.toString();
  return text ? `${path}?${text}` : path;
}

export const pathOf = (...parts) => parts.map(encodeURIComponent).join("/");
