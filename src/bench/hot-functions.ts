/**
 * Reads CPU profiles: the functions in which a thread spends its own time, with their place in the source, and the
 * shares of what is no function (idle, garbage collection, the runtime itself).
 */
import { readFileSync } from "node:fs";
import { SourceMap } from "node:module";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** A profile as V8 gives it. */
export interface CpuProfile {
  readonly nodes: readonly ProfileNode[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

interface ProfileNode {
  readonly id: number;
  readonly callFrame: {
    readonly functionName: string;
    readonly url: string;
    readonly lineNumber: number;
    readonly columnNumber: number;
  };
  readonly children?: readonly number[];
  readonly positionTicks?: readonly { readonly line: number; readonly ticks: number }[];
}

export interface HotFunction {
  readonly name: string;
  /** File and line, and the hottest line if it is another. */
  readonly place: string;
  readonly ms: number;
}

export interface ThreadProfile {
  readonly thread: string;
  readonly ms: number;
  readonly idleMs: number;
  readonly collectorMs: number;
  readonly programMs: number;
  readonly hottest: readonly HotFunction[];
}

/** Sums up profiles of one thread. */
export function hotFunctions(thread: string, profiles: readonly CpuProfile[], max: number): ThreadProfile {
  const functions = new Map<
    string,
    { name: string; url: string; line: number; column: number; ms: number; ticks: Map<number, number> }
  >();
  const special = new Map<string, number>();
  let total = 0;
  for (const profile of profiles) {
    const self = selfTimes(profile);
    const parents = new Map(profile.nodes.flatMap((node) => (node.children ?? []).map((id) => [id, node])));
    for (const node of profile.nodes) {
      const ms = self.get(node.id) ?? 0;
      total += ms;
      const { functionName, url, lineNumber, columnNumber } = node.callFrame;
      if (url === "" && functionName.startsWith("(")) {
        special.set(functionName, (special.get(functionName) ?? 0) + ms);
        continue;
      }
      if (ms === 0) continue;
      // Native code has no place: it is told by the function that calls it.
      const caller = url === "" ? callerOf(node, parents) : undefined;
      const frame = caller?.callFrame ?? node.callFrame;
      const name =
        caller === undefined ? functionName || "(anonymous)" : `${functionName} < ${frame.functionName}`;
      const key = `${name} ${frame.url}:${frame.lineNumber}:${frame.columnNumber}`;
      const known = functions.get(key) ?? {
        name,
        url: frame.url || url,
        line: caller ? frame.lineNumber : lineNumber,
        column: caller ? frame.columnNumber : columnNumber,
        ms: 0,
        ticks: new Map(),
      };
      known.ms += ms;
      if (caller === undefined)
        for (const { line, ticks } of node.positionTicks ?? [])
          known.ticks.set(line, (known.ticks.get(line) ?? 0) + ticks);
      functions.set(key, known);
    }
  }
  const hottest = [...functions.values()]
    .sort((a, b) => b.ms - a.ms)
    .slice(0, max)
    .map(({ name, url, line, column, ms, ticks }) => ({
      name,
      place: placeOf(url, { line, column }, ticks),
      ms,
    }));
  return {
    thread,
    ms: total,
    idleMs: special.get("(idle)") ?? 0,
    collectorMs: special.get("(garbage collector)") ?? 0,
    programMs: special.get("(program)") ?? 0,
    hottest,
  };
}

/** Milliseconds by node. */
function selfTimes({ samples, timeDeltas }: CpuProfile): Map<number, number> {
  const self = new Map<number, number>();
  for (let i = 0; i < samples.length; i++) {
    const id = samples[i] as number;
    // A delta is the time since the sample before, so it belongs to the one before it; the last has none.
    self.set(id, (self.get(id) ?? 0) + Math.max(0, timeDeltas[i + 1] ?? 0) / 1_000);
  }
  return self;
}

/** The nearest caller that has a place. */
function callerOf(node: ProfileNode, parents: ReadonlyMap<number, ProfileNode>): ProfileNode | undefined {
  let caller = parents.get(node.id);
  while (caller !== undefined && caller.callFrame.url === "") caller = parents.get(caller.id);
  return caller;
}

function placeOf(
  url: string,
  at: { line: number; column: number },
  ticks: ReadonlyMap<number, number>,
): string {
  if (!url.startsWith("file:")) return url;
  const place = inSource(url, at.line, at.column);
  let hot = -1;
  for (const [line, count] of ticks) if (hot < 0 || count > (ticks.get(hot) ?? 0)) hot = line;
  if (hot < 0) return place;
  const line = inSource(url, hot - 1, Number.MAX_SAFE_INTEGER).replace(/^.*:/, "");
  return place.endsWith(`:${line}`) ? place : `${place}, hot ${line}`;
}

const maps = new Map<string, SourceMap | null>();

/** The place in the TypeScript source, if there is a source map. Lines and columns count from 0. */
function inSource(url: string, line: number, column: number): string {
  const file = fileURLToPath(url);
  let map = maps.get(file);
  if (map === undefined) {
    map = readMap(file);
    maps.set(file, map);
  }
  const entry = map?.findEntry(line, column);
  if (entry !== undefined && "originalLine" in entry)
    return `${short(join(dirname(file), entry.originalSource))}:${entry.originalLine + 1}`;
  return `${short(file)}:${line + 1}`;
}

function readMap(file: string): SourceMap | null {
  try {
    return new SourceMap(JSON.parse(readFileSync(`${file}.map`, "utf8")));
  } catch {
    // A module without a source map keeps its own lines.
    return null;
  }
}

function short(file: string): string {
  return `${basename(dirname(file))}/${basename(file)}`;
}
