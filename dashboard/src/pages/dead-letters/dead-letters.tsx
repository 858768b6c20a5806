/**
 * The page of dead letters: tasks that failed for good, grouped by error. The user can open one, and retry or drop a whole
 * group.
 */
import { useEffect, useState } from "preact/hooks";
import { change, get, may, type Problem } from "../../api/client.ts";
import type { LetterGroup, Page } from "../../api/shapes.ts";
import { asProblem, useLive } from "../../api/use-live.ts";
import { count, plural } from "../../core/format.ts";
import { choose, usePlace } from "../../core/router.ts";
import { useSession } from "../../shell/frame.tsx";
import { Button } from "../../ui/button.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { Icon } from "../../ui/icon.tsx";
import { PageHead } from "../../ui/panel.tsx";
import { Empty, Loading, Trouble } from "../../ui/state.tsx";
import { Ago } from "../../ui/time.tsx";
import { tell, warn } from "../../ui/toast.tsx";
import { GroupLetters } from "./group-letters.tsx";
import "./dead-letters.css";

type Groups = Page<LetterGroup> & { readonly isAll: boolean };

export function DeadLetters() {
  const chosen = usePlace().query.get("group");
  const { data, problem, reload } = useLive(
    "groups",
    (signal) => get<Groups>("/v1/dead-letter-groups", { signal }),
    10_000,
  );
  if (data === null)
    return problem === null ? <Loading rows={6} /> : <Trouble problem={problem} onRetry={reload} />;
  const tasks = data.data.reduce((sum, group) => sum + group.tasks, 0);
  return (
    <>
      <PageHead
        title="Dead letters"
        about={
          data.data.length === 0
            ? ""
            : `${plural(tasks, "failed task")}, ${plural(data.data.length, "distinct error")}${data.isAll ? "" : "; older ones are not counted"}`
        }
      />
      {data.data.length === 0 ? (
        <section class="panel">
          <Empty title="No failed tasks." />
        </section>
      ) : (
        <ul class="letter-groups">
          {data.data.map((group) => (
            <Group key={group.id} group={group} isOpen={group.id === chosen} onChange={reload} />
          ))}
        </ul>
      )}
    </>
  );
}

function Group({
  group,
  isOpen,
  onChange,
}: {
  readonly group: LetterGroup;
  readonly isOpen: boolean;
  readonly onChange: () => void;
}) {
  const who = useSession();
  const [asked, setAsked] = useState<"retry" | "drop" | null>(null);
  const whyNot = may("operator", who) ? null : `This needs the role operator; ${who.name} is ${who.role}.`;
  return (
    <li class="panel letter-group">
      <div class="letter-head">
        <button
          type="button"
          class="letter-open"
          aria-expanded={isOpen}
          onClick={() => choose({ group: isOpen ? null : group.id })}
        >
          <span class="letter-mark">
            <Icon name={isOpen ? "down" : "right"} size={12} />
          </span>
          <span class="letter-count">{count(group.tasks)}</span>
          <span class="letter-text">
            <b class="failed-text">{group.name}</b> {group.message}
          </span>
          <span class="letter-where muted">
            {group.workflow} / {group.handler ?? group.phase ?? ""}, {plural(group.executions, "execution")}
            {group.firstAt === null || group.lastAt === null ? null : (
              <>
                , first seen <Ago at={group.firstAt} />, last <Ago at={group.lastAt} />
              </>
            )}
          </span>
        </button>
        <div class="row">
          <Button icon="retry" whyNot={whyNot} onClick={() => setAsked("retry")}>
            Retry…
          </Button>
          <Button icon="trash" whyNot={whyNot} onClick={() => setAsked("drop")}>
            Dismiss…
          </Button>
        </div>
      </div>
      {isOpen ? <GroupLetters group={group} /> : null}
      {asked === null ? null : (
        <Ask group={group} action={asked} onClose={() => setAsked(null)} onDone={onChange} />
      )}
    </li>
  );
}

interface Done {
  readonly changed: number;
  readonly tasks?: number;
  readonly refused: readonly { readonly id: string; readonly message: string }[];
}

/** Asks for confirmation before a whole group is changed; a dry run tells how many tasks a retry runs. */
function Ask(props: {
  readonly group: LetterGroup;
  readonly action: "retry" | "drop";
  readonly onClose: () => void;
  readonly onDone: () => void;
}) {
  const { group, action, onClose, onDone } = props;
  const path = `/v1/dead-letter-groups/${group.id}/${action}`;
  const [found, setFound] = useState<Done | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  const isRetry = action === "retry";
  useEffect(() => {
    if (!isRetry) return;
    change<Done>("POST", path, { dryRun: true }).then(setFound, (thrown: unknown) =>
      setProblem(asProblem(thrown)),
    );
  }, []);
  const run = async (): Promise<void> => {
    setIsBusy(true);
    try {
      const done = await change<Done>("POST", path);
      const what = isRetry
        ? `${plural(done.tasks ?? 0, "task")} of ${plural(done.changed, "execution")} will run again.`
        : `${plural(done.changed, "task")} dismissed.`;
      const [first] = done.refused;
      if (first === undefined) tell(what);
      else warn(what, `${plural(done.refused.length, "execution")} refused: ${first.message}`);
      onClose();
      onDone();
    } catch (thrown) {
      setProblem(asProblem(thrown));
      setIsBusy(false);
    }
  };
  const tasks = found?.tasks ?? 0;
  return (
    <Dialog
      title={isRetry ? "Retry failed tasks" : "Dismiss failed tasks"}
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            kind={isRetry ? "main" : "danger"}
            isBusy={isBusy || (isRetry && found === null && problem === null)}
            whyNot={isRetry && found !== null && tasks === 0 ? "None of these tasks can be retried." : null}
            onClick={() => void run()}
          >
            {isRetry
              ? `Retry${found === null ? "" : ` ${plural(tasks, "task")}`}`
              : `Dismiss ${plural(group.tasks, "task")}`}
          </Button>
        </>
      }
    >
      <p>
        {!isRetry
          ? "They are removed from this list. The executions and their journals stay as they are."
          : found === null
            ? "Counting…"
            : `${plural(tasks, "task")} will run again. Finished tasks are kept. Of executions that failed as a whole, all unfinished tasks run.`}
      </p>
      {(found?.refused.length ?? 0) === 0 ? null : (
        <p class="failed-text">
          {plural(found?.refused.length ?? 0, "execution")} cannot be retried: {found?.refused[0]?.message}
        </p>
      )}
      <p class="muted">
        {group.name}: {group.message}
      </p>
      {problem === null ? null : <Trouble problem={problem} />}
    </Dialog>
  );
}
