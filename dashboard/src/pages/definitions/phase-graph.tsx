/**
 * The phases of a workflow as a graph: a box for each phase in the order of the definition, arrows to the phases that can follow,
 * and the number of executions that are in it now.
 */
import type { Workflow, WorkflowStats } from "../../api/shapes.ts";
import { addressOf } from "../../core/address.ts";
import { chosenDuration, count, plural } from "../../core/format.ts";
import { ms, successOf } from "./stats.tsx";

interface PhaseData {
  readonly name: string;
  readonly handlers?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  readonly next?: unknown;
  readonly onError?: string;
  readonly final?: unknown;
}

interface Edge {
  readonly from: number;
  readonly to: number;
  readonly kind: "next" | "decided" | "error";
}

const OPTIONS = ["concurrency", "concurrencyPerKey", "timeout", "tolerate", "priority"];
const HEAD = 34;
const LINE = 26;
const GAP = 26;
/** The distance between neighbouring arrows at the side. */
const ARROW = 16;

/** The graph; `here` is the number of open executions in each phase. */
export function PhaseGraph({
  name,
  definition,
  stats,
  here,
}: {
  readonly name: string;
  readonly definition: Workflow["definition"];
  readonly stats: WorkflowStats | null;
  readonly here: ReadonlyMap<string, number>;
}) {
  const phases = definition.phases as readonly PhaseData[];
  const tops: number[] = [];
  let height = 0;
  for (const { handlers } of phases) {
    tops.push(height);
    height += HEAD + LINE * Math.max(1, Object.keys(handlers ?? {}).length) + GAP;
  }
  const edges = edgesOf(phases, definition);
  const side = edges.filter(({ from, to, kind }) => kind !== "next" || to !== from + 1);
  const middle = (i: number): number => (tops[i] ?? 0) + HEAD / 2;
  const lanes = new Map(side.map((edge, i) => [edge, (i % 5) + 1] as const));
  const width = 24 + ARROW * Math.min(5, side.length);
  return (
    <div
      class="graph"
      style={{ height: `${height - GAP}px`, "--side": side.length === 0 ? "0" : `${width}px` }}
    >
      {phases.map((phase, i) => (
        <Phase
          key={phase.name}
          {...{ name, phase, stats }}
          top={tops[i] ?? 0}
          n={here.get(phase.name) ?? 0}
        />
      ))}
      {edges
        .filter((edge) => !side.includes(edge))
        .map(({ to }) => (
          <span
            key={to}
            class="graph-down"
            style={{ top: `${(tops[to] ?? 0) - GAP}px` }}
            aria-hidden="true"
          />
        ))}
      {side.length === 0 ? null : (
        <svg class="graph-arrows" width={width} height={height} aria-hidden="true">
          <defs>
            {(["next", "decided", "error"] as const).map((kind) => (
              <marker
                key={kind}
                id={`arrow-${kind}`}
                class={`arrow-${kind}`}
                viewBox="0 0 6 6"
                refX="5"
                refY="3"
                markerWidth="6"
                markerHeight="6"
                orient="auto"
              >
                <path d="M0 0 6 3 0 6z" />
              </marker>
            ))}
          </defs>
          {side.map((edge) => {
            const out = 8 + ARROW * (lanes.get(edge) ?? 1);
            const [a, b] = [middle(edge.from) + 5, middle(edge.to) - 5];
            return (
              <path
                key={`${edge.from} ${edge.to} ${edge.kind}`}
                class={`arrow-${edge.kind}`}
                d={`M0 ${a} C${out} ${a} ${out} ${a} ${out} ${a + Math.sign(b - a) * 8} V${b - Math.sign(b - a) * 8} C${out} ${b} ${out} ${b} 2 ${b}`}
                marker-end={`url(#arrow-${edge.kind})`}
              />
            );
          })}
        </svg>
      )}
    </div>
  );
}

function Phase({
  name,
  phase,
  stats,
  top,
  n,
}: {
  readonly name: string;
  readonly phase: PhaseData;
  readonly stats: WorkflowStats | null;
  readonly top: number;
  readonly n: number;
}) {
  const handlers = Object.entries(phase.handlers ?? {});
  const then = thenOf(phase);
  return (
    <section
      class={`graph-phase${n > 0 ? " is-busy" : ""}`}
      style={{ top: `${top}px`, height: `${HEAD + LINE * Math.max(1, handlers.length)}px` }}
      aria-label={`Phase ${phase.name}`}
    >
      <header>
        <b class="clip">{phase.name}</b>
        {then === "" ? null : <span class="muted small clip">{then}</span>}
        {n === 0 ? null : (
          <a class="graph-here" href={addressOf("/executions", { workflow: name, status: "running" })}>
            {plural(n, "execution")} here
          </a>
        )}
      </header>
      {handlers.length === 0 ? <p class="muted small">no handlers: goes on at once</p> : null}
      {handlers.map(([handler, data]) => {
        const figures = stats?.handlers.find((one) => one.phase === phase.name && one.handler === handler);
        return (
          <p key={handler} class="graph-handler">
            {handler === phase.name ? null : <span>{handler}</span>}
            <span class="muted clip">{modeOf(data)}</span>
            {OPTIONS.map((option) =>
              data[option] === undefined ? null : (
                <span key={option} class="tag">
                  {option} {optionText(option, data[option])}
                </span>
              ),
            )}
            {figures === undefined ? null : (
              <span class="muted nowrap graph-figures">
                {plural(figures.done + figures.failed, "task")}, {successOf(figures)} done
                {/* A sleep or a wait takes no time of a worker. */}
                {isWait(data) ? "" : `, p95 ${ms(figures.p95Ms)}`}
              </span>
            )}
          </p>
        );
      })}
    </section>
  );
}

function isWait({ sleep, waitFor }: Readonly<Record<string, unknown>>): boolean {
  return sleep !== undefined || waitFor !== undefined;
}

/** What a handler does, in words. */
function modeOf({ use, sleep, waitFor, command, script, workflow }: Readonly<Record<string, unknown>>) {
  if (typeof sleep === "number") return `sleeps ${chosenDuration(sleep)}`;
  if (sleep !== undefined) return "sleeps";
  if (typeof waitFor === "string") return `waits for the signal ${waitFor}`;
  if (typeof workflow === "string") return `child executions of ${workflow}`;
  if (typeof use === "string") return <span class="mono">{use}</span>;
  return command !== undefined ? "command" : script !== undefined ? "script" : "";
}

function optionText(option: string, value: unknown): string {
  if (option === "timeout" && typeof value === "number") return chosenDuration(value);
  return typeof value === "number" ? count(value) : typeof value === "string" ? value : JSON.stringify(value);
}

/** What follows a phase, in words. */
function thenOf({ next, onError, final }: PhaseData): string {
  const among = amongOf(next);
  return [
    ...(final === true ? ["ends the workflow"] : final === "failed" ? ["ends it as failed"] : []),
    ...(typeof next === "string"
      ? [`then ${next}`]
      : among.length > 0
        ? [`decides: ${among.join(" or ")}`]
        : []),
    ...(onError === undefined ? [] : [`on error ${onError}`]),
  ].join(", ");
}

function amongOf(next: unknown): readonly string[] {
  const among = typeof next === "object" && next !== null ? (next as { among?: unknown }).among : null;
  return Array.isArray(among) ? among.map(String) : [];
}

/** The arrows: the next phase, those that a decision can choose, and the one after an error. */
function edgesOf(phases: readonly PhaseData[], definition: Workflow["definition"]): readonly Edge[] {
  const place = new Map(phases.map(({ name }, i) => [name, i]));
  // Phases that are reached by name only are outside the default order.
  const apart = new Set(
    [
      ...phases.map(({ onError }) => onError),
      ...["onCancel", "onFailure", "finally"].map((end) => definition[end]),
    ].filter((one) => typeof one === "string"),
  );
  return phases.flatMap(({ name, next, onError, final }, i): Edge[] => {
    const to = (target: string, kind: Edge["kind"]): Edge[] => {
      const at = place.get(target);
      return at === undefined ? [] : [{ from: i, to: at, kind }];
    };
    const among = amongOf(next);
    const follower = phases.slice(i + 1).find((one) => !apart.has(one.name));
    return [
      ...(typeof next === "string" ? to(next, "next") : among.flatMap((one) => to(one, "decided"))),
      ...(next === undefined && final === undefined && !apart.has(name) && follower !== undefined
        ? to(follower.name, "next")
        : []),
      ...(onError === undefined ? [] : to(onError, "error")),
    ];
  });
}
