/**
 * Receipts of commands, as they come on receipt topics. A message is a receipt only if it says how the command ended: it
 * has `cmd_result`, or a `proc_err` that is not null, or the `status` that Rondo's own workers write. Anything else, the
 * command itself above all, says nothing and goes to the dead letters.
 */
import { LIMITS } from "../../kernel/definition/definition.ts";
import type { Outcome } from "../../kernel/message.ts";
import type { Fields } from "../../protocol/read-body.ts";
import { toStoredText } from "../../std/json.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import { isStatus, notStorable, readError } from "../read-message.ts";

/** The mark of a receipt: `cmd_metadata.rondo`. Null: it has none. A value that is not an object is a changed mark. */
export function readReceiptMark(fields: Fields): { readonly mark: Fields | null } | Rejection {
  const metadata = fields["cmd_metadata"];
  const mark = isObject(metadata) ? (metadata["rondo"] ?? null) : null;
  if (mark === null || isObject(mark)) return { mark };
  return reject("invalid_input", "`cmd_metadata.rondo` is not an object: send it back unchanged");
}

/** How the command ended, or why the message is no receipt. */
export function readReceipt(fields: Fields): Outcome | Rejection {
  const { cmd_result, proc_err, status } = fields;
  // Any value but null is an error: "", 0 and false too.
  if (/* @plant empty proc_err counts as success 2 */ proc_err !== undefined && proc_err !== null)
    // @plant empty proc_err counts as success
    return { status: "failed", ...readProcErr(proc_err) };
  if (cmd_result === undefined) {
    // @plant command counts as its own receipt
    if (!isStatus(status))
      return reject("invalid_input", "it is not a receipt: it has neither `cmd_result` nor `proc_err`");
    if (status !== "done") return { status, ...readError(undefined, `the command ended as ${status}`) };
  }
  const payload = toStoredText(cmd_result ?? {}, { bytesMax: LIMITS.resultBytes, what: "cmd_result" });
  return isRejection(payload) ? notStorable(payload) : { status: "done", payload };
}

/** The error of a receipt. What is no object is kept beside the message, as it came, for readers of the document. */
function readProcErr(procErr: unknown): Pick<Outcome, "payload" | "fatal" | "retryAfterMs"> {
  const text = toStoredText(procErr, { bytesMax: LIMITS.resultBytes, what: "proc_err" });
  if (isRejection(text)) return readError(text.message, FAILED);
  if (typeof procErr === "object") return readError(procErr, FAILED);
  const { payload } = readError(
    procErr === "" ? `${FAILED}; its \`proc_err\` is an empty text` : procErr,
    FAILED,
  );
  const shown = typeof procErr === "string" ? procErr.slice(0, LIMITS.errorChars).toWellFormed() : procErr;
  return { payload: JSON.stringify({ ...(JSON.parse(payload) as object), proc_err: shown }) };
}

const FAILED = "the command failed";

function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
