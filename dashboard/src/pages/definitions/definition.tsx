/** The page of one workflow: its phases, its versions by hash, the difference between two versions, and a form to run it. */
import { useState } from "preact/hooks";
import { get, may } from "../../api/client.ts";
import type { Page, Workflow, WorkflowVersion } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { addressOf } from "../../core/address.ts";
import { choose, usePlace } from "../../core/router.ts";
import { useSession } from "../../shell/frame.tsx";
import { useKeys } from "../../shell/keys.ts";
import { Button } from "../../ui/button.tsx";
import { JsonView } from "../../ui/json.tsx";
import { PageHead, Panel } from "../../ui/panel.tsx";
import { Loading, Trouble } from "../../ui/state.tsx";
import { Ago } from "../../ui/time.tsx";
import { diffLines } from "./diff-lines.ts";
import { RunDialog } from "./run-dialog.tsx";
import { Stats } from "./stats.tsx";
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
    10_000,
  );
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
          <Stats name={name} />
          <Panel title="Phases">
            <Phases definition={shown.data.definition} />
          </Panel>
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

function RunKey({ isOff, run }: { readonly isOff: boolean; readonly run: () => void }) {
  useKeys("Definition", [{ keys: "R", label: "Run this workflow", run: () => (isOff ? undefined : run()) }]);
  return null;
}

interface PhaseData {
  readonly name: string;
  readonly handlers?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  readonly next?: unknown;
  readonly onError?: string;
  readonly final?: unknown;
}

const MODES = ["use", "sleep", "waitFor", "command", "script", "workflow"];

function Phases({ definition }: { readonly definition: Workflow["definition"] }) {
  return (
    <ol class="phases">
      {(definition.phases as readonly PhaseData[]).map((phase) => (
        <li key={phase.name}>
          <b>{phase.name}</b>
          <ul>
            {Object.entries(phase.handlers ?? {}).map(([handler, data]) => (
              <li key={handler} class="row">
                {handler === phase.name ? null : <span>{handler}</span>}
                <span class="mono muted">{modeOf(data)}</span>
                {["concurrency", "concurrencyPerKey", "timeout", "tolerate", "priority"].map((option) =>
                  data[option] === undefined ? null : (
                    <span key={option} class="tag">
                      {option} {JSON.stringify(data[option])}
                    </span>
                  ),
                )}
              </li>
            ))}
          </ul>
          {phase.onError === undefined ? null : <span class="muted small">on error: {phase.onError}</span>}
        </li>
      ))}
    </ol>
  );
}

function modeOf(data: Readonly<Record<string, unknown>>): string {
  const mode = MODES.find((name) => data[name] !== undefined) ?? "";
  const value = data[mode];
  return typeof value === "string" || typeof value === "number" ? `${mode} ${value}` : mode;
}

function Versions(props: {
  readonly versions: readonly WorkflowVersion[] | null;
  readonly shown: string;
  readonly compared: string | null;
}) {
  const { versions, shown, compared } = props;
  if (versions === null) return <Loading rows={3} />;
  return (
    <ul class="versions">
      {versions.map(({ hash, at }, i) => (
        <li key={`${hash} ${at ?? i}`} class={hash === shown ? "is-shown" : ""}>
          <button
            type="button"
            class="mono"
            aria-pressed={hash === shown}
            onClick={() => choose({ hash, with: null })}
          >
            {hash.slice(0, 12)}
          </button>
          <span class="muted">
            {i === 0 ? "newest" : ""} {at === null ? "date unknown" : <Ago at={at} />}
          </span>
          {hash === shown ? null : (
            <Button
              isPressed={hash === compared}
              onClick={() => choose({ with: hash === compared ? null : hash })}
            >
              Compare
            </Button>
          )}
        </li>
      ))}
    </ul>
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
