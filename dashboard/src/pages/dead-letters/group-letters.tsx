import { get } from "../../api/client.ts";
import type { DeadLetter, LetterGroup, Page } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { executionPage } from "../../core/address.ts";
import { count } from "../../core/format.ts";
import { ErrorView } from "../../ui/error-view.tsx";
import { Loading, Trouble } from "../../ui/state.tsx";
import { Ago } from "../../ui/time.tsx";
import { Wide } from "../../ui/wide.tsx";

const LETTERS = 50;
const TASKS_SHOWN = 8;

/** The failed tasks of a group in one handler of an execution. A dead letter has those of one commit. */
interface Failed {
  readonly letter: DeadLetter;
  readonly tasks: readonly number[];
  readonly count: number;
}

function failedOf(letters: readonly DeadLetter[]): readonly Failed[] {
  const found = new Map<string, Failed>();
  for (const letter of letters) {
    const key = JSON.stringify([letter.execution, letter.phase, letter.visit, letter.handler]);
    const known = found.get(key);
    found.set(key, {
      letter: known?.letter ?? letter,
      tasks: [...(known?.tasks ?? []), ...letter.tasks.map(({ n }) => n)],
      count: (known?.count ?? 0) + letter.count,
    });
  }
  return [...found.values()];
}

/** One error of a group in full, and the executions and tasks of the group. */
export function GroupLetters({ group }: { readonly group: LetterGroup }) {
  const { data, problem } = useLive(`letters ${group.id}`, (signal) =>
    get<Page<DeadLetter>>("/v1/dead-letters", {
      query: { workflow: group.workflow, project: group.project, group: group.id, limit: LETTERS },
      signal,
    }),
  );
  if (data === null) return problem === null ? <Loading rows={3} /> : <Trouble problem={problem} />;
  const letters = data.data;
  const sample = letters[0]?.tasks[0];
  return (
    <div class="letter-body">
      <h2 class="unseen">Tasks with this error</h2>
      {sample === undefined ? null : <ErrorView error={sample.error} />}
      <Wide label="Executions with this error">
        <table class="rows">
          <thead>
            <tr>
              <th>Execution</th>
              <th>Tasks</th>
              <th>When</th>
            </tr>
          </thead>
          <tbody>
            {failedOf(letters).map(({ letter, tasks, count: n }) => (
              <tr key={letter.id}>
                <td>
                  <a class="mono" href={executionPage(letter.execution, { error: group.id })}>
                    {letter.execution}
                  </a>
                </td>
                <td>
                  {tasks.slice(0, TASKS_SHOWN).map((task) => (
                    <a
                      key={task}
                      class="tag mono"
                      href={executionPage(letter.execution, {
                        lane: `${letter.phase ?? ""}.${letter.visit}.${letter.handler ?? ""}`,
                        task: String(task),
                      })}
                    >
                      {task}
                    </a>
                  ))}
                  {n > TASKS_SHOWN ? (
                    <a class="tag" href={executionPage(letter.execution, { error: group.id })}>
                      {data.next === null ? "and" : "and at least"} {count(n - TASKS_SHOWN)} more
                    </a>
                  ) : null}
                </td>
                <td>{letter.at === null ? "" : <Ago at={letter.at} />}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
      {data.next === null ? null : (
        <p class="muted">The newest failures are shown. The execution lists them all.</p>
      )}
    </div>
  );
}
