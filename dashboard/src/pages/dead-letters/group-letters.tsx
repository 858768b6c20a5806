import { get } from "../../api/client.ts";
import type { DeadLetter, LetterGroup, Page } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { addressOf } from "../../core/address.ts";
import { count } from "../../core/format.ts";
import { ErrorView } from "../../ui/error-view.tsx";
import { Loading, Trouble } from "../../ui/state.tsx";
import { Ago } from "../../ui/time.tsx";
import { Wide } from "../../ui/wide.tsx";

/** The dead letters of a group, and one error in full. */
export function GroupLetters({ group }: { readonly group: LetterGroup }) {
  const { data, problem } = useLive(`letters ${group.id}`, (signal) =>
    get<Page<DeadLetter>>("/v1/dead-letters", {
      query: { workflow: group.workflow, project: group.project, limit: 30 },
      signal,
    }),
  );
  if (data === null) return problem === null ? <Loading rows={3} /> : <Trouble problem={problem} />;
  const letters = data.data
    .filter(({ phase, handler }) => phase === group.phase && handler === group.handler)
    .map((letter) => ({ ...letter, tasks: letter.tasks.filter(({ error }) => isOfKind(error, group)) }))
    .filter(({ tasks }) => tasks.length > 0);
  const sample = letters[0]?.tasks[0];
  return (
    <div class="letter-body">
      <Wide label="Letters">
        <table class="rows">
          <thead>
            <tr>
              <th>Execution</th>
              <th>Tasks</th>
              <th>When</th>
            </tr>
          </thead>
          <tbody>
            {letters.slice(0, 12).map((letter) => (
              <tr key={letter.id}>
                <td>
                  <a class="mono" href={`/executions/${encodeURIComponent(letter.execution)}`}>
                    {letter.execution}
                  </a>
                </td>
                <td>
                  {letter.tasks.slice(0, 8).map(({ n }) => (
                    <a
                      key={n}
                      class="tag mono"
                      href={addressOf(`/executions/${encodeURIComponent(letter.execution)}`, {
                        lane: `${letter.phase ?? ""}.${letter.visit}.${letter.handler ?? ""}`,
                        task: String(n),
                      })}
                    >
                      {n}
                    </a>
                  ))}
                  {letter.tasks.length > 8 ? (
                    <span class="muted"> and {count(letter.tasks.length - 8)} more</span>
                  ) : null}
                </td>
                <td>{letter.at === null ? "" : <Ago at={letter.at} />}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
      {sample === undefined ? null : <ErrorView error={sample.error} />}
    </div>
  );
}

/** Whether an error belongs to a group. Like the node, it ignores quoted texts and words with digits. */
function isOfKind(error: unknown, { message }: LetterGroup): boolean {
  const said = (error as { readonly message?: unknown } | null)?.message;
  return typeof said !== "string" || shapeOf(said) === shapeOf(message);
}

function shapeOf(message: string): string {
  return message
    .replaceAll(/"[^"]*"|'[^']*'|`[^`]*`/g, "…")
    .replaceAll(/[\w.-]*\d[\w.-]*/g, "0")
    .slice(0, 200);
}
