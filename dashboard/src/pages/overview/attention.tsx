/** Problems that need attention now, with links to the pages on which they can be repaired. */
import { get } from "../../api/client.ts";
import type { Attention as Item, Page } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { addressOf, executionPage } from "../../core/address.ts";
import { count, plural } from "../../core/format.ts";
import { Badge, type BadgeState } from "../../ui/badge.tsx";
import { Panel } from "../../ui/panel.tsx";

const EVERY_MS = 15_000;

const STATES: Readonly<Record<Item["kind"], { readonly state: BadgeState; readonly label: string }>> = {
  node: { state: "failed", label: "node" },
  damaged: { state: "damaged", label: "damaged" },
  unserved: { state: "worker", label: "no worker" },
  slow: { state: "retrying", label: "slow" },
  schedule: { state: "failed", label: "schedule" },
  error: { state: "failed", label: "new error" },
  errors: { state: "failed", label: "new errors" },
};

export function Attention() {
  const { data } = useLive("attention", (signal) => get<Page<Item>>("/v1/attention", { signal }), EVERY_MS);
  const items = data?.data ?? [];
  // The line is there from the first moment, so that what follows it does not jump.
  if (items.length === 0)
    return (
      <p class={`attention-none${data === null ? "" : " is-known"}`}>
        {data === null ? "Checking what needs attention…" : "Nothing needs attention."}
      </p>
    );
  return (
    <Panel title="Needs attention" aside={count(items.length)} isFlush class="attention">
      <ul>
        {items.map((item) => (
          <li key={`${item.kind} ${item.name}`}>
            <a href={placeOf(item)}>
              <Badge state={STATES[item.kind].state} text={STATES[item.kind].label} />
              <b class="clip">{titleOf(item)}</b>
              <span class="clip muted">{item.text}</span>
            </a>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function titleOf({ kind, name, count: n, workflow }: Item): string {
  switch (kind) {
    case "damaged":
      return plural(n, "damaged execution");
    case "unserved":
      return `${name}: ${plural(n, "task waits", "tasks wait")}`;
    case "error":
      return `${workflow ?? ""}: ${plural(n, "task")} failed`;
    case "errors":
      return `${count(n)} more new ${n === 1 ? "error" : "errors"}`;
    case "slow":
      return `${workflow ?? ""}: ${name}`;
    default:
      return name;
  }
}

function placeOf({ kind, name }: Item): string {
  switch (kind) {
    case "node":
      return "/ring";
    case "damaged":
      return addressOf("/executions", { status: "damaged" });
    case "unserved":
      return "/queues";
    case "schedule":
      return addressOf("/schedules", { q: name });
    case "error":
      return addressOf("/dead-letters", { group: name });
    case "errors":
      return "/dead-letters";
    case "slow":
      return executionPage(name);
  }
}
