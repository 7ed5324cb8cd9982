// Amounts, ages and shares in words: every figure has its unit, and what is not known is a dash, never 0.

export const ABSENT = "–";
export const MIB = 1 << 20;
const GIB = 1 << 30;

const known = (value) => typeof value === "number" && Number.isFinite(value);
const digits = (value, most) => value.toLocaleString("en", {maximumFractionDigits: most});
const three = (value) => digits(value, value >= 100 ? 0 : value >= 10 ? 1 : 2);

export function cpu(millicores) {
  if (!known(millicores)) return ABSENT;
  if (millicores === 0) return "0 cores";
  if (Math.abs(millicores) < 1000) return `${digits(millicores, Math.abs(millicores) < 10 ? 1 : 0)}m`;
  const cores = three(Math.abs(millicores) / 1000);
  return `${millicores < 0 ? "−" : ""}${cores} ${cores === "1" ? "core" : "cores"}`;
}

export function memory(bytes) {
  if (!known(bytes)) return ABSENT;
  const size = Math.abs(bytes);
  const sign = bytes < 0 ? "−" : "";
  if (size === 0) return "0 B";
  if (size < MIB) return `${sign}${three(size / 1024)} KiB`;
  if (size < GIB) return `${sign}${three(size / MIB)} MiB`;
  if (size < 1024 * GIB) return `${sign}${three(size / GIB)} GiB`;
  return `${sign}${three(size / GIB / 1024)} TiB`;
}

export function amount(resource, value) {
  return resource === "cpu" ? cpu(value) : memory(value);
}

// As manifests have it: what is copied into one.
export function quantity(resource, value) {
  if (!known(value)) return null;
  if (resource === "cpu") return `${Math.ceil(value)}m`;
  return value % MIB === 0 ? `${value / MIB}Mi` : `${Math.ceil(value / MIB)}Mi`;
}

export function percent(ratio) {
  if (!known(ratio)) return ABSENT;
  const value = ratio * 100;
  return `${digits(value, Math.abs(value) < 10 ? 1 : 0)} %`;
}

export function count(value, one, many) {
  if (!known(value)) return ABSENT;
  return many === undefined ? digits(value, 0) : `${digits(value, 0)} ${value === 1 ? one : many}`;
}

export function age(seconds) {
  if (!known(seconds)) return ABSENT;
  const whole = Math.max(0, seconds);
  if (whole < 1) return "now";
  if (whole < 90) return `${Math.round(whole)} s`;
  if (whole < 5400) return `${Math.round(whole / 60)} min`;
  if (whole < 129600) return `${Math.round(whole / 3600)} h`;
  return `${Math.round(whole / 86400)} days`;
}

export function ago(seconds) {
  const text = age(seconds);
  return text === ABSENT || text === "now" ? text : `${text} ago`;
}

const two = (value) => String(value).padStart(2, "0");

export function clock(ms) {
  const at = new Date(ms);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

// Of a moment in the past: here, and in UTC as logs have it.
export function moment(ms) {
  const at = new Date(ms);
  return {
    here: `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}`,
    utc: at.toISOString().replace(/\.\d+Z$/, "Z"),
  };
}

export function unixHour(hour) {
  return moment(hour * 3600000);
}

// Money comes as decimal text, exact. It is rounded to cents here as the command line does it, and never counted with.
export function money(text, currency) {
  const [, sign, whole, rest = ""] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(String(text ?? "")) ?? [];
  if (whole === undefined) return ABSENT;
  const kept = BigInt(whole + rest.padEnd(2, "0").slice(0, 2));
  const left = rest.slice(2);
  const isHalf = /^50*$/.test(left);
  const cents = kept + (left && (isHalf ? kept % 2n === 1n : left[0] >= "5") ? 1n : 0n);
  const shown = String(cents).padStart(3, "0");
  const grouped = shown.slice(0, -2).replace(/\B(?=(\d{3})+$)/g, ",");
  return `${sign && cents ? "−" : ""}${grouped}.${shown.slice(-2)} ${currency}`;
}
