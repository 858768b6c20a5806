/** `node test/faults/soak.mjs --minutes 5 --seed 7`: faults at random for so long, and a report. Needs a build. */
import { parseArgs } from "node:util";
import { createJiti } from "jiti";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "5" },
    seed: { type: "string", default: String(Math.floor(Math.random() * 1e9)) },
  },
});
const { soak } = await createJiti(import.meta.url).import("./soak.ts");
console.log(`seed ${values.seed}`);
const report = await soak({
  seed: values.seed,
  minutes: Number(values.minutes),
  say: (line) => console.log(line),
});
console.log(JSON.stringify(report, null, 2));
process.exitCode = report.wrong.length === 0 ? 0 : 1;
