/**
 * The entry of the store's thread. It runs calls one at a time, in order, and replies to each. WAL maintenance runs after
 * the reply, so a commit does not wait for it. Once a second the thread checks whether the files are in their places. It
 * ends when the store is closed or could not be opened; only then are libsql's handles on the files gone.
 */
import { parentPort, workerData } from "node:worker_threads";
import { assert } from "../../std/assert.ts";
import { DirectoryStore } from "./directory-store.ts";
import { loadDriver } from "./driver.ts";
import { toReport } from "./faults.ts";
import type { Call, Reply, ThreadData } from "./store-thread.ts";

assert(parentPort !== null, "thread.ts is started as a worker thread");
const port = parentPort;
const { directory } = workerData as ThreadData;
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
  try {
    store.maintain();
  } catch (error) {
    reply({ kind: "broken", report: toReport(error) });
  }
});
