/** The tab with post-operations: writes to state stores and broadcasts, try by try, with the commands they belong to. */
import type { JournalEvent } from "../../api/shapes.ts";
import { clock } from "../../core/format.ts";
import { Badge } from "../../ui/badge.tsx";
import { messageOf } from "../../ui/error-view.tsx";
import { JsonView } from "../../ui/json.tsx";
import { Empty, Loading, Trouble } from "../../ui/state.tsx";
import { Wide } from "../../ui/wide.tsx";
import type { About } from "./execution.tsx";
import { textOf } from "./text-of.ts";
import { useKinds } from "./use-kinds.ts";

export function DeliveriesTab({ path, facts, at }: About) {
  const { events, problem } = useKinds(path, "postop.,command.", { revision: facts.revision, at });
  if (events === null) return problem === null ? <Loading /> : <Trouble problem={problem} />;
  if (events.length === 0)
    return <Empty title="It has no commands and no post-operations: nothing was to be delivered." />;
  const receipts = events.filter(({ kind }) => kind.endsWith("command.receipted"));
  const tries = events.filter(({ kind }) => kind.includes("postop."));
  return (
    <div class="stack pad">
      {receipts.length === 0 ? null : (
        <section>
          <h3>Receipts</h3>
          <ul class="stack">
            {receipts.map((event) => (
              <li key={event.seq} class="receipt">
                <p class="row">
                  <Badge
                    state={event["proc_status"] === "COMPLETE" ? "done" : "failed"}
                    text={textOf(event["proc_status"])}
                  />
                  <span>{textOf(event["handler"])}</span>
                  <span class="muted mono">{clock(event.at, { withMs: true })}</span>
                </p>
                <JsonView
                  value={event["cmd_result"] ?? event["proc_err"] ?? null}
                  label={`Receipt of ${textOf(event["handler"])}`}
                />
              </li>
            ))}
          </ul>
        </section>
      )}
      {tries.length === 0 ? null : <Tries tries={tries} />}
    </div>
  );
}

function Tries({ tries }: { readonly tries: readonly JournalEvent[] }) {
  return (
    <section>
      <h3>Post-operations</h3>
      <Wide label="Post-operations">
        <table class="rows">
          <thead>
            <tr>
              <th>When</th>
              <th>Step</th>
              <th>What</th>
              <th>Target</th>
              <th class="num">Try</th>
              <th>Outcome</th>
            </tr>
          </thead>
          <tbody>
            {tries.map((event) => (
              <tr key={event.seq}>
                <td class="mono nowrap">{clock(event.at, { withMs: true })}</td>
                <td>{textOf(event["step"] ?? event["phase"])}</td>
                <td>{textOf(event["op"])}</td>
                <td class="mono">{textOf(event["target"])}</td>
                <td class="num">{textOf(event["attempt"])}</td>
                <td>
                  {event.kind.endsWith("done") ? (
                    <Badge state="done" />
                  ) : (
                    <Badge state={(event["until"] ?? null) === null ? "failed" : "retrying"} />
                  )}
                  {(event["error"] ?? null) === null ? null : (
                    <span class="failed-text"> {messageOf(event["error"])}</span>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
    </section>
  );
}
