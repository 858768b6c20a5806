/**
 * The entry point of the store's thread. It runs calls in order and replies to each; checkpoints of the WAL follow the reply.
 * Once a second it checks that the store's files are in place. libsql closes its file handles only when the thread ends.
 */
import { parentPort, workerData } from "node:worker_threads";
import { assert } from "../../std/assert.ts";
import { DirectoryStore } from "./directory-store.ts";
import { loadDriver } from "./driver.ts";
import { toReport } from "./faults.ts";
import type { Call, Reply, ThreadData } from "./store-thread.ts";

assert(parentPort !== null, "thread.ts must be started as a worker thread");
const port = parentPort;
const { directory, closed } = workerData as ThreadData;
const store = new DirectoryStore(directory, await loadDriver());
const reply = (message: Reply): void => port.postMessage(message);
const FILES_MS = 1_000;

let areFilesInPlace = true;
setInterval(() => {
  const fault = store.filesFault;
  if ((fault === null) === areFilesInPlace) return;
  areFilesInPlace = fault === null;
  reply({ kind: "files", report: fault === null ? null : toReport(fault) });
}, FILES_MS).unref();

port.on("message", ([method, ...args]: Call) => {
  try {
    reply({ kind: "done", value: store.call(method, args as never) });
    if (method === "close") port.close();
  } catch (error) {
    reply({ kind: "failed", report: toReport(error) });
    if (method === "open") port.close();
  }
  if (method === "close") {
    Atomics.store(new Int32Array(closed), 0, 1);
    Atomics.notify(new Int32Array(closed), 0);
  }
  try {
    store.maintain();
  } catch (error) {
    reply({ kind: "broken", report: toReport(error) });
  }
});
