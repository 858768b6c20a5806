/** Cron expressions in words, for the common forms. */

const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const NAMES = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/** Describes a cron expression; an unusual one is described field by field. */
export function cronWords(cron: string): string {
  const fields = cron.trim().split(/\s+/);
  const [minute, hour, day, month, weekday] = fields.length === 6 ? fields.slice(1) : fields;
  if (
    minute === undefined ||
    hour === undefined ||
    day === undefined ||
    month === undefined ||
    weekday === undefined
  )
    return "Not a cron expression yet";
  const time = timeWords(minute, hour);
  const days = dayWords(day, weekday);
  const isDaily = days === "" && time.startsWith("at ");
  const when = [isDaily ? "every day" : "", time, days, month === "*" ? "" : `in month ${month}`];
  const text = when.filter(Boolean).join(" ");
  return `${text[0]?.toUpperCase() ?? ""}${text.slice(1)}`;
}

function timeWords(minute: string, hour: string): string {
  const every = /^\*\/(\d+)$/;
  const step = every.exec(minute);
  if (step !== null && hour === "*") return `every ${step[1]} minutes`;
  if (minute === "*" && hour === "*") return "every minute";
  if (/^\d+$/.test(minute) && hour === "*")
    return minute === "0" ? "every hour" : `every hour, at minute ${minute}`;
  const hours = every.exec(hour);
  if (/^\d+$/.test(minute) && hours !== null)
    return `every ${hours[1]} hours${minute === "0" ? "" : `, at minute ${minute}`}`;
  if (/^\d+$/.test(minute) && /^[\d,]+$/.test(hour))
    return `at ${hour
      .split(",")
      .map((one) => `${one.padStart(2, "0")}:${minute.padStart(2, "0")}`)
      .join(", ")}`;
  return `at minute ${minute} of hour ${hour}`;
}

function dayWords(day: string, weekday: string): string {
  const ofMonth = day === "*" ? "" : `on day ${day} of the month`;
  if (weekday === "*" || weekday === "?") return ofMonth === "" ? "" : ofMonth;
  const names = weekday.split(",").map((part) => part.split("-").map(nameOf).join(" to "));
  const ofWeek = `on ${names.join(", ")}`;
  return ofMonth === "" ? ofWeek : `${ofMonth} or ${ofWeek}`;
}

function nameOf(day: string): string {
  const number = /^\d$/.test(day) ? Number(day) : NAMES.indexOf(day.toLowerCase().slice(0, 3));
  return DAYS[number] ?? day;
}
