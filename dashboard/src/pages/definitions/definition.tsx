/** The page of one workflow: its phases, its versions by hash, the difference between two versions, and a form to run it. */
import { useState } from "preact/hooks";
import { get, may } from "../../api/client.ts";
import type { Page, Summary, Workflow, WorkflowVersion } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { addressOf, executionPage } from "../../core/address.ts";
import { plural } from "../../core/format.ts";
import { choose, usePlace } from "../../core/router.ts";
import { useSession } from "../../shell/frame.tsx";
import { useKeys } from "../../shell/keys.ts";
import { Button } from "../../ui/button.tsx";
import { JsonView } from "../../ui/json.tsx";
import { PageHead, Panel } from "../../ui/panel.tsx";
import { Loading, Trouble } from "../../ui/state.tsx";
import { Ago } from "../../ui/time.tsx";
import { diffLines } from "./diff-lines.ts";
import { PhaseGraph } from "./phase-graph.tsx";
import { RunDialog } from "./run-dialog.tsx";
import { HandlerStats, Stats, useStats } from "./stats.tsx";
import "./definitions.css";

export function Definition({ id: name }: { readonly id: string }) {
  const { query } = usePlace();
  const who = useSession();
  const [isRunning, setIsRunning] = useState(false);
  const path = `/v1/workflows/${encodeURIComponent(name)}`;
  const hash = query.get("hash");
  const with_ = query.get("with");
  const shown = useLive(`${path} ${hash ?? ""}`, (signal) =>
    get<Workflow>(path, { query: { hash }, signal }),
  );
  const other = useLive(with_ === null ? null : `${path} ${with_}`, (signal) =>
    get<Workflow>(path, { query: { hash: with_ }, signal }),
  );
  const versions = useLive(
    `${path} versions`,
    (signal) => get<Page<WorkflowVersion>>(`${path}/versions`, { query: { limit: 200 }, signal }),
    // This request is costly, so it is rare: the server counts the open executions of each version.
    60_000,
  );
  const { over, stats } = useStats(name);
  const here = useHere(name);
  if (shown.data === null)
    return shown.problem === null ? (
      <Loading rows={6} />
    ) : (
      <Trouble problem={shown.problem} onRetry={shown.reload} />
    );
  const whyNot = may("operator", who) ? null : `This needs the role operator; ${who.name} is ${who.role}.`;
  return (
    <>
      <PageHead title={name} about={<span class="mono">{shown.data.hash.slice(0, 16)}</span>}>
        <a class="button" href={addressOf("/executions", { workflow: name })}>
          Executions
        </a>
        <Button kind="main" icon="play" whyNot={whyNot} onClick={() => setIsRunning(true)}>
          Run…
        </Button>
      </PageHead>
      <div class="definition">
        <div class="stack">
          <Panel title="Phases" aside={here.aside}>
            <PhaseGraph
              name={name}
              definition={shown.data.definition}
              stats={stats.data}
              here={here.byPhase}
            />
          </Panel>
          <Stats name={name} over={over} stats={stats.data} />
          <HandlerStats handlers={stats.data?.handlers ?? []} />
          <Panel title={other.data === null ? "Definition" : `Changes since ${other.data.hash.slice(0, 8)}`}>
            {other.data === null ? (
              <JsonView value={shown.data.definition} label="Definition" />
            ) : (
              <Diff before={other.data.definition} after={shown.data.definition} />
            )}
          </Panel>
        </div>
        <Panel title="Versions" isFlush>
          <Versions versions={versions.data?.data ?? null} shown={shown.data.hash} compared={with_} />
        </Panel>
      </div>
      <RunKey isOff={whyNot !== null} run={() => setIsRunning(true)} />
      {isRunning ? <RunDialog name={name} onClose={() => setIsRunning(false)} /> : null}
    </>
  );
}

/** The most open executions that are counted by phase. */
const HERE_MAX = 200;

/** The number of open executions in each phase, of the newest ones. */
function useHere(workflow: string): {
  readonly byPhase: ReadonlyMap<string, number>;
  readonly aside: string;
} {
  const { data } = useLive(
    `open executions of ${workflow}`,
    (signal) =>
      get<Page<Summary>>("/v1/executions", {
        query: { workflow, status: "running", limit: HERE_MAX },
        signal,
      }),
    5_000,
  );
  const byPhase = new Map<string, number>();
  for (const { phase } of data?.data ?? [])
    if (phase !== null) byPhase.set(phase, (byPhase.get(phase) ?? 0) + 1);
  return {
    byPhase,
    aside: (data?.next ?? null) === null ? "" : `of the newest ${HERE_MAX} running executions`,
  };
}

function RunKey({ isOff, run }: { readonly isOff: boolean; readonly run: () => void }) {
  useKeys("Definition", [{ keys: "R", label: "Run this workflow", run: () => (isOff ? undefined : run()) }]);
  return null;
}

function Versions(props: {
  readonly versions: readonly WorkflowVersion[] | null;
  readonly shown: string;
  readonly compared: string | null;
}) {
  const { versions, shown, compared } = props;
  if (versions === null) return <Loading rows={3} />;
  // A definition that became the newest again is listed again.
  const isFirst = (i: number): boolean => versions.findIndex(({ hash }) => hash === versions[i]?.hash) === i;
  return (
    <ul class="versions">
      {versions.map(({ hash, at, version, ...need }, i) => (
        <li key={`${hash} ${at ?? i}`} class={hash === shown ? "is-shown" : ""}>
          <button
            type="button"
            class="mono"
            aria-pressed={hash === shown}
            onClick={() => choose({ hash, with: null })}
          >
            {version === null ? "" : `${version} `}
            {hash.slice(0, 12)}
          </button>
          <span class="muted">
            {need.isNewest && isFirst(i) ? "newest, " : ""}
            {at === null ? "date unknown" : <Ago at={at} />}
          </span>
          {hash === shown ? null : (
            <Button
              isPressed={hash === compared}
              onClick={() => choose({ with: hash === compared ? null : hash })}
            >
              Compare
            </Button>
          )}
          {isFirst(i) ? <Need {...need} /> : null}
        </li>
      ))}
    </ul>
  );
}

/** How far a version is needed: its open executions, and whether workers serve its code. */
function Need(props: Pick<WorkflowVersion, "open" | "oldest" | "unserved" | "canRetire">) {
  const { open, oldest, unserved, canRetire } = props;
  if (open === 0 && !canRetire) return null;
  return (
    <p class="version-need">
      {canRetire ? <span class="muted">No open execution needs it.</span> : null}
      {open === 0 ? null : plural(open, "open execution")}
      {oldest === null ? null : (
        <>
          {open === 1 ? ": " : ", the oldest: "}
          <a class="mono" href={executionPage(oldest.id)}>
            {oldest.id}
          </a>{" "}
          <Ago at={oldest.createdAt} />
        </>
      )}
      {open === 0 || unserved.length === 0 ? null : (
        <span class="light warn">No worker serves {unserved.join(", ")}.</span>
      )}
    </p>
  );
}

const SIGNS = { same: " ", gone: "-", come: "+" } as const;

function Diff({ before, after }: { readonly before: unknown; readonly after: unknown }) {
  const lines = diffLines(
    JSON.stringify(before, null, 2).split("\n"),
    JSON.stringify(after, null, 2).split("\n"),
  );
  return (
    <pre class="diff" tabIndex={0} aria-label="Changes">
      {lines.map(({ kind, text }, i) => (
        <span key={i} class={`diff-${kind}`}>
          {SIGNS[kind]} {text}
          {"\n"}
        </span>
      ))}
    </pre>
  );
}
