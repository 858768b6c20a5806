/** The errors of an execution's failed tasks, in groups: how many tasks each has, and a retry of only these. */
import { useState } from "preact/hooks";
import { get, may } from "../../api/client.ts";
import type { DeadLetter, LetterGroup, Page, TaskRow } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { count, plural } from "../../core/format.ts";
import { choose } from "../../core/router.ts";
import { useSession } from "../../shell/frame.tsx";
import { Button } from "../../ui/button.tsx";
import type { About } from "./execution.tsx";
import { laneText, useExecutionPlace } from "./place.ts";
import { RetryDialog } from "./retry-dialog.tsx";

const SHOWN = 4;
const PAGE = 100;

export function ErrorGroups({ id, path, facts, at, stamp }: About) {
  const { error } = useExecutionPlace();
  const who = useSession();
  const [retried, setRetried] = useState<LetterGroup | null>(null);
  const [isAll, setIsAll] = useState(false);
  const failed = facts.phases.some(({ handlers }) => handlers.some((handler) => handler.failed > 0));
  const { data } = useLive(
    failed && at === null ? `${path} groups` : null,
    (signal) => get<Page<LetterGroup>>("/v1/dead-letter-groups", { query: { execution: id }, signal }),
    { follows: stamp, gapMs: 5_000 },
  );
  const groups = data?.data ?? [];
  if (groups.length === 0) return null;
  const shown = isAll ? groups : groups.slice(0, SHOWN);
  const whyNot = !may("operator", who)
    ? `This needs the role operator; ${who.name} is ${who.role}.`
    : facts.cleanedUp === true
      ? "The execution has cleaned up after itself. Start a new one."
      : null;
  return (
    <section class="error-groups" aria-label="Errors">
      <h3>{plural(groups.length, "distinct error")}</h3>
      <ul>
        {shown.map((group) => (
          <li key={group.id}>
            <button
              type="button"
              class="error-group"
              aria-pressed={error === group.id}
              title="List the tasks with this error"
              onClick={() =>
                choose(
                  error === group.id
                    ? { error: null }
                    : { error: group.id, status: null, lane: laneOf(group, facts), task: null },
                )
              }
            >
              <b class="failed-text">{count(group.tasks)}</b>
              <span class="clip">
                <b>{group.name}</b> {group.message}
              </span>
              <span class="muted">{group.handler ?? ""}</span>
            </button>
            <Button icon="retry" whyNot={whyNot} onClick={() => setRetried(group)}>
              Retry {count(group.tasks)}…
            </Button>
          </li>
        ))}
      </ul>
      {groups.length > shown.length ? (
        <Button kind="bare" onClick={() => setIsAll(true)}>
          Show {count(groups.length - shown.length)} more
        </Button>
      ) : null}
      {retried === null ? null : (
        <RetryDialog
          path={path}
          choice={{ error: retried.id }}
          what={`tasks of ${retried.handler ?? "a handler"} with the error ${retried.name}`}
          onClose={() => setRetried(null)}
        />
      )}
    </section>
  );
}

/** The last visit of the handler that a group is about. */
function laneOf({ phase, handler }: LetterGroup, { phases }: About["facts"]): string | null {
  const visit = phases.findLast(({ name }) => name === phase)?.visit;
  if (phase === null || handler === null || visit === undefined) return null;
  return laneText({ phase, visit, handler });
}

/** The tasks of a group in an execution, as rows. */
export async function readGroup(
  path: string,
  group: string,
  { cursor, signal }: { readonly cursor: string | null; readonly signal?: AbortSignal },
): Promise<Page<TaskRow>> {
  const execution = decodeURIComponent(path.slice(path.lastIndexOf("/") + 1));
  const page = await get<Page<DeadLetter>>("/v1/dead-letters", {
    query: { execution, group, limit: PAGE, cursor },
    ...(signal === undefined ? {} : { signal }),
  });
  const data = page.data.flatMap(({ tasks }) =>
    tasks.map(
      ({ n, attempt, reason, worker, error }): TaskRow => ({
        ...{ n, status: "failed", attempts: attempt, reason, worker, ms: null, error },
      }),
    ),
  );
  return { data: data.sort((a, b) => a.n - b.n), next: page.next };
}
