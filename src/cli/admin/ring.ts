/** `rondo ring`: shows the nodes of the cluster in ring order, with their state. */
import type { Ring } from "../../server/schemas/node.ts";
import { showDuration } from "../../std/duration.ts";
import { printJson, printLine, printRows } from "../output/print.ts";
import type { Column } from "../output/table.ts";
import { type ServerFlags, withServer } from "../server/find-server.ts";

/** Shows the ring as one node sees it. */
export async function showRing(options: ServerFlags): Promise<void> {
  return withServer(options, async ({ rondo }) => {
    const ring = await rondo.requester.json<Ring>("/v1/ring");
    if (options.json) return printJson(ring);
    const { token, cycle, queued, watch } = ring;
    printRows(ring.nodes, columnsFor(ring), { json: false, none: "no node has joined yet" });
    printLine(`as ${ring.url} sees it${ring.hash === "" ? "" : `, by map ${ring.hash.slice(0, 8)}`}`);
    if (token !== null) printLine(`token ${token.epoch}.${token.number} is at ${token.at}`);
    const last = cycle.lastMs === null ? "no cycle yet" : `the last cycle took ${showDuration(cycle.lastMs)}`;
    printLine(`${last}; queued: ${queued.hints} hints of mail, ${queued.timers} timers`);
    printLine(`watches ${watch.timers} timers of other nodes; ${watch.lateness.count} were late`);
  });
}

function columnsFor({ token }: Ring): Column<Ring["nodes"][number]>[] {
  return [
    { title: "NODE", value: ({ url }) => url },
    { title: "PARTITIONS", value: ({ partitions }) => partitions, align: "right" },
    {
      title: "MAP",
      value: ({ hash, agrees }) => (hash === null ? "not heard" : agrees ? "agrees" : "differs"),
    },
    {
      title: "STATE",
      value: ({ url, suspect }) => (suspect ? "silent" : token?.at === url ? "has the token" : "here"),
    },
    { title: "CLOCKWORKERS", value: ({ clockworkers }) => clockworkers.join(" ") },
  ];
}
