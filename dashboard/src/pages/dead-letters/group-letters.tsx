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

/** The executions and tasks of a group, and one error in full. */
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
            {letters.map((letter) => (
              <tr key={letter.id}>
                <td>
                  <a class="mono" href={executionPage(letter.execution, { error: group.id })}>
                    {letter.execution}
                  </a>
                </td>
                <td>
                  {letter.tasks.slice(0, 8).map(({ n }) => (
                    <a
                      key={n}
                      class="tag mono"
                      href={executionPage(letter.execution, {
                        lane: `${letter.phase ?? ""}.${letter.visit}.${letter.handler ?? ""}`,
                        task: String(n),
                      })}
                    >
                      {n}
                    </a>
                  ))}
                  {letter.count > 8 ? <span class="muted"> and {count(letter.count - 8)} more</span> : null}
                </td>
                <td>{letter.at === null ? "" : <Ago at={letter.at} />}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
      {sample === undefined ? null : <ErrorView error={sample.error} isOpen />}
      {data.next === null ? null : <p class="muted">The newest {LETTERS} are shown.</p>}
    </div>
  );
}
