/** The page of alerts: rules, with a test of each, and the alerts that were sent. */
import { useState } from "preact/hooks";
import { change, get, may } from "../../api/client.ts";
import type { Alert, AlertRule, Alerts } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { coarse, plural, relative } from "../../core/format.ts";
import { useNow } from "../../core/now.ts";
import { useSession } from "../../shell/frame.tsx";
import { Badge } from "../../ui/badge.tsx";
import { Button } from "../../ui/button.tsx";
import { PageHead, Panel } from "../../ui/panel.tsx";
import { ReasonDialog } from "../../ui/reason-dialog.tsx";
import { Empty, Loading, Trouble } from "../../ui/state.tsx";
import { Ago } from "../../ui/time.tsx";
import { attempt, tell, warn } from "../../ui/toast.tsx";
import { Wide } from "../../ui/wide.tsx";
import { CAUSES, RuleDialog } from "./rule-dialog.tsx";

const EVERY_MS = 10_000;

export function AlertsPage() {
  const who = useSession();
  const { data, problem, reload } = useLive(
    "alerts",
    (signal) => get<Alerts>("/v1/alerts", { signal }),
    EVERY_MS,
  );
  const [isNew, setIsNew] = useState(false);
  const [removed, setRemoved] = useState<string | null>(null);
  const whyNot = may("admin", who) ? null : `This needs the role admin; ${who.name} is ${who.role}.`;
  return (
    <>
      <PageHead title="Alerts" about="messages about failures, to a webhook or a program">
        <Button kind="main" icon="plus" whyNot={whyNot} onClick={() => setIsNew(true)}>
          New rule…
        </Button>
      </PageHead>
      {data === null ? (
        problem === null ? (
          <Loading rows={6} />
        ) : (
          <Trouble problem={problem} onRetry={reload} />
        )
      ) : (
        <div class="stack">
          <Panel title="Rules" isFlush>
            <Rules rules={data.rules} whyNot={whyNot} onRemove={setRemoved} />
          </Panel>
          <Panel title="Sent" isFlush>
            <Sent alerts={data.alerts} />
          </Panel>
        </div>
      )}
      {isNew ? <RuleDialog targets={data?.targets ?? []} onClose={() => setIsNew(false)} /> : null}
      {removed === null ? null : (
        <ReasonDialog
          title={`Delete the rule ${removed}?`}
          text="It causes no more alerts. Alerts that were sent stay in the list."
          action="Delete"
          isDanger
          hasReason={false}
          onClose={() => setRemoved(null)}
          run={async () => {
            await change("DELETE", `/v1/alerts/${encodeURIComponent(removed)}`);
            tell("Deleted.");
          }}
        />
      )}
    </>
  );
}

function Rules(props: {
  readonly rules: readonly AlertRule[];
  readonly whyNot: string | null;
  readonly onRemove: (id: string) => void;
}) {
  const { rules, whyNot, onRemove } = props;
  const who = useSession();
  const noTest = may("operator", who) ? null : `This needs the role operator; ${who.name} is ${who.role}.`;
  const test = (id: string): void =>
    attempt(async () => {
      const { sent, error } = await change<{ sent: boolean; error: string | null }>(
        "POST",
        `/v1/alerts/${encodeURIComponent(id)}/test`,
      );
      if (sent) tell("The target took the test.");
      else warn("The target did not take the test.", error ?? "");
    });
  if (rules.length === 0)
    return (
      <Empty title="No rules yet.">
        <span>
          A rule sends a signed request to a URL when an execution fails, an error is new, a queue gets old or
          a node dies. Programs are named by <code>alerts</code> in the configuration file.
        </span>
      </Empty>
    );
  return (
    <Wide label="Rules">
      <table class="rows">
        <thead>
          <tr>
            <th>Rule</th>
            <th>When</th>
            <th>
              <span class="unseen">Actions</span>
            </th>
            <th>Sends to</th>
          </tr>
        </thead>
        <tbody>
          {rules.map((rule) => (
            <tr key={rule.id}>
              <td>
                <b>{rule.id}</b>
                {rule.isOfFile ? <span class="muted small"> configuration file</span> : null}
              </td>
              <td>{whenText(rule)}</td>
              <td>
                <span class="row">
                  <Button whyNot={noTest} label={`Test ${rule.id}`} onClick={() => test(rule.id)}>
                    Test
                  </Button>
                  <Button
                    kind="bare"
                    icon="trash"
                    label={`Delete ${rule.id}`}
                    whyNot={rule.isOfFile ? "It is in the configuration file." : whyNot}
                    onClick={() => onRemove(rule.id)}
                  />
                </span>
              </td>
              <td class="mono">{rule.to}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Wide>
  );
}

function whenText({ when, workflow, project, afterMs = 600_000 }: AlertRule): string {
  const what = when === "queue.old" ? `a queue is older than ${coarse(afterMs)}` : CAUSES[when];
  return [
    what,
    ...(workflow === undefined ? [] : [`workflow ${workflow}`]),
    ...(project === undefined ? [] : [`project ${project}`]),
  ].join(", ");
}

function Sent({ alerts }: { readonly alerts: readonly Alert[] }) {
  const now = useNow();
  if (alerts.length === 0) return <Empty title="No alerts yet." />;
  return (
    <Wide label="Alerts">
      <table class="rows">
        <thead>
          <tr>
            <th>State</th>
            <th>Alert</th>
            <th>Rule</th>
            <th>When</th>
          </tr>
        </thead>
        <tbody>
          {alerts.map((alert) => (
            <tr key={`${alert.rule} ${alert.at} ${alert.text}`}>
              <td>
                <Badge
                  state={alert.state === "sent" ? "done" : alert.state === "failed" ? "failed" : "retrying"}
                  text={alert.state === "open" ? "sending" : alert.state === "failed" ? "not sent" : "sent"}
                />
              </td>
              <td>
                <a href={alert.page}>{alert.text}</a>
                {alert.error === null ? null : (
                  <span class="failed-text small">
                    {" "}
                    {plural(alert.tries, "try", "tries")}: {alert.error}
                    {alert.state === "open" ? `, again ${relative(alert.dueAt, now)}` : ""}
                  </span>
                )}
              </td>
              <td>{alert.rule}</td>
              <td class="nowrap">
                <Ago at={alert.at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Wide>
  );
}
