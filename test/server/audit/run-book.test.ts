// The auditor on runs of scripts: what the journal may hold of them, and what it may not.
import { describe, expect, test } from "vitest";
import { Auditor } from "../../../src/audit/auditor.ts";
import type { Event } from "../../../src/kernel/event.ts";

const at = { phase: "map", visit: 1, handler: "map" } as const;
const scripted = (more: object = {}) =>
  JSON.stringify({
    phases: [
      {
        name: "map",
        handlers: {
          map: { script: ["r0", "r1", "r2"].map((name) => ({ name, expression: "s => s" })), ...more },
        },
      },
    ],
  });

/** A run of task 0: its name, its index and the attempt that finished it. */
type Run = readonly [name: string, index: number, attempt?: number];

function findings(runs: readonly (Run | "retried")[], definition: string | null): string[] {
  const auditor = new Auditor("e");
  if (definition !== null) auditor.addDefinition(definition);
  const begin = [{ kind: "created" }, { kind: "phase.started", ...at }, { kind: "handler.started", ...at }];
  const finished = { kind: "finished", status: "failed", output: null, error: null };
  const events = runs.flatMap((run): readonly object[] =>
    run === "retried"
      ? [
          { kind: "handler.finished", ...at, done: 0, failed: 0, cancelled: 1 },
          { kind: "phase.finished", ...at, status: "failed", next: null },
          finished,
          { kind: "retried", ...at, round: 2 },
        ]
      : [{ kind: "task.run", ...at, task: 0, name: run[0], index: run[1], attempt: run[2] ?? 1, state: "1" }],
  );
  [...begin, ...events].forEach((event, i) => {
    auditor.apply({ seq: i + 1, at: 1, event: event as unknown as Event });
  });
  return auditor.end(null).findings.map(({ code, message }) => `${code}: ${message}`);
}

describe("nothing is found in", () => {
  test.each<[string, readonly (Run | "retried")[], object]>([
    [
      "a prefix of the script",
      [
        ["r0", 0],
        ["r1", 1],
      ],
      {},
    ],
    [
      "runs that a later attempt goes on with",
      [
        ["r0", 0],
        ["r1", 1, 2],
        ["r2", 2, 3],
      ],
      {},
    ],
    [
      "runs that begin again, where they do not resume",
      [
        ["r0", 0],
        ["r1", 1],
        ["r0", 0, 2],
      ],
      { resume: false },
    ],
    ["the same number of attempt in a new round", [["r0", 0], "retried", ["r0", 0]], { resume: false }],
  ])("%s", (_, runs, more) => {
    expect(findings(runs, scripted(more))).toEqual([]);
    expect(findings(runs, null)).toEqual([]);
  });
});

describe("found is", () => {
  test.each<[string, readonly Run[], object, string]>([
    [
      "a run that counted twice",
      [
        ["r0", 0],
        ["r0", 0],
      ],
      {},
      "run 0 (r0) comes after 1 finished runs: runs are missing or out of order",
    ],
    [
      "a run that was skipped",
      [
        ["r0", 0],
        ["r2", 2],
      ],
      {},
      "run 2 (r2) comes after 1 finished runs: runs are missing or out of order",
    ],
    [
      "a run that the script does not have",
      [["typo", 0]],
      {},
      "run 0 is typo; the script has r0 at this position",
    ],
    ["a run beyond the last", [["r9", 3]], {}, "run 3 is r9; the script has no such run at this position"],
    [
      "a new attempt that begins again, where it resumes",
      [
        ["r0", 0],
        ["r0", 0, 2],
      ],
      {},
      "comes after 1 finished",
    ],
    [
      "a new attempt that goes on, where it begins again",
      [
        ["r0", 0],
        ["r1", 1, 2],
      ],
      { resume: false },
      "attempt 2 has to begin with the first run of the script, but its first run is r1",
    ],
  ])("%s", (_, runs, more, message) => {
    expect(findings(runs, scripted(more))).toEqual([expect.stringContaining(message)]);
  });

  test("a run of a handler that is not a script", () => {
    const definition = JSON.stringify({ phases: [{ name: "map", handlers: { map: { use: "x" } } }] });
    expect(findings([["zz", 0]], definition)).toEqual([
      "order: task 0 of map/map has a run zz, but the handler is not a script",
    ]);
  });
});
