/** A thread of the simulator. It runs the seeds that it receives, one after another. */
import { parentPort } from "node:worker_threads";
import { reportOf, type SeedRun } from "./seed-threads.ts";

let last = Promise.resolve();
parentPort?.on("message", (run: SeedRun) => {
  last = last.then(async () => parentPort?.postMessage(await reportOf(run)));
});
