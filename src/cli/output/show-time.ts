/** Formats times for people: local time, without a zone. */

/** Formats a date and time. */
export function showTime(ms: number): string {
  const date = new Date(ms);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${showClock(ms).slice(0, 8)}`;
}

/** Formats the time of day, to the millisecond. */
export function showClock(ms: number): string {
  const date = new Date(ms);
  const clock = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");
  return `${clock}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

function two(n: number): string {
  return String(n).padStart(2, "0");
}
