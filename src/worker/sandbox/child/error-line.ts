/**
 * The line of the user's expression in which an error arose. QuickJS knows it for calls, throws, operators and the
 * beginnings of statements; for a property that is read, or a variable, it names the last such place before, which can
 * be lines away, or the function's beginning. There the name in the message is looked for, and if it is not in exactly
 * one line, none is told: better no line than another one.
 */

export interface Described {
  readonly name: string;
  readonly message: string;
  readonly stack: string;
}

/** Messages of the engine about what it has no place for; the first group is the name that the source has. */
const PLACELESS: readonly { readonly says: RegExp; readonly before: string }[] = [
  { says: /^cannot read property '([\w$]+)' of (?:undefined|null)$/, before: "(?:\\.\\s*|\\[\\s*[\"'`])" },
  { says: /^private class field '(#[\w$]+)' does not exist$/, before: "\\.\\s*" },
  { says: /^([\w$]+) is not defined$/, before: "(?<![\\w$.])" },
  { says: /^value is not iterable()$/, before: "" },
  { says: /^Cannot convert undefined or null to object()$/, before: "" },
];

/** From 1; null if it is not known. `file` is how the engine calls the source. */
export function errorLine(
  error: Described,
  { file, source }: { file: string; source: string },
): number | null {
  const place = new RegExp(`(?:^|[( ])${escaped(file)}:(\\d+)(?::(\\d+))?`, "m").exec(error.stack);
  if (place === null) return null;
  const [line, column] = [Number(place[1]), Number(place[2] ?? 1)];
  // Beneath a native function is the place of its call, which is known.
  const isTop = !error.stack.slice(0, place.index).includes("\n");
  const placeless = isTop ? PLACELESS.find(({ says }) => says.test(error.message)) : undefined;
  if (placeless === undefined) return line;
  const name = placeless.says.exec(error.message)?.[1] ?? "";
  if (name === "") return null;
  const uses = linesOf(new RegExp(`${placeless.before}${escaped(name)}(?![\\w$])`, "g"), source);
  const after = uses.filter((use) => use.line > line || (use.line === line && use.column >= column - 1));
  const lines = new Set((after.length > 0 ? after : uses).map((use) => use.line));
  return lines.size === 1 ? ([...lines][0] as number) : null;
}

/** Where a pattern's matches end. */
function linesOf(pattern: RegExp, source: string): { line: number; column: number }[] {
  return Array.from(source.matchAll(pattern), (match) => {
    const before = source.slice(0, match.index + match[0].length).split(/\r\n|[\r\n\u2028\u2029]/);
    return { line: before.length, column: (before.at(-1) as string).length };
  });
}

function escaped(text: string): string {
  return text.replaceAll(/[^\w]/g, "\\$&");
}
