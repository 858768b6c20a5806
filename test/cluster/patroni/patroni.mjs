/** Fails a database over that Patroni manages, and reports. Needs a build, and Debian's packages patroni and etcd-server. */
import { createJiti } from "jiti";

const { failOverWithPatroni } = await createJiti(import.meta.url).import("./patroni.ts");
const startedAt = Date.now();
const wrong = await failOverWithPatroni((line) =>
  console.log(`${((Date.now() - startedAt) / 1_000).toFixed(1).padStart(6)} s  ${line}`),
);
for (const one of wrong.slice(0, 20)) console.log(one);
console.log(wrong.length === 0 ? "all is well" : "not well");
process.exitCode = wrong.length === 0 ? 0 : 1;
