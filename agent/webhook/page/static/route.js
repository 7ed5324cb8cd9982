// What is looked at stands in the address, after the #: screen, what it is about, filters. So a reload and a link keep it.
import {useLayoutEffect, useState} from "./base.js";

function read() {
  const text = location.hash.replace(/^#\/?/, "");
  const [path, search = ""] = text.split("?");
  const [screen, ...parts] = path.split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  return {screen: screen || "now", parts, query: new URLSearchParams(search), hash: location.hash};
}

const holders = new Set();
addEventListener("hashchange", () => holders.forEach((holder) => holder()));

export function useRoute() {
  const [route, setRoute] = useState(read);
  // With the first drawing, not after it: a change of the address between the two would be told to nobody.
  useLayoutEffect(() => {
    const holder = () => setRoute(read());
    holders.add(holder);
    return () => holders.delete(holder);
  }, []);
  return route;
}

export function to(screen, parts = [], query = {}) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value) search.set(name, value);
  const text = search.toString();
  return `#/${[screen, ...parts].map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export function go(hash) {
  location.hash = hash;
}

// Change filters in place: no step of the history for each key that is typed.
export function change(values) {
  const {screen, parts, query} = read();
  for (const [name, value] of Object.entries(values)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  history.replaceState(null, "", to(screen, parts, Object.fromEntries(query)));
  holders.forEach((holder) => holder());
}
