/**
 * Finds the line of the user's expression in which an error arose. QuickJS knows it for calls, throws, operators and the
 * beginnings of statements. For a property or a variable that is read, it names an earlier place, which can be lines away. In
 * that case this file searches for the name in the message, and gives a line only if exactly one line has that name: no line is
 * better than a wrong one.
 */

export interface Described {
  readonly name: string;
  readonly message: string;
  readonly stack: string;
}

/** Engine messages whose position is unreliable. The first group is the name as it stands in the source. */
const PLACELESS: readonly { readonly says: RegExp; readonly before: string }[] = [
  { says: /^cannot read property '([\w$]+)' of (?:undefined|null)$/, before: "(?:\\.\\s*|\\[\\s*[\"'`])" },
  { says: /^private class field '(#[\w$]+)' does not exist$/, before: "\\.\\s*" },
  { says: /^([\w$]+) is not defined$/, before: "(?<![\\w$.])" },
  { says: /^value is not iterable()$/, before: "" },
  { says: /^Cannot convert undefined or null to object()$/, before: "" },
];

/** The line, counted from 1; null: unknown. `file` is the engine's name of the source. */
export function errorLine(
  error: Described,
  { file, source }: { file: string; source: string },
): number | null {
  const place = new RegExp(`(?:^|[( ])${escaped(file)}:(\\d+)(?::(\\d+))?`, "m").exec(error.stack);
  if (place === null) return null;
  const [line, column] = [Number(place[1]), Number(place[2] ?? 1)];
  // Below a native function in the stack is the place of its call, which is reliable.
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

/** The lines in which the matches of a pattern end. */
function linesOf(pattern: RegExp, source: string): { line: number; column: number }[] {
  return Array.from(source.matchAll(pattern), (match) => {
    const before = source.slice(0, match.index + match[0].length).split(/\r\n|[\r\n\u2028\u2029]/);
    return { line: before.length, column: (before.at(-1) as string).length };
  });
}

function escaped(text: string): string {
  return text.replaceAll(/[^\w]/g, "\\$&");
}
