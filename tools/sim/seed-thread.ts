/** A thread of the simulator. It runs the seeds that it receives, one after another. */
import { parentPort } from "node:worker_threads";
import { reportOf, type SeedRun } from "./seed-threads.ts";

parentPort?.on("message", (run: SeedRun) => parentPort?.postMessage(reportOf(run)));
