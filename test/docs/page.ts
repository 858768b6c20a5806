/**
 * A page of the documentation as its blocks of code. A block is named by its info string (```json repo.json) or by a
 * comment in its first line (// flows.ts, # worker.py). Comments of HTML right above a block are for the tests:
 * `<!-- not run: why -->` leaves it out, `<!-- first: command -->` is run before it, unseen by readers.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** The folder of the repository. */
export const ROOT = fileURLToPath(new URL("../../", import.meta.url));

export interface Block {
  /** The page's line that it begins at. */
  readonly line: number;
  readonly language: string;
  /** The file that it is; null if it has no name. */
  readonly file: string | null;
  readonly text: string;
  /** Why it is not run; null if it is. */
  readonly notRun: string | null;
  /** What is run before it. */
  readonly first: readonly string[];
}

const FENCE = /^```(\w*)(?: (\S+))?\n([\s\S]*?)^```$/gm;
const NAMED = /^(?:\/\/|#) ([\w./-]+\.(?:ts|mts|js|mjs|py|yaml|yml|json))\n/;

/** The blocks of a page, in their order. */
export function blocksOf(markdown: string): Block[] {
  return Array.from(
    markdown.matchAll(FENCE),
    ({ 0: all, 1: language = "", 2: info, 3: text = "", index }) => {
      const above = notesAbove(markdown.slice(0, index));
      return {
        line: markdown.slice(0, index).split("\n").length,
        language: all.startsWith("```\n") ? "" : language,
        file: info ?? NAMED.exec(text)?.[1] ?? null,
        text,
        notRun: above.find(([kind]) => kind === "not run")?.[1] ?? null,
        first: above.filter(([kind]) => kind === "first").map(([, what]) => what),
      };
    },
  );
}

function notesAbove(before: string): [kind: string, what: string][] {
  const notes: [string, string][] = [];
  for (const line of before.trimEnd().split("\n").toReversed()) {
    const note = /^<!-- (not run|first): (.+) -->$/.exec(line);
    if (note === null) break;
    notes.unshift([note[1] as string, note[2] as string]);
  }
  return notes;
}

/** Every page: README.md and what is under docs/, by its path from the root. */
export function allPages(): string[] {
  const docs = readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" });
  return ["README.md", ...docs.filter((path) => path.endsWith(".md")).map((path) => `docs/${path}`)].sort();
}

/** The text of a page. */
export function readPage(path: string): string {
  return readFileSync(join(ROOT, path), "utf8");
}

/** The name of a block's file, made up if it has none. */
export function fileOf(block: Block): string {
  return block.file ?? `block-at-${block.line}.${block.language}`;
}

/** Whether a block of code does something when it is run: a module that only exports does not. */
export function isProgram({ language, text }: Block): boolean {
  return (language === "ts" || language === "js") && !/^export /m.test(text);
}
