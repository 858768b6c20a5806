/** The page of settings: tokens, the effective configuration with the origin of each value, and the audit log. */
import { get, may } from "../../api/client.ts";
import type { AuditEntry, Page, Setting } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { addressOf, executionPage } from "../../core/address.ts";
import { chosenDuration, moment } from "../../core/format.ts";
import { usePlace } from "../../core/router.ts";
import { useSession } from "../../shell/frame.tsx";
import { useFinder } from "../../ui/finder.tsx";
import { PageHead, Panel } from "../../ui/panel.tsx";
import { Empty, Loading, Trouble } from "../../ui/state.tsx";
import { Tabs } from "../../ui/tabs.tsx";
import { Wide } from "../../ui/wide.tsx";
import { Appearance } from "./appearance.tsx";
import { Tokens } from "./tokens.tsx";
import "./settings.css";

const TABS = [
  { id: "config", label: "Configuration" },
  { id: "tokens", label: "Tokens" },
  { id: "audit", label: "Audit log" },
  { id: "appearance", label: "Appearance" },
];

export function Settings() {
  const who = useSession();
  const tab = usePlace().query.get("tab") ?? "config";
  const isAdmin = may("admin", who);
  return (
    <>
      <PageHead
        title="Settings"
        about={`Signed in as ${who.name} (${who.role}${who.project === null ? "" : `, project ${who.project}`})`}
      />
      <div class="stack">
        <Tabs name="tab" tabs={TABS} chosen={tab} label="Settings" />
        {tab === "appearance" ? (
          <Appearance />
        ) : !isAdmin ? (
          <section class="panel">
            <Empty title={`This needs the role admin; ${who.name} is ${who.role}.`} />
          </section>
        ) : tab === "tokens" ? (
          <Tokens />
        ) : tab === "audit" ? (
          <Audit />
        ) : (
          <Configuration />
        )}
      </div>
    </>
  );
}

function Configuration() {
  const { data, problem, reload } = useLive("config", (signal) =>
    get<{ data: readonly Setting[] }>("/v1/config", { signal }),
  );
  if (data === null) return problem === null ? <Loading /> : <Trouble problem={problem} onRetry={reload} />;
  return (
    <Panel
      title="Effective configuration"
      aside="set by a flag, the environment, a file, else the default"
      isFlush
    >
      {data.data.length === 0 ? (
        <Empty title="This node was opened by code, not by the command line: it has no settings to show." />
      ) : (
        <Wide label="Configuration">
          <table class="rows">
            <thead>
              <tr>
                <th>Setting</th>
                <th>Value</th>
                <th>From</th>
              </tr>
            </thead>
            <tbody>
              {data.data.map(({ name, value, origin }) => (
                <tr key={name} class={origin === "default" ? "is-default" : ""}>
                  <td class="mono">{name}</td>
                  <td class="mono setting-value">{showSetting(name, value)}</td>
                  <td>{origin}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Wide>
      )}
    </Panel>
  );
}

/** Names of settings that are durations in milliseconds. */
const TIMES = ["retention", "eventsKept", "brokerSilence", "lease", "heartbeat", "claimLease", "sweep"];

function showSetting(name: string, value: unknown): string {
  if (value === null) return "not set";
  if (isHollow(value)) return "none";
  if (TIMES.includes(name) && typeof value === "number") return chosenDuration(value);
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Whether a value is an empty list or object, or has only such values. */
function isHollow(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.values(value).every(isHollow);
}

function Audit() {
  const { data, problem, reload } = useLive(
    "audit",
    (signal) => get<Page<AuditEntry>>("/v1/audit-log", { query: { limit: 200 }, signal }),
    10_000,
  );
  const { shown, field, foot } = useFinder(
    "changes",
    data?.data ?? [],
    ({ who, action, target, reason }) => `${who} ${action} ${target} ${reason ?? ""}`,
  );
  if (data === null) return problem === null ? <Loading /> : <Trouble problem={problem} onRetry={reload} />;
  return (
    <Panel
      title={data.next === null ? "Changes" : "Changes, the newest 200"}
      aside={field ?? undefined}
      isFlush
    >
      {data.data.length === 0 ? (
        <Empty title="No changes yet." />
      ) : (
        <Wide label="Audit log">
          <table class="rows">
            <thead>
              <tr>
                <th>When</th>
                <th>Who</th>
                <th>Action</th>
                <th>Target</th>
                <th>Reason</th>
              </tr>
            </thead>
            <tbody>
              {shown.map((entry, i) => (
                <tr key={i}>
                  <td class="nowrap">{moment(entry.at)}</td>
                  <td>
                    {entry.who} <span class="muted">{entry.role}</span>
                  </td>
                  <td>{entry.action}</td>
                  <td class="mono setting-value">
                    <Target entry={entry} />
                  </td>
                  <td class="setting-value">{entry.reason ?? ""}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Wide>
      )}
      {foot}
    </Panel>
  );
}

/** What was changed, as a link if it has a page. */
function Target({ entry: { action, target } }: { readonly entry: AuditEntry }) {
  const page = pageOf(action, target);
  return page === null ? <>{target}</> : <a href={page}>{target}</a>;
}

function pageOf(action: string, target: string): string | null {
  const [name = ""] = target.split(" ");
  const [kind] = action.split(".");
  if (kind === "execution" && action !== "execution.start_many") return executionPage(name);
  if (kind === "schedule") return addressOf("/schedules", { q: name });
  if (kind === "workflow") return `/definitions/${encodeURIComponent(name)}`;
  return kind === "queue" ? "/queues" : null;
}
