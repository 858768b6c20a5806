import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isRejection } from "../../std/rejection.ts";
import { readReceipt, readReceiptMark } from "./read-receipt.ts";

const COMMAND = { cmd_type: "EMBED", cmd_data: {}, cmd_metadata: { rondo: { attempt: "a", token: "t" } } };

describe("a message is a receipt only if it says how the command ended", () => {
  test("the command itself is none", () => {
    expect(readReceipt(COMMAND)).toMatchObject({ kind: "rejection" });
    expect(readReceipt({ ...COMMAND, proc_err: null })).toMatchObject({ kind: "rejection" });
    expect(readReceipt({ ...COMMAND, proc_status: "COMPLETE", result: 1 })).toMatchObject({
      kind: "rejection",
    });
  });

  test.each([42, 0, false, "", [], {}, { a: 1 }])("%j as cmd_result is its result", (cmd_result) => {
    expect(readReceipt({ ...COMMAND, cmd_result, proc_err: null })).toEqual({
      status: "done",
      payload: JSON.stringify(cmd_result),
    });
  });

  test("a cmd_result that is null is an empty result", () => {
    expect(readReceipt({ ...COMMAND, cmd_result: null })).toEqual({ status: "done", payload: "{}" });
  });

  test.each(["", "no such repo", 0, 5, false, true, [], {}, { message: "no" }, ["a"]])(
    "%j as proc_err is an error, whatever the result says",
    (proc_err) => {
      for (const more of [{}, { cmd_result: { a: 1 } }])
        expect(readReceipt({ ...COMMAND, ...more, proc_err })).toMatchObject({ status: "failed" });
    },
  );

  test("an error that is no object is kept as it came, with a message for people", () => {
    const errorOf = (proc_err: unknown) =>
      JSON.parse((readReceipt({ proc_err }) as { payload: string }).payload) as Record<string, unknown>;
    expect(errorOf("no such repo")).toMatchObject({ message: "no such repo", proc_err: "no such repo" });
    expect(errorOf("")).toMatchObject({ message: expect.stringContaining("empty string"), proc_err: "" });
    expect(errorOf(0)).toMatchObject({ message: "0", proc_err: 0 });
    expect(errorOf({ name: "E", message: "m" })).toEqual({ name: "E", message: "m" });
  });

  test("the status that Rondo's own workers write is enough", () => {
    expect(readReceipt({ ...COMMAND, status: "done" })).toEqual({ status: "done", payload: "{}" });
    expect(readReceipt({ ...COMMAND, status: "crashed" })).toMatchObject({ status: "crashed" });
    expect(readReceipt({ ...COMMAND, status: "suspended" })).toMatchObject({ kind: "rejection" });
  });

  test("an error that cannot be stored is an error that says so", () => {
    const deep = JSON.parse(`${"[".repeat(50_000)}${"]".repeat(50_000)}`) as unknown;
    expect(readReceipt({ proc_err: deep })).toMatchObject({ status: "failed" });
  });
});

const STATUSES = ["done", "failed", "crashed", "killed", "cancelled"];

test("any message is a receipt or a refusal, and a receipt only if it says how the command ended", () => {
  const keys = fc.constantFrom("cmd_result", "proc_err", "status", "cmd_metadata", "cmd_type", "__proto__");
  const value = fc.oneof(fc.jsonValue(), fc.constantFrom("", 0, false, null, "suspended", ...STATUSES));
  fc.assert(
    fc.property(fc.dictionary(keys, value), (fields) => {
      readReceiptMark(fields);
      const read = readReceipt(fields);
      const error = Object.hasOwn(fields, "proc_err") && fields["proc_err"] !== null;
      const result = Object.hasOwn(fields, "cmd_result");
      const status = STATUSES.includes(fields["status"] as string);
      expect(isRejection(read)).toBe(!error && !result && !status);
      if (isRejection(read)) return;
      expect(read.status).toBe(error ? "failed" : result ? "done" : fields["status"]);
    }),
    { numRuns: 3_000 },
  );
});
