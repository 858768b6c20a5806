/** `rondo workers`: lists and drains workers. */
import type { Worker } from "../../server/schemas/worker.ts";
import { showDuration } from "../../std/duration.ts";
import { RondoError } from "../../std/rejection.ts";
import { CliError } from "../cli-error.ts";
import { EXIT } from "../exit-code.ts";
import { printAnswer, printRows } from "../output/print.ts";
import type { Column } from "../output/table.ts";
import { type ServerFlags, withServer } from "../server/find-server.ts";
import type { Page } from "../server/read-pages.ts";

const PATH = "/v1/workers";

/** Lists the workers. */
export async function listWorkers(options: ServerFlags): Promise<void> {
  return withServer(options, async ({ rondo }) => {
    const { data } = await rondo.requester.json<Page<Worker>>(PATH);
    printRows(data, COLUMNS, {
      json: options.json,
      none: "no workers are connected; start one: rondo worker FILES",
    });
  });
}

/** Drains a worker: it gets no further tasks. */
export async function drainWorker(id: string, options: ServerFlags): Promise<void> {
  return withServer(options, async ({ rondo }) => {
    const path = `${PATH}/${encodeURIComponent(id)}/drain`;
    const answer = await rondo.requester.json<unknown>(path, { method: "POST" }).catch((thrown: unknown) => {
      if (!(thrown instanceof RondoError) || thrown.code !== "not_found") throw thrown;
      throw new CliError(EXIT.notFound, `there is no worker ${id}`, ["to list the workers: rondo workers"], {
        cause: thrown,
      });
    });
    printAnswer(options, answer ?? { id }, `worker ${id} gets no further tasks; its running tasks may end`);
  });
}

const COLUMNS: Column<Worker>[] = [
  { title: "ID", value: ({ id }) => id },
  { title: "NAME", value: ({ name }) => name },
  { title: "RUNS", value: ({ held }) => held, align: "right" },
  { title: "CAPACITY", value: ({ capacity }) => capacity, align: "right" },
  { title: "STATE", value: ({ draining }) => (draining ? "draining" : "serving") },
  {
    title: "LAST SEEN",
    value: ({ lastSeenAt }) => (lastSeenAt === null ? null : `${showDuration(Date.now() - lastSeenAt)} ago`),
  },
  {
    title: "SERVES",
    value: ({ handlers }) =>
      handlers.map(({ use, version }) => (version === undefined ? use : `${use}@${version}`)).join(" "),
  },
];
