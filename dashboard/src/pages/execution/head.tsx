/** The head of the page, which stays visible: status, progress, actions, and why the execution waits. */
import { useRef, useState } from "preact/hooks";
import { change, get, may } from "../../api/client.ts";
import type { Execution, JournalEvent, Page, Session, Why, Workflow } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { addressOf, executionPage } from "../../core/address.ts";
import { useCell } from "../../core/cell.ts";
import { count, duration, grouped, plural, rate } from "../../core/format.ts";
import { useNow } from "../../core/now.ts";
import { traceAddress, traceLink } from "../../core/preferences.ts";
import { go } from "../../core/router.ts";
import { useTitle } from "../../core/title.ts";
import { useSession } from "../../shell/frame.tsx";
import { useKeys } from "../../shell/keys.ts";
import { activityOf, Badge, stateText } from "../../ui/badge.tsx";
import { Bar, type Counts, sumCounts } from "../../ui/bar.tsx";
import { Button } from "../../ui/button.tsx";
import { ReasonDialog } from "../../ui/reason-dialog.tsx";
import { Ago } from "../../ui/time.tsx";
import { attempt, copy, tell, tellUndo } from "../../ui/toast.tsx";
import { RunDialog } from "../definitions/run-dialog.tsx";
import { executionPath } from "./addresses.ts";
import { laneText } from "./place.ts";
import { SignalDialog } from "./signal-dialog.tsx";

type Asked = "cancel" | "drop" | "pause" | "retry" | "signal" | "run" | null;

/** The head of the page; `facts` is the present state, `shown` the state at the selected moment. */
export function ExecutionHead(props: {
  readonly id: string;
  readonly path: string;
  readonly facts: Execution;
  readonly shown: Execution;
  readonly why: Why | null;
  readonly definition: Workflow | null;
  /** The selected moment; null for now. */
  readonly shownAt: number | null;
}) {
  const { id, path, facts, shown, shownAt, why, definition } = props;
  const [asked, setAsked] = useState<Asked>(null);
  const [signal, setSignal] = useState<string | undefined>(undefined);
  const state = activityOf(shown.status, shownAt === null ? (why?.waits ?? null) : null);
  useTitle(`${stateText(state)} ${id}`);
  return (
    <header class="execution-head">
      <div class="execution-line">
        <Badge state={state} />
        <h1 class="mono clip" title={facts.id}>
          {facts.id}
        </h1>
        <Button kind="bare" icon="copy" label="Copy the id" onClick={() => copy(id)} />
        <Actions path={path} facts={facts} ask={setAsked} />
      </div>
      <Facts path={path} facts={shown} shownAt={shownAt} />
      <WhyLine
        why={why}
        facts={facts}
        isPast={shownAt !== null}
        onSignal={(name) => {
          setSignal(name);
          setAsked("signal");
        }}
      />
      <Dialogs
        asked={asked}
        {...{ path, facts, why, definition, signal }}
        onClose={() => {
          setAsked(null);
          setSignal(undefined);
        }}
      />
    </header>
  );
}

function Actions({
  path,
  facts,
  ask,
}: {
  readonly path: string;
  readonly facts: Execution;
  readonly ask: (asked: Asked) => void;
}) {
  const who = useSession();
  const may = actionsOf(facts, who);
  const resume = (): void =>
    attempt(async () => {
      await change("POST", `${path}/resume`);
      tell("Resumed.");
    });
  const only = (action: keyof typeof may, run: () => void) => () => {
    if (may[action].isOffered && may[action].whyNot === null) run();
  };
  useKeys("Execution", [
    { keys: "R", label: "Retry this execution", run: only("retry", () => ask("retry")) },
    { keys: "S", label: "Send a signal", run: only("signal", () => ask("signal")) },
    { keys: "C", label: "Cancel this execution", run: only("cancel", () => ask("cancel")) },
    may.resume.isOffered
      ? { keys: "P", label: "Resume this execution", run: only("resume", resume) }
      : { keys: "P", label: "Pause this execution", run: only("pause", () => ask("pause")) },
    { keys: "A", label: "Run again", run: only("run", () => ask("run")) },
  ]);
  return (
    <div class="execution-actions">
      {may.resume.isOffered ? (
        <Button icon="play" whyNot={may.resume.whyNot} onClick={resume}>
          Resume
        </Button>
      ) : null}
      {may.signal.isOffered ? (
        <Button icon="signal" whyNot={may.signal.whyNot} onClick={() => ask("signal")}>
          Signal…
        </Button>
      ) : null}
      {may.retry.isOffered ? (
        <Button icon="retry" kind="main" whyNot={may.retry.whyNot} onClick={() => ask("retry")}>
          Retry…
        </Button>
      ) : null}
      <Button icon="play" whyNot={may.run.whyNot} onClick={() => ask("run")}>
        Run again…
      </Button>
      {may.pause.isOffered ? (
        <Button icon="pause" whyNot={may.pause.whyNot} onClick={() => ask("pause")}>
          Pause…
        </Button>
      ) : null}
      {may.cancel.isOffered ? (
        <Button icon="stop" kind="danger" whyNot={may.cancel.whyNot} onClick={() => ask("cancel")}>
          Cancel…
        </Button>
      ) : null}
      {may.drop.isOffered ? (
        <Button icon="trash" kind="danger" whyNot={may.drop.whyNot} onClick={() => ask("drop")}>
          Delete…
        </Button>
      ) : null}
    </div>
  );
}

type Action = "pause" | "resume" | "cancel" | "drop" | "retry" | "signal" | "run";

/** Which actions make sense in the execution's status, and why the user may not do them. */
function actionsOf(
  { status, cleanedUp }: Execution,
  who: Session,
): Readonly<Record<Action, { readonly isOffered: boolean; readonly whyNot: string | null }>> {
  const role = may("operator", who) ? null : `This needs the role operator; ${who.name} is ${who.role}.`;
  const isDamaged = status === "damaged";
  const isEnded = status === "done" || status === "failed" || status === "cancelled";
  const isOpen = !isEnded && !isDamaged;
  const of = (isOffered: boolean, whyNot: string | null = null) => ({ isOffered, whyNot: role ?? whyNot });
  return {
    pause: of(status === "running" || status === "cleaning"),
    resume: of(status === "paused"),
    cancel: of(status === "running" || status === "paused"),
    drop: of(isDamaged),
    retry: of(
      status === "failed" || status === "cancelled",
      cleanedUp === true ? "It has cleaned up after itself. Use Run again to start a new one." : null,
    ),
    signal: of(isOpen),
    run: of(true),
  };
}

function Dialogs(props: {
  readonly asked: Asked;
  readonly path: string;
  readonly facts: Execution;
  readonly why: Why | null;
  readonly definition: Workflow | null;
  readonly signal: string | undefined;
  readonly onClose: () => void;
}) {
  const { asked, path, facts, why, definition, signal, onClose } = props;
  const post = (action: string, reason: string | undefined): Promise<unknown> =>
    change("POST", `${path}/${action}`, reason === undefined ? {} : { reason });
  switch (asked) {
    case "cancel":
      return (
        <ReasonDialog
          title="Cancel this execution?"
          text={`${runningText(facts)} Running tasks are told to stop, then it cleans up and ends as cancelled.`}
          action="Cancel the execution"
          isDanger
          onClose={onClose}
          run={async (reason) => {
            await post("cancel", reason);
            tell("Cancelling.");
          }}
        />
      );
    case "drop":
      return <DropDialog id={facts.id} path={path} onClose={onClose} />;
    case "pause":
      return (
        <ReasonDialog
          title="Pause this execution?"
          text={`${runningText(facts)} Running tasks go on; no further task starts until it is resumed.`}
          action="Pause"
          onClose={onClose}
          run={async (reason) => {
            await post("pause", reason);
            tellUndo("Paused.", async () => void (await post("resume", undefined)));
          }}
        />
      );
    case "retry":
      return (
        <ReasonDialog
          title="Retry this execution?"
          text={`${plural(unfinishedOf(facts), "unfinished task")} will run again. Finished tasks are kept, and later phases follow.`}
          action="Retry"
          onClose={onClose}
          run={async (reason) => {
            await post("retry", reason);
            tell(`${plural(unfinishedOf(facts), "task")} will run again.`);
          }}
        />
      );
    case "signal":
      return (
        <SignalDialog
          path={path}
          awaited={why?.signals ?? []}
          definition={definition}
          {...(signal === undefined ? {} : { name: signal })}
          onClose={onClose}
        />
      );
    case "run":
      return (
        <RunDialog
          name={facts.workflow}
          input={facts.input}
          project={facts.project}
          tags={facts.tags}
          onClose={onClose}
        />
      );
    default:
      return null;
  }
}

function DropDialog(props: { readonly id: string; readonly path: string; readonly onClose: () => void }) {
  return (
    <ReasonDialog
      title="Delete this damaged execution?"
      text="Everything that is stored of it is deleted: journal, tasks, logs and results. If there is a backup or an export, restore it from there instead."
      action="Delete it"
      isDanger
      onClose={props.onClose}
      run={async (reason) => {
        await change("POST", `${props.path}/drop`, undefined, reason);
        tell(`${props.id} is deleted.`);
        go("/executions");
      }}
    />
  );
}

function runningText(facts: Execution): string {
  const { running } = sumCounts(facts.phases.flatMap(({ handlers }) => handlers));
  return running === 0 ? "No task runs now." : `${plural(running, "task runs", "tasks run")} now.`;
}

/** The tasks that a retry of the whole execution runs: those of the phase that did not end well. */
function unfinishedOf({ phases }: Execution): number {
  const sum = sumCounts(phases.flatMap(({ handlers }) => handlers));
  return sum.failed + sum.cancelled + sum.pending;
}

/** The tags that are shown at first. The head stays in sight, so it must not fill the page. */
const TAGS = 6;

function Facts(props: { readonly path: string; readonly facts: Execution; readonly shownAt: number | null }) {
  const { path, facts, shownAt } = props;
  const now = useNow();
  const { workflow, workflowHash, project, createdAt, finishedAt, tags, parent } = facts;
  const counts = sumCounts(facts.phases.flatMap(({ handlers }) => handlers));
  const [hasAll, setHasAll] = useState(false);
  const all = Object.entries(tags);
  return (
    <dl class="execution-facts">
      <div>
        <dt>Workflow</dt>
        <dd>
          <a href={addressOf(`/definitions/${encodeURIComponent(workflow)}`, { hash: workflowHash })}>
            {workflow} <span class="mono muted">{workflowHash.slice(0, 8)}</span>
          </a>
        </dd>
      </div>
      {project === "default" ? null : (
        <div>
          <dt>Project</dt>
          <dd>
            <a href={addressOf("/executions", { project })}>{project}</a>
          </dd>
        </div>
      )}
      <div>
        <dt>Started</dt>
        <dd>
          <Ago at={createdAt} />
        </dd>
      </div>
      {facts.status === "damaged" ? null : (
        <>
          <div>
            <dt>{finishedAt === null ? "Running for" : "Took"}</dt>
            <dd>{duration((finishedAt ?? shownAt ?? now) - createdAt)}</dd>
          </div>
          <Progress facts={facts} counts={counts} isLive={finishedAt === null && shownAt === null} />
        </>
      )}
      {parent === null ? null : <Ancestors parent={parent} />}
      <Trace path={path} />
      <Neighbour label="Continues" execution={facts.continues} />
      <Neighbour label="Continued as" execution={facts.continuedAs} />
      {all.slice(0, hasAll ? all.length : TAGS).map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            <a href={addressOf("/executions", { q: `${name}=${value}` })}>{value}</a>
          </dd>
        </div>
      ))}
      {all.length <= TAGS ? null : (
        <div>
          <dt class="unseen">Tags</dt>
          <dd>
            <button type="button" class="tag" aria-expanded={hasAll} onClick={() => setHasAll(!hasAll)}>
              {hasAll ? "show fewer" : plural(all.length - TAGS, "more tag")}
            </button>
          </dd>
        </div>
      )}
    </dl>
  );
}

/** The trace in which the execution was started. The spans of its tasks are in it too. */
function Trace({ path }: { readonly path: string }) {
  const address = useCell(traceAddress);
  const { data } = useLive(`${path} first event`, (signal) =>
    get<Page<JournalEvent>>(`${path}/events`, { query: { limit: 1 }, signal }),
  );
  const trace = data?.data[0]?.["trace"];
  const id = typeof trace === "string" ? /^00-([0-9a-f]{32})-/.exec(trace)?.[1] : undefined;
  if (id === undefined) return null;
  const link = traceLink(id, address);
  return (
    <div>
      <dt>Trace</dt>
      <dd class="mono" title={link === null ? "Settings, Appearance: the address of your traces" : id}>
        {link === null ? (
          id.slice(0, 8)
        ) : (
          <a href={link} target="_blank" rel="noreferrer">
            {id.slice(0, 8)}
          </a>
        )}
        <Button kind="bare" icon="copy" label="Copy the id of the trace" onClick={() => copy(id)} />
      </dd>
    </div>
  );
}

/** A link to the execution before or after this one under its id. */
function Neighbour({ label, execution }: { readonly label: string; readonly execution: string | undefined }) {
  if (execution === undefined) return null;
  // The bare id means the newest execution everywhere, also in the address of a page.
  const exact = /~\d+$/.test(execution) ? execution : `${execution}~1`;
  return (
    <div>
      <dt>{label}</dt>
      <dd>
        <a class="mono" href={executionPage(exact)}>
          {execution}
        </a>
      </dd>
    </div>
  );
}

/** The executions above a child, from the top one down, with links to the tasks that started the next. */
function Ancestors({ parent }: { readonly parent: NonNullable<Execution["parent"]> }) {
  const { data } = useLive(`ancestors of ${parent.execution} ${parent.depth}`, async (signal) => {
    const found = [parent];
    // The parent itself is linked already; those above it are read one by one, at most 15.
    while ((found[0]?.depth ?? 1) > 1) {
      const above = await get<Execution>(executionPath(found[0]?.execution ?? ""), { signal });
      if (above.parent === null) break;
      found.unshift(above.parent);
    }
    return found;
  });
  return (
    <div>
      <dt>{parent.depth > 1 ? "Parents" : "Parent"}</dt>
      <dd class="ancestors">
        {(data ?? [parent]).map(({ execution, phase, visit, handler, task }, i) => (
          <span key={execution}>
            {i === 0 ? "" : " › "}
            <a
              class="mono"
              href={executionPage(execution, { lane: laneText({ phase, visit, handler }), task })}
              title={execution}
            >
              {execution}
            </a>
          </span>
        ))}
      </dd>
    </div>
  );
}

/** The time over which the rate is measured. */
const RATE_MS = 15_000;

/** How much is done, how fast, and how long the rest takes at this rate. */
function Progress({
  facts,
  counts,
  isLive,
}: {
  readonly facts: Execution;
  readonly counts: Counts;
  readonly isLive: boolean;
}) {
  const seen = useRef<{ at: number; settled: number }[]>([]);
  const total = Object.values(counts).reduce((sum, n) => sum + n, 0);
  const settled = counts.done + counts.failed + counts.cancelled;
  if (isLive && seen.current.at(-1)?.settled !== settled) {
    const at = Date.now();
    seen.current = [...seen.current.filter((one) => at - one.at < RATE_MS), { at, settled }];
  }
  const [first, last] = [seen.current[0], seen.current.at(-1)];
  const ms = first === undefined || last === undefined ? 0 : last.at - first.at;
  const isFresh = last !== undefined && Date.now() - last.at < RATE_MS;
  const perSecond = ms < 900 || !isFresh ? null : ((last.settled - (first?.settled ?? 0)) / ms) * 1_000;
  const isListed = facts.phases.every(({ handlers }) => handlers.every(({ sealed }) => sealed));
  const left = total - settled;
  const says = [
    `${count(settled)} of ${count(total)}${isListed ? "" : "+"} ${total === 1 ? "task" : "tasks"}`,
    ...(total > 0 && isListed ? [`${Math.floor((settled / total) * 100)} %`] : []),
    ...(isLive && perSecond !== null && perSecond > 0 ? [`${rate(perSecond)}/s`] : []),
    ...(isLive && perSecond !== null && perSecond > 0 && left > 0
      ? [`about ${duration((left / perSecond) * 1_000)} left`]
      : []),
    ...(counts.failed > 0 ? [`${count(counts.failed)} failed`] : []),
  ];
  return (
    <div class="execution-bar">
      <dt>{says.join(" · ")}</dt>
      <dd>
        <Bar counts={counts} label="Tasks" />
      </dd>
    </div>
  );
}

const LONG = 100;

/** Explains in a sentence why the execution waits, with the signals that would let it go on. */
function WhyLine(props: {
  readonly why: Why | null;
  readonly facts: Execution;
  readonly isPast: boolean;
  readonly onSignal: (name: string) => void;
}) {
  const { why, facts, isPast, onSignal } = props;
  const who = useSession();
  const isBlocked = why?.waits === "worker" || why?.waits === "limit" || facts.status === "damaged";
  const tone = facts.status === "failed" ? " is-failed" : isBlocked ? " is-blocked" : "";
  const text = why === null ? "\u00a0" : `${isPast ? "Now: " : ""}${sentenceOf(why, facts)}`;
  return (
    <div class={`execution-why${tone}`}>
      {/* A long text scrolls, so it can have the focus. */}
      <p tabIndex={text.length > LONG ? 0 : undefined}>
        <Linked text={text} />
      </p>
      {(why?.signals ?? []).slice(0, 3).map((name) => (
        <Button
          key={name}
          icon="signal"
          whyNot={may("operator", who) ? null : `This needs the role operator; ${who.name} is ${who.role}.`}
          onClick={() => onSignal(name)}
        >
          Send {name}…
        </Button>
      ))}
    </div>
  );
}

/** A sentence; the child execution that it names is a link. */
function Linked({ text }: { readonly text: string }) {
  const [, before, child] = /^(.* such as )(\S+~\S+)\.$/.exec(text) ?? [];
  if (before === undefined || child === undefined) return <>{text}</>;
  return (
    <>
      {before}
      <a class="mono" href={executionPage(child)}>
        {child}
      </a>
      .
    </>
  );
}

/** The sentence about an execution, in the words of the page. */
function sentenceOf({ why }: Why, { status, finishedAt, createdAt, phases, error }: Execution): string {
  const took = finishedAt === null ? "" : ` in ${duration(finishedAt - createdAt)}`;
  const { failed } = sumCounts(phases.flatMap(({ handlers }) => handlers));
  const rest =
    /^It is (?:done|failed|cancelled)(?::[^]*?)?\.( Nothing has read [^]*| Its clean-up [^]*)?$/.exec(
      why,
    )?.[1];
  if (status === "done")
    return `Completed${took}${failed > 0 ? `, ${plural(failed, "task")} failed (tolerated)` : ""}.${rest ?? ""}`;
  if (status === "failed" && error !== null) return `Failed: ${grouped(error.message)}${rest ?? ""}`;
  if (status === "cancelled")
    return `Cancelled${error === null ? "" : reasonOf(error.message)}.${rest ?? ""}`;
  return grouped(why);
}

/** What follows "Cancelled": by whom, or why. */
function reasonOf(message: string): string {
  const by = /^cancelled( by [^]*)$/.exec(message)?.[1];
  return by ?? `: ${message}`;
}
