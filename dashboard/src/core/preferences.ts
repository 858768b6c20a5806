/** Choices of the user that are kept on this device: where links to source lines and to traces lead. */
import { Cell } from "./cell.ts";

/** Addresses that open a file in an editor, by its name. */
const EDITORS = {
  "VS Code": (file: string, line: string) => `vscode://file${file}:${line}`,
  Cursor: (file: string, line: string) => `cursor://file${file}:${line}`,
  Zed: (file: string, line: string) => `zed://file${file}:${line}`,
  "JetBrains IDE": (file: string, line: string) =>
    `idea://open?file=${encodeURIComponent(file)}&line=${line.split(":")[0] ?? ""}`,
} as const;

export const EDITOR_NAMES: readonly string[] = Object.keys(EDITORS);

const EDITOR_KEY = "rondo.editor";
const TRACES_KEY = "rondo.traces";

/** The name of the editor that opens source lines; empty: lines are no links. */
export const editor = new Cell(localStorage.getItem(EDITOR_KEY) ?? "");
/** The address of a trace, with `{traceId}` in place of its id; empty: traces are no links. */
export const traceAddress = new Cell(localStorage.getItem(TRACES_KEY) ?? "");

export function chooseEditor(name: string): void {
  keep(EDITOR_KEY, name);
  editor.set(name);
}

export function chooseTraceAddress(address: string): void {
  keep(TRACES_KEY, address);
  traceAddress.set(address);
}

function keep(key: string, value: string): void {
  if (value === "") localStorage.removeItem(key);
  else localStorage.setItem(key, value);
}

/** A line of a stack: the text before the place, the place, and the text after it. */
const PLACE = /^(.*?\(?(?:file:\/\/)?)(\/[^():]+|[A-Za-z]:[\\/][^():]+):(\d+(?::\d+)?)(\)?)$/;

/** The address that opens the place that a line of a stack names; null if there is none. */
export function sourceLink(line: string, name: string): string | null {
  const [, , file, place] = PLACE.exec(line.trimEnd()) ?? [];
  if (file === undefined || place === undefined || !Object.hasOwn(EDITORS, name)) return null;
  const path = file.replaceAll("\\", "/");
  const rooted = path.startsWith("/") ? path : `/${path}`;
  return EDITORS[name as keyof typeof EDITORS](encodeURI(rooted), place);
}

/** The address of a trace; null if the user has given none, or one that is no web address. */
export function traceLink(traceId: string, address: string): string | null {
  return /^https?:\/\//.test(address) ? address.replaceAll("{traceId}", traceId) : null;
}
