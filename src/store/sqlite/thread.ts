/**
 * The entry of the store's thread: takes calls one at a time, in order, and answers each. A commit's answer goes
 * out before the WAL is tended. Once a second it looks whether the files are in their places. The thread ends when the store is closed or could not be opened; only then are
 * libsql's handles on the files gone.
 */
import { parentPort, workerData } from "node:worker_threads";
import { assert, Bug } from "../../std/assert.ts";
import { DirectoryStore } from "./directory-store.ts";
import { loadDriver } from "./driver.ts";
import { toReport } from "./faults.ts";
import { unpackWrites } from "./packed-commit.ts";
import type { Call, Reply, ThreadData } from "./thread-messages.ts";

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

port.on("message", (call: Call) => {
  try {
    reply({ kind: "done", value: answer(call) });
    if (call.kind === "close") port.close();
  } catch (error) {
    reply({ kind: "failed", report: toReport(error) });
    if (call.kind === "open") port.close();
  }
  try {
    store.maintain();
  } catch (error) {
    reply({ kind: "broken", report: toReport(error) });
  }
});

function answer(call: Call): unknown {
  switch (call.kind) {
    case "open":
      return store.open({ pid: process.pid, startedAt: call.startedAt });
    case "announce":
      return store.announce(call.listening);
    case "commit":
      return store.commit(call.fence, unpackWrites(call.writes), call.lettersTaken);
    case "load":
      return store.load(call.ids, call.options);
    case "readJournal":
      return store.readJournal(call.range);
    case "scanWork":
      return store.scanWork(call);
    case "scanTimers":
      return store.scanTimers(call);
    case "listHeads":
      return store.listHeads(call.filter, call.options);
    case "findOrders":
      return store.findOrders(call.word, call.options);
    case "headsOf":
      return store.headsOf(call.orders);
    case "indexSome":
      return store.indexSome();
    case "clearIndex":
      return store.clearIndex();
    case "scanLetters":
      return store.scanLetters(call);
    case "readLogs":
      return store.readLogs(call);
    case "listDeadLetters":
      return store.listDeadLetters(call.filter, call.options);
    case "dropDeadLetter":
      return store.dropDeadLetter(call.order, call.tasks);
    case "countHeads":
      return store.countHeads(call.filter);
    case "listEnded":
      return store.listEnded(call);
    case "forget":
      return store.forget(call.ids);
    case "sweep":
      return store.sweep();
    case "shrink":
      return store.shrink();
    case "putDerived":
      return store.putDerived(call.derived);
    case "timersOf":
      return store.timersOf(call.execution);
    case "dropDamaged":
      return store.dropDamaged(call.execution, call.letter);
    case "auditTables":
      return store.auditTables(call);
    case "putDocument":
      return store.putDocument(call.of, call.id, call.body);
    case "swapDocument":
      return store.swapDocument(call.of, call.id, call.swap);
    case "getDocument":
      return store.getDocument(call.of, call.id);
    case "listDocuments":
      return store.listDocuments(call.of, call.options);
    case "putDefinition":
      return store.putDefinition(call.name, call.hash, call.body);
    case "dropDefinition":
      return store.dropDefinition(call.name, call.hash);
    case "getDefinition":
      return store.getDefinition(call.by);
    case "listDefinitions":
      return store.listDefinitions(call);
    case "backup":
      return store.backup(call.file);
    case "close":
      return store.close(call);
    default:
      throw unknownCall(call);
  }
}

/** The engine's side is of another build than this thread. */
function unknownCall(call: never): Bug {
  const { kind } = call as { readonly kind: string };
  return new Bug(
    `the store's thread does not know the call ${kind}: it is of another build than the engine; build or install Rondo again`,
  );
}
