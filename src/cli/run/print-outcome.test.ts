// The end of an execution: what its reader can do next.
import { expect, test } from "vitest";
import type { ExecutionView } from "../../kernel/view.ts";
import { EXIT } from "../exit-code.ts";
import type { Screen } from "../progress/screen.ts";
import { printEnd } from "./print-outcome.ts";

const CANCELLED: ExecutionView = {
  ...{ id: "e1", workflow: "w", workflowHash: "h", project: "default", status: "cancelled", phase: null },
  ...{ input: null, output: null, error: { code: "Cancelled", message: "no reason" }, phases: [] },
  ...{ tags: {}, parent: null, createdAt: 1, finishedAt: 2, revision: 9 },
};

function printed(view: ExecutionView): string {
  const lines: string[] = [];
  const screen: Pick<Screen, "print"> = {
    print: (...parts) =>
      void lines.push(parts.map((part) => (Array.isArray(part) ? part[0] : part)).join("")),
  };
  const options = { see: "rondo inspect e1", retry: "rondo run w --id e1 --retry", failure: [] };
  expect(printEnd(screen as Screen, view, options)).toBe(EXIT.cancelled);
  return lines.join("\n");
}

test("an execution that was cancelled can be retried", () => {
  expect(printed(CANCELLED)).toContain("rondo run w --id e1 --retry");
});

test("an execution that has cleaned up after itself cannot be retried, so no retry is suggested", () => {
  const text = printed({ ...CANCELLED, cleanedUp: true });
  expect(text).not.toContain("--retry");
  expect(text).toContain(
    "the execution has cleaned up after itself, so it cannot be retried: start a new one",
  );
});
