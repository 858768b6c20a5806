// A program with everything embedded: the engine, a store in a directory, the HTTP API with the dashboard, and a schedule.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openRondo, workflow } from "rondo";
import { connect } from "rondo/client";

const report = workflow<{ team: string }>({ name: "report" })
  .phase("count", { tasks: [1, 2, 3], process: ({ task }) => task * 10 })
  .returns(async ({ phases, input }) => ({
    team: input.team,
    total: await phases.count.reduce((sum, n) => sum + n, 0),
  }));

const directory = await mkdtemp(join(tmpdir(), "rondo-embedded-"));
const rondo = await openRondo({
  store: `file:${directory}`,
  server: { port: Number(process.env["PORT"] ?? 0) },
});
rondo.serve(report);
await rondo.schedules.put({
  id: "each-second",
  workflow: report,
  input: { team: "ops" },
  cron: "* * * * * *",
});
console.error(`the API and the dashboard are at ${rondo.url}; commands: rondo ps --store file:${directory}`);

// Other programs use the same server.
const client = connect({ url: rondo.url as string });
console.log(JSON.stringify(await client.run<typeof report>("report", { team: "sales" })));
const scheduled = async (): Promise<number> =>
  (await client.list({ workflow: "report", status: "done" })).data.filter(({ id }) =>
    id.startsWith("each-second~"),
  ).length;
while ((await scheduled()) < 2) await new Promise((resolve) => setTimeout(resolve, 100));
console.log("the schedule has started two reports");

if (process.env["KEEP"] === undefined) await end();
else process.once("SIGINT", () => void end());

async function end(): Promise<void> {
  await rondo.close();
  await rm(directory, { recursive: true });
}
