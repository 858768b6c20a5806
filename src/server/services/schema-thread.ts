/** The entry of the thread that checks values against schemas, with a cache of compiled schemas. */
import { parentPort } from "node:worker_threads";
import { assert } from "../../std/assert.ts";
import type { Json } from "../../std/json.ts";
import { isRejection, type Rejection } from "../../std/rejection.ts";
import { SchemaCheck } from "./json-schema.ts";

/** A message to the thread: schema and value as JSON texts; `what` names the value in errors. */
export type SchemaCall =
  | { readonly kind: "compile"; readonly schema: string; readonly what: string }
  | { readonly kind: "check"; readonly schema: string; readonly value: string; readonly what: string };

export type SchemaReply =
  | { readonly kind: "ready" }
  | { readonly kind: "checked"; readonly rejection: Rejection | null };

const KEPT_CHARS = 2_097_152;

assert(parentPort !== null, "schema-thread.ts is started as a worker thread");
const port = parentPort;
const kept = new Map<string, SchemaCheck>();
let keptChars = 0;

port.on("message", (call: SchemaCall) => send({ kind: "checked", rejection: answer(call) }));
send({ kind: "ready" });

function send(reply: SchemaReply): void {
  port.postMessage(reply);
}

function answer(call: SchemaCall): Rejection | null {
  const check = compiled(call.schema, call.what);
  if (isRejection(check)) return check;
  return call.kind === "compile" ? null : check.check(JSON.parse(call.value) as Json, call.what);
}

function compiled(schema: string, what: string): SchemaCheck | Rejection {
  const known = kept.get(schema);
  if (known !== undefined) return known;
  const check = SchemaCheck.of(JSON.parse(schema) as Json, what);
  if (isRejection(check)) return check;
  kept.set(schema, check);
  keptChars += schema.length;
  for (const oldest of kept.keys()) {
    if (keptChars <= KEPT_CHARS || oldest === schema) break;
    kept.delete(oldest);
    keptChars -= oldest.length;
  }
  return check;
}
