/** Numbers, times and durations as texts. */

const WHOLE = new Intl.NumberFormat("en-US");

/** Formats a number as 12,345. */
export function count(n: number): string {
  return WHOLE.format(n);
}

/** Formats a number for narrow places, as 12.3k or 4.5M. */
export function short(n: number): string {
  if (n < 10_000) return count(Math.round(n));
  if (n < 1_000_000) return `${trim(n / 1_000)}k`;
  if (n < 1_000_000_000) return `${trim(n / 1_000_000)}M`;
  return `${trim(n / 1_000_000_000)}G`;
}

/** Formats a rate per second. */
export function rate(n: number): string {
  if (n === 0) return "0";
  if (n < 0.1) return n.toFixed(2);
  return n < 100 ? trim(n) : short(Math.round(n));
}

function trim(n: number): string {
  return n >= 100 ? String(Math.round(n)) : n.toFixed(1).replace(/\.0$/, "");
}

/** Formats a duration, as 12 ms, 3.4 s, 5 m 06 s, 2 h 10 m, 3 d 4 h or 30 d. */
export function duration(ms: number): string {
  if (ms < 1) return ms <= 0 ? "0 ms" : "<1 ms";
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  const s = Math.floor(ms / 1_000);
  if (s < 3_600) return `${Math.floor(s / 60)} m ${pad(s % 60)} s`;
  if (s < 86_400) return `${Math.floor(s / 3_600)} h ${pad(Math.floor(s / 60) % 60)} m`;
  const h = Math.floor(s / 3_600) % 24;
  return `${Math.floor(s / 86_400)} d${h === 0 ? "" : ` ${h} h`}`;
}

/** Formats a duration that somebody has chosen, without its zeros: 2 d, 5 m, 1 s. */
export function chosenDuration(ms: number): string {
  return duration(ms)
    .replace(".0 s", " s")
    .replace(/ 00 [ms]$/, "");
}

function pad(n: number): string {
  return String(n).padStart(2, "0");
}

/** Formats a time relative to now, as "3 m ago" or "in 2 h". */
export function relative(at: number, now: number): string {
  const ms = at - now;
  if (Math.abs(ms) < 1_500) return "now";
  const text = coarse(Math.abs(ms));
  return ms < 0 ? `${text} ago` : `in ${text}`;
}

/** Rounds a duration to one unit, as 45 s, 12 m, 3 h or 9 d. */
export function coarse(ms: number): string {
  const s = Math.round(ms / 1_000);
  if (s < 60) return `${s} s`;
  const m = Math.round(s / 60);
  if (m < 60) return `${m} m`;
  const h = Math.round(s / 3_600);
  return h < 24 ? `${h} h` : `${Math.round(s / 86_400)} d`;
}

/** The worker's name in a worker id `name~id`. */
export function workerName(id: string): string {
  return id.slice(0, id.lastIndexOf("~")) || id;
}

/** Formats a time as 2026-11-15 14:03:07.123, in the user's own time zone. */
export function moment(at: number, options: { readonly withMs?: boolean } = {}): string {
  const date = new Date(at);
  const day = `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
  return `${day} ${clock(at, options)}`;
}

/** Formats a time as 2026-11-15 14:03, in a given time zone. */
export function momentIn(timeZone: string, at: number): string {
  // The Swedish locale writes dates in this form.
  return new Intl.DateTimeFormat("sv-SE", { timeZone, dateStyle: "short", timeStyle: "short" }).format(at);
}

/** Formats a time of day as 14:03:07. */
export function clock(at: number, options: { readonly withMs?: boolean } = {}): string {
  const date = new Date(at);
  const time = `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
  return options.withMs === true ? `${time}.${String(date.getMilliseconds()).padStart(3, "0")}` : time;
}

/** Formats a size as 12.3 MB. */
export function bytes(n: number): string {
  if (n < 1_024) return `${n} B`;
  if (n < 1_048_576) return `${trim(n / 1_024)} KB`;
  if (n < 1_073_741_824) return `${trim(n / 1_048_576)} MB`;
  return `${trim(n / 1_073_741_824)} GB`;
}

/** Formats a count with its noun, as "1 task" or "2 tasks". */
export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** Groups the digits of the counts in a sentence: 875,312. */
export function grouped(text: string): string {
  return text.replaceAll(/(?<=^|[\s:;])\d{4,9}(?=[\s.;,]|$)/g, (digits) => count(Number(digits)));
}
