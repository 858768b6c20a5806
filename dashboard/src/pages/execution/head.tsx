/** The head of the page, which stays visible: status, workflow, actions, and why the execution waits. */
import { useState } from "preact/hooks";
import { change, get, may } from "../../api/client.ts";
import type { Execution, Session, Why } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { addressOf } from "../../core/address.ts";
import { duration, plural } from "../../core/format.ts";
import { useNow } from "../../core/now.ts";
import { useSession } from "../../shell/frame.tsx";
import { useKeys } from "../../shell/keys.ts";
import { Badge } from "../../ui/badge.tsx";
import { Bar, sumCounts } from "../../ui/bar.tsx";
import { Button } from "../../ui/button.tsx";
import { Ago } from "../../ui/time.tsx";
import { attempt, tell } from "../../ui/toast.tsx";
import { SignalDialog } from "./signal-dialog.tsx";

type Action = "pause" | "resume" | "cancel" | "retry" | "signal";

/** The head of the page; `facts` is the present state, `shown` the state at the selected moment. */
export function ExecutionHead(props: {
  readonly id: string;
  readonly path: string;
  readonly facts: Execution;
  readonly shown: Execution;
  /** The selected moment; null for now. */
  readonly shownAt: number | null;
  readonly onChange: () => void;
}) {
  const { id, path, facts, shown, shownAt, onChange } = props;
  const who = useSession();
  const [isSignalling, setIsSignalling] = useState(false);
  const run = (action: Exclude<Action, "signal">): void =>
    attempt(async () => {
      await change("POST", `${path}/${action}`);
      tell(DONE[action]);
      onChange();
    });
  const reason = (action: Action): string | null => whyNot(action, facts, who);
  const isPaused = facts.status === "paused";
  useKeys("Execution", [
    {
      keys: "p",
      label: isPaused ? "Resume it" : "Pause it",
      run: () => reason(isPaused ? "resume" : "pause") ?? run(isPaused ? "resume" : "pause"),
    },
  ]);
  return (
    <header class="execution-head">
      <div class="execution-line">
        <Badge state={shown.status} />
        <h1 class="mono clip" title={id}>
          {id}
        </h1>
        <Button
          kind="bare"
          icon="copy"
          label="Copy the id"
          onClick={() => void navigator.clipboard.writeText(id).then(() => tell("Copied."))}
        />
        <div class="execution-actions">
          {isPaused ? (
            <Button icon="play" whyNot={reason("resume")} onClick={() => run("resume")}>
              Resume
            </Button>
          ) : (
            <Button icon="pause" whyNot={reason("pause")} onClick={() => run("pause")}>
              Pause
            </Button>
          )}
          <Button icon="signal" whyNot={reason("signal")} onClick={() => setIsSignalling(true)}>
            Signal…
          </Button>
          <Button icon="retry" whyNot={reason("retry")} onClick={() => run("retry")}>
            Retry
          </Button>
          <Button icon="stop" kind="danger" whyNot={reason("cancel")} onClick={() => run("cancel")}>
            Cancel
          </Button>
        </div>
      </div>
      <Facts facts={shown} shownAt={shownAt} />
      <Why path={path} facts={facts} isPast={shownAt !== null} />
      {isSignalling ? (
        <SignalDialog path={path} onClose={() => setIsSignalling(false)} onDone={onChange} />
      ) : null}
    </header>
  );
}

const DONE: Readonly<Record<Exclude<Action, "signal">, string>> = {
  pause: "Paused: what runs goes on, nothing new starts.",
  resume: "Resumed.",
  cancel: "Cancelled: attempts that run are told to stop.",
  retry: "Retried: everything that is not done runs again.",
};

/** Why an action is not possible now; null if it is possible. */
function whyNot(action: Action, { status, cleanedUp }: Execution, who: Session): string | null {
  if (!may("operator", who)) return `This needs the role operator; ${who.name} is ${who.role}.`;
  if (status === "damaged") return "It is damaged: restore it from a backup, or drop it with rondo drop.";
  const isEnded = status === "done" || status === "failed" || status === "cancelled";
  switch (action) {
    case "pause":
      if (isEnded) return `It has ended: it is ${status}.`;
      return status === "cancelling" ? "It is being cancelled." : null;
    case "resume":
      return status === "paused" ? null : "It is not paused.";
    case "cancel":
      if (isEnded) return `It has ended: it is ${status}.`;
      if (status === "cleaning") return "It has ended its work, and cleans up.";
      return status === "cancelling" ? "It is being cancelled already." : null;
    case "retry":
      if (status === "done") return "It is done: there is nothing to retry.";
      if (cleanedUp === true) return "It has cleaned up after itself: start a new one.";
      return isEnded ? null : "Only what has failed or was cancelled can be retried.";
    case "signal":
      return isEnded ? `It has ended: it is ${status}.` : null;
  }
}

function Facts({ facts, shownAt }: { readonly facts: Execution; readonly shownAt: number | null }) {
  const now = useNow();
  const { workflow, workflowHash, project, createdAt, finishedAt, tags, parent } = facts;
  const counts = sumCounts(facts.phases.flatMap(({ handlers }) => handlers));
  const total = Object.values(counts).reduce((sum, n) => sum + n, 0);
  return (
    <dl class="execution-facts">
      <div>
        <dt>workflow</dt>
        <dd>
          <a href={addressOf(`/definitions/${encodeURIComponent(workflow)}`, { hash: workflowHash })}>
            {workflow} <span class="mono muted">{workflowHash.slice(0, 8)}</span>
          </a>
        </dd>
      </div>
      {project === "default" ? null : (
        <div>
          <dt>project</dt>
          <dd>{project}</dd>
        </div>
      )}
      <div>
        <dt>started</dt>
        <dd>
          <Ago at={createdAt} />
        </dd>
      </div>
      <div>
        <dt>{finishedAt === null ? "for" : "took"}</dt>
        <dd>{duration((finishedAt ?? shownAt ?? now) - createdAt)}</dd>
      </div>
      <div class="execution-bar">
        <dt>{plural(total, "task")}</dt>
        <dd>
          <Bar counts={counts} label="Tasks" />
        </dd>
      </div>
      {parent === null ? null : (
        <div>
          <dt>child of</dt>
          <dd>
            <a class="mono" href={`/executions/${encodeURIComponent(parent.execution)}`}>
              {parent.execution}
            </a>
          </dd>
        </div>
      )}
      {Object.entries(tags).map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Explains in a sentence why the execution waits. */
function Why(props: { readonly path: string; readonly facts: Execution; readonly isPast: boolean }) {
  const { path, facts, isPast } = props;
  const isOver = facts.finishedAt !== null;
  const key = `${path} why ${isOver ? facts.revision : facts.status}`;
  const { data } = useLive(key, (signal) => get<Why>(`${path}/why`, { signal }), isOver ? null : 2_000);
  return (
    <p class={`execution-why${facts.status === "failed" ? " is-failed" : ""}`}>
      {data === null ? "\u00a0" : `${isPast ? "Now: " : ""}${data.why}`}
    </p>
  );
}
