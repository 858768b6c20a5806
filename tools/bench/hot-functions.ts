/**
 * Reads CPU profiles: the functions in which a thread spends its own time, with their places in the source, and the shares of
 * idle time, garbage collection and the runtime itself.
 */
import { type SourcePlace, showPlace } from "./source-place.ts";

/** A profile in V8's format. */
export interface CpuProfile {
  readonly nodes: readonly ProfileNode[];
  /** The node that ran at each sample. */
  readonly samples: readonly number[];
  /** The microseconds between a sample and the one before. */
  readonly timeDeltas: readonly number[];
}

interface ProfileNode {
  readonly id: number;
  readonly callFrame: CallFrame;
  readonly children?: readonly number[];
  readonly positionTicks?: readonly { readonly line: number; readonly ticks: number }[];
}

interface CallFrame {
  readonly functionName: string;
  readonly url: string;
  readonly lineNumber: number;
  readonly columnNumber: number;
}

export interface HotFunction {
  /** The name of the function. Native code is named by its nearest callers. */
  readonly name: string;
  /** The file and line, and the hottest line in it. */
  readonly place: string;
  readonly ms: number;
}

export interface ThreadProfile {
  readonly thread: string;
  readonly ms: number;
  readonly idleMs: number;
  readonly collectorMs: number;
  /** The time in the runtime, outside any function. */
  readonly programMs: number;
  readonly hottest: readonly HotFunction[];
}

interface Found extends SourcePlace {
  readonly name: string;
  ms: number;
  readonly ticks: Map<number, number>;
}

const CALLERS_SHOWN = 4;

/** Sums up the profiles of one thread. */
export function hotFunctions(thread: string, profiles: readonly CpuProfile[], max: number): ThreadProfile {
  const functions = new Map<string, Found>();
  const special = new Map<string, number>();
  let total = 0;
  for (const profile of profiles) {
    const parents = parentsOf(profile);
    const self = selfTimes(profile);
    for (const node of profile.nodes) {
      const ms = self.get(node.id) ?? 0;
      const { functionName, url } = node.callFrame;
      total += ms;
      if (url === "" && functionName.startsWith("("))
        special.set(functionName, (special.get(functionName) ?? 0) + ms);
      else if (ms > 0) addTo(functions, node, { ms, callers: url === "" ? callersOf(node, parents) : [] });
    }
  }
  const hottest = [...functions.values()].sort((a, b) => b.ms - a.ms).slice(0, max);
  return {
    thread,
    ms: total,
    idleMs: special.get("(idle)") ?? 0,
    collectorMs: special.get("(garbage collector)") ?? 0,
    programMs: special.get("(program)") ?? 0,
    hottest: hottest.map((found) => ({
      name: found.name,
      place: showPlace(found, found.ticks),
      ms: found.ms,
    })),
  };
}

function addTo(
  functions: Map<string, Found>,
  node: ProfileNode,
  { ms, callers }: { ms: number; callers: readonly CallFrame[] },
): void {
  const frame = callers.at(-1) ?? node.callFrame;
  const name =
    callers.length === 0
      ? node.callFrame.functionName || "(anonymous)"
      : ["native", ...callers.map(({ functionName }) => functionName)].join(" < ");
  const key = `${name} ${frame.url}:${frame.lineNumber}:${frame.columnNumber}`;
  const known = functions.get(key);
  const found = known ?? {
    name,
    url: frame.url,
    line: frame.lineNumber,
    column: frame.columnNumber,
    ms: 0,
    ticks: new Map<number, number>(),
  };
  found.ms += ms;
  if (callers.length === 0)
    for (const { line, ticks } of node.positionTicks ?? [])
      found.ticks.set(line, (found.ticks.get(line) ?? 0) + ticks);
  if (known === undefined) functions.set(key, found);
}

/** The milliseconds of each node: a sample lasts until the next one. */
function selfTimes({ samples, timeDeltas }: CpuProfile): Map<number, number> {
  const self = new Map<number, number>();
  samples.forEach((id, i) => {
    self.set(id, (self.get(id) ?? 0) + Math.max(0, timeDeltas[i + 1] ?? 0) / 1_000);
  });
  return self;
}

function parentsOf({ nodes }: CpuProfile): Map<number, ProfileNode> {
  return new Map(nodes.flatMap((node) => (node.children ?? []).map((child) => [child, node] as const)));
}

/** The nearest callers with a name and a place. */
function callersOf(node: ProfileNode, parents: ReadonlyMap<number, ProfileNode>): CallFrame[] {
  const callers: CallFrame[] = [];
  for (let at = parents.get(node.id); at !== undefined; at = parents.get(at.id)) {
    const { functionName, url } = at.callFrame;
    if (url !== "" && functionName !== "") callers.push(at.callFrame);
    if (callers.length === CALLERS_SHOWN) break;
  }
  return callers;
}
