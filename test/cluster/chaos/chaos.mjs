/** Breaks a real cluster, or with --broker a RabbitMQ, for so long, and reports. Needs a build. */
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { createJiti } from "jiti";

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "60" },
    seed: { type: "string", default: String(Math.floor(Math.random() * 1e9)) },
    lease: { type: "string", default: "3000" },
    rate: { type: "string", default: "10" },
    json: { type: "string" },
    keep: { type: "string" },
    broker: { type: "boolean", default: false },
    tasks: { type: "string", default: "50000" },
    commands: { type: "string", default: "1000" },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log(`npm run chaos -- [--seconds 60] [--seed S] [--json FILE] [--lease MS] [--rate N] [--keep FOLDER]
  breaks a real cluster for so long, and reports
npm run chaos -- --broker [--seconds 60] [--seed S] [--json FILE] [--tasks 50000] [--commands 1000]
  breaks a RabbitMQ under an engine and its workers
Needs a build. Exit code 1: something is wrong.`);
  process.exit(0);
}
const startedAt = Date.now();
const say = (line) => console.log(`${((Date.now() - startedAt) / 1_000).toFixed(1).padStart(6)} s  ${line}`);
if (values.broker) {
  const { brokerChaos, isWellWithBroker } = await createJiti(import.meta.url).import("./broker-chaos.ts");
  const { seed } = values;
  const [seconds, tasks, commands] = [values.seconds, values.tasks, values.commands].map(Number);
  console.log(
    `chaos with a broker for ${seconds} s, ${tasks} tasks, ${commands} command workflows, seed ${seed}`,
  );
  const found = await brokerChaos({ seed, seconds, tasks, commands, say });
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(found, null, 2)}\n`);
  const lists = ["lost", "miscounted", "missing", "stuck", "queuesLeft", "consumersLeft", "wrong"];
  console.log(`\nfaults: ${JSON.stringify(found.faults)}; ${found.deadLetters} dead letters at the broker\n`);
  for (const name of lists) console.log(`${name.padEnd(16)}${found[name].length}`);
  for (const one of lists.flatMap((name) => found[name]).slice(0, 20)) console.log(String(one).slice(0, 600));
  console.log(isWellWithBroker(found) ? "\nall is well" : `\nnot well: again with --broker --seed ${seed}`);
  process.exit(isWellWithBroker(found) ? 0 : 1);
}
const { chaos, isWell } = await createJiti(import.meta.url).import("./chaos.ts");
console.log(`chaos for ${values.seconds} s, seed ${values.seed}`);
const report = await chaos({
  seed: values.seed,
  seconds: Number(values.seconds),
  leaseMs: Number(values.lease),
  rate: Number(values.rate),
  ...(values.keep === undefined ? {} : { keep: values.keep }),
  say,
});
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(report, null, 2)}\n`);
const { lost, stuck, miscounted, staleRows, wrong } = report;
console.log(`
${report.acknowledged} of ${report.offered} starts acknowledged, ${report.attempts} attempts begun
${report.taken} times a partition was taken, ${report.rows} rows of journals looked at
faults: ${Object.entries(report.faults)
  .map(([name, count]) => `${name} ${count}`)
  .join(", ")}
over ${(report.healedMs / 1_000).toFixed(1)} s after the last fault (${Object.entries(report.lastMs)
  .map(([name, ms]) => `${name} ${(ms / 1_000).toFixed(1)} s`)
  .join(", ")})

lost            ${lost.length}
counted wrongly ${miscounted.length}
stuck           ${stuck.length}
stale rows      ${staleRows.length}
else wrong      ${wrong.length}
`);
for (const one of [...lost, ...miscounted, ...stuck, ...staleRows, ...wrong].slice(0, 20))
  console.log(typeof one === "string" ? one : JSON.stringify(one).slice(0, 600));
console.log(isWell(report) ? "all is well" : `not well: again with --seed ${values.seed}`);
process.exitCode = isWell(report) ? 0 : 1;
