/** Runs a soak for some minutes, and reports. Needs a build. */
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { createJiti } from "jiti";

const { values } = parseArgs({
  options: {
    store: { type: "string", default: "embedded" },
    minutes: { type: "string", default: "5" },
    seed: { type: "string", default: String(Math.floor(Math.random() * 1e9)) },
    json: { type: "string" },
    keep: { type: "string" },
    help: { type: "boolean", default: false },
  },
});
const { store, seed, json, keep } = values;
const minutes = Number(values.minutes);
if (values.help || !["embedded", "postgres"].includes(store) || !(minutes >= 0)) {
  console.log(`npm run soak -- [--store embedded|postgres] [--minutes 5] [--seed S] [--json FILE] [--keep FOLDER]
  runs mixed load with faults for some minutes, audits all executions, and checks that memory, files and descriptors
  stay flat (a verdict needs 10 minutes); --json writes the report, --keep keeps files if something is wrong
Needs a build. Exit code 1: something is wrong.`);
  process.exit(values.help ? 0 : 2);
}
const { soak } = await createJiti(import.meta.url).import("./soak.ts");
console.log(`soak over ${store} for ${minutes} minutes, seed ${seed}`);
const interruption = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"])
  process.once(signal, () => {
    interruption.abort();
    process.exit(130);
  });
const report = await soak({
  ...{ store, seed, minutes, interrupted: interruption.signal, say: (line) => console.log(line) },
  ...(keep === undefined ? {} : { keep }),
});
if (json !== undefined) writeFileSync(json, `${JSON.stringify(report, null, 2)}\n`);
const { totals } = report;
console.log(`
${report.minutes} minutes, ${report.rounds} rounds over ${store}
${totals.acknowledged} starts acknowledged, ${totals.executions} executions audited, ${totals.events} events
${totals.tasks} tasks: ${totals.lost} lost, ${totals.twice} counted twice
the ledger: ${totals.processed} tasks in ${totals.attempts} attempts, ${totals.signals} signals, ${totals.charged} charges, ${totals.refunded} refunds
${report.reads} reads by clients that left
faults: ${Object.entries(report.faults)
  .map(([name, count]) => `${name} ${count}`)
  .join(", ")}
rondo audit: ${report.audits.join("; after retention: ")}

${"".padEnd(20)}${["25 %", "50 %", "75 %", "100 %"].map((part) => part.padStart(9)).join("")}`);
for (const [name, { quarters, isFlat, why }] of Object.entries(report.flatness))
  console.log(
    `${name.padEnd(20)}${quarters.map((value) => String(value).padStart(9)).join("")}  ${isFlat ? "" : "NOT FLAT: "}${why}`,
  );
for (const one of report.wrong.slice(0, 20)) console.log(`\n${one.slice(0, 3_000)}`);
console.log(
  report.wrong.length === 0 ? "\nall is well" : `\nnot well: again with --store ${store} --seed ${seed}`,
);
process.exitCode = report.wrong.length === 0 ? 0 : 1;
