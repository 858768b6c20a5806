/**
 * The page of dead letters: tasks that failed for good, grouped by error. The user can open one, and retry or drop a whole
 * group.
 */
import { useState } from "preact/hooks";
import { change, get, may } from "../../api/client.ts";
import type { LetterGroup, Page } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { count, plural } from "../../core/format.ts";
import { choose, usePlace } from "../../core/router.ts";
import { useSession } from "../../shell/frame.tsx";
import { Button } from "../../ui/button.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { Icon } from "../../ui/icon.tsx";
import { PageHead } from "../../ui/panel.tsx";
import { Empty, Loading, Trouble } from "../../ui/state.tsx";
import { Ago } from "../../ui/time.tsx";
import { attempt, tell } from "../../ui/toast.tsx";
import { GroupLetters } from "./group-letters.tsx";
import "./dead-letters.css";

type Groups = Page<LetterGroup> & { readonly isAll: boolean };

export function DeadLetters() {
  const chosen = usePlace().query.get("group");
  const { data, problem, reload } = useLive(
    "groups",
    (signal) => get<Groups>("/v1/dead-letter-groups", { signal }),
    5_000,
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
            : `${plural(tasks, "task")} failed for good, in ${plural(data.data.length, "way")}${data.isAll ? "" : "; older ones are not looked at"}`
        }
      />
      {data.data.length === 0 ? (
        <section class="panel">
          <Empty title="Nothing has failed for good." />
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
            {group.lastAt === null ? null : (
              <>
                , last <Ago at={group.lastAt} />
              </>
            )}
          </span>
        </button>
        <div class="row">
          <Button icon="retry" whyNot={whyNot} onClick={() => setAsked("retry")}>
            Retry
          </Button>
          <Button icon="trash" whyNot={whyNot} onClick={() => setAsked("drop")}>
            Drop
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
  readonly refused: readonly { readonly id: string; readonly message: string }[];
}

/** Asks for confirmation before a whole group is changed. */
function Ask(props: {
  readonly group: LetterGroup;
  readonly action: "retry" | "drop";
  readonly onClose: () => void;
  readonly onDone: () => void;
}) {
  const { group, action, onClose, onDone } = props;
  const run = (): void =>
    attempt(async () => {
      const { changed, refused } = await change<Done>("POST", `/v1/dead-letter-groups/${group.id}/${action}`);
      const what =
        action === "retry"
          ? `${plural(changed, "execution")} retried`
          : `${plural(changed, "task")} off the list`;
      const first = refused[0];
      tell(
        `${what}.`,
        first === undefined ? "" : `${plural(refused.length, "execution")} refused: ${first.message}`,
      );
      onClose();
      onDone();
    });
  return (
    <Dialog
      title={action === "retry" ? "Retry these" : "Drop these"}
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Leave them</Button>
          <Button kind={action === "retry" ? "main" : "danger"} onClick={run}>
            {action === "retry"
              ? `Retry ${plural(group.executions, "execution")}`
              : `Drop ${plural(group.tasks, "task")}`}
          </Button>
        </>
      }
    >
      <p>
        {action === "retry"
          ? "Each execution begins its next round: its unfinished tasks run again, and its dead letters are removed. Executions that still run or are done are not changed."
          : "They are off this list. The executions and their journals stay as they are."}
      </p>
      <p class="muted">
        {group.name}: {group.message}
      </p>
    </Dialog>
  );
}
