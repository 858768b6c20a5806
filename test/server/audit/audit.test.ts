// The auditor: finds nothing where nothing is wrong, whatever a workflow goes through, and finds what was planted.
import { Fatal, handler, workflow } from "rondo";
import { describe, expect, test } from "vitest";
import { auditExecution } from "../../../src/audit/audit-execution.ts";
import { Auditor } from "../../../src/audit/auditor.ts";
import type { Event, Recorded } from "../../../src/kernel/event.ts";
import { decodeEntry } from "../../../src/kernel/journal/journal-entry.ts";
import { unwrap } from "../../../src/std/rejection.ts";
import { MemoryStore } from "../../../src/store/memory/memory-store.ts";
import type { HostedWorkflow } from "../../../src/worker/handler-code.ts";
import { open } from "../../fixtures/sdk/open-rondo-fixture.ts";

const count = (n: number) => Array.from({ length: n }, (_, i) => i);

/** Opens Rondo with these, runs the first to its end, and audits it. */
async function audited(flows: readonly HostedWorkflow[], drive?: (id: string) => Promise<void>) {
  const store = new MemoryStore();
  const rondo = await open(flows, { store });
  const handle = await rondo.start(flows[0] as never, {} as never);
  await drive?.(handle.id);
  await handle.result().catch(() => null);
  const view = await handle.describe();
  return {
    store,
    rondo,
    handle,
    view,
    audit: unwrap(await auditExecution(store, handle.id, async () => view)),
  };
}

describe("an execution that went well is found to be so", () => {
  test("with phases side by side, pages, retries and an output", async () => {
    let failures = 0;
    const flow = workflow({ name: "wide" })
      .phase("fan", {
        many: handler({ enumerate: () => count(2_500), process: ({ task }) => task }),
        flaky: handler({
          process: () => {
            if (failures++ < 2) throw new Error("not yet");
            return 1;
          },
          retry: { attempts: 5, min: 1, max: 1 },
        }),
      })
      .sleep("nap", 1)
      .phase("none", { enumerate: () => [], process: () => 0 })
      .returns(({ phases }) => phases.fan.many.count);
    const { audit, view } = await audited([flow]);
    expect(view.status).toBe("done");
    expect(audit).toMatchObject({ findings: [], lost: 0, countedTwice: 0, tasks: 2_503, settled: 2_503 });
  });

  test("with failures, a repair, loops, children and a cancel", async () => {
    const kid = workflow({ name: "kid" }).phase("one", { process: () => 1 });
    let turns = 0;
    const flow = workflow({ name: "eventful" })
      .phase(
        "turn",
        { process: () => ++turns },
        { next: () => (turns < 3 ? "turn" : "kids"), among: ["turn", "kids"] },
      )
      .child("kids", kid, { enumerate: () => [{}, {}] })
      .phase(
        "breaks",
        {
          process: () => {
            throw new Fatal("no");
          },
        },
        { onError: "mend" },
      )
      .phase("end", {}, { final: true })
      .phase("mend", { process: () => 1 }, { final: "failed" });
    const { audit, view, rondo, store } = await audited([flow, kid]);
    expect(view.status).toBe("failed");
    expect(audit.findings).toEqual([]);
    const stuck = workflow({ name: "stuck" }).waitFor("go");
    rondo.serve(stuck);
    const waiting = await rondo.start(stuck, {});
    await waiting.cancel();
    await waiting.result().catch(() => null);
    expect(unwrap(await auditExecution(store, waiting.id, () => waiting.describe())).findings).toEqual([]);
  });

  test("over the rounds of its retries, and while it runs", async () => {
    let fails = true;
    const flow = workflow({ name: "again" })
      .phase("work", {
        enumerate: () => count(10),
        process: ({ task }) => {
          if (fails && task % 3 === 0) throw new Fatal("no");
          return task;
        },
        tolerate: 10,
      })
      .phase("strict", {
        process: () => {
          if (fails) throw new Fatal("no");
        },
      });
    const { handle, view, store, audit } = await audited([flow]);
    expect(view.status).toBe("failed");
    expect(audit.findings).toEqual([]);
    fails = false;
    await handle.retry();
    expect(unwrap(await auditExecution(store, handle.id, () => handle.describe())).findings).toEqual([]);
    await handle.result();
    expect(unwrap(await auditExecution(store, handle.id, () => handle.describe())).findings).toEqual([]);
  });

  test("when it failed between two phases and fails there again after a retry", () => {
    const between = { phase: "first", visit: 1 } as const;
    const failed = { kind: "finished", status: "failed", output: null, error: null } as const;
    const events: readonly object[] = [
      { kind: "created" },
      { kind: "phase.started", ...between },
      { kind: "phase.finished", ...between, status: "done", next: "second" },
      failed,
      { kind: "retried", ...between, round: 2 },
      failed,
    ];
    const auditor = new Auditor("e");
    events.forEach((event, i) => {
      auditor.apply({ seq: i + 1, at: 1, event: event as Event });
    });
    expect(auditor.end(null).findings).toEqual([]);
  });
});

describe("what is wrong is found", () => {
  async function journal() {
    const flow = workflow({ name: "plain" })
      .phase("fan", { enumerate: () => count(5), process: ({ task }) => task })
      .sleep("nap", 1)
      .phase("last", { process: () => 1 });
    const { store, view } = await audited([flow]);
    const events: Recorded[] = [];
    for (const entry of await store.readJournal({ execution: view.id, from: 1 }))
      events.push(...decodeEntry(entry));
    return { events, view };
  }

  /** Audits a journal after a change, numbered anew. */
  async function changed(change: (events: Event[]) => Event[], { isGapped = false } = {}) {
    const { events, view } = await journal();
    const auditor = new Auditor(view.id);
    change(events.map(({ event }) => event)).forEach((event, i) => {
      auditor.apply({ seq: isGapped && i > 2 ? i + 2 : i + 1, at: 1, event });
    });
    return auditor.end({ ...view, revision: view.revision });
  }
  const codes = (audit: { findings: readonly { code: string }[] }) =>
    new Set(audit.findings.map(({ code }) => code));

  test("nothing was planted", async () => {
    expect((await changed((events) => events)).findings).toEqual([]);
  });

  test("an outcome that was counted twice", async () => {
    const audit = await changed((events) =>
      events.flatMap((event) =>
        event.kind === "tasks.settled" && event.phase === "fan" ? [event, event] : [event],
      ),
    );
    expect(audit.countedTwice).toBe(5);
    expect(codes(audit)).toContain("twice");
  });

  test("a task without an outcome", async () => {
    const audit = await changed((events) =>
      events.flatMap((event) => (event.kind === "tasks.settled" && event.phase === "fan" ? [] : [event])),
    );
    expect(audit.lost).toBe(5);
    expect(codes(audit)).toContain("lost");
  });

  test("a gap, an end before its time, a phase that starts twice, a timer out of nowhere, counts that differ", async () => {
    expect(codes(await changed((events) => events, { isGapped: true }))).toContain("order");
    const last = (events: Event[]) => events.at(-1) as Event;
    expect(
      codes(await changed((events) => [...events.slice(0, 4), last(events), ...events.slice(4)])),
    ).toContain("order");
    const started = (events: Event[]) => events.find(({ kind }) => kind === "phase.started") as Event;
    expect(
      codes(await changed((events) => [...events.slice(0, 3), started(events), ...events.slice(3)])),
    ).toContain("order");
    expect(codes(await changed((events) => events.filter(({ kind }) => kind !== "timer.set")))).toContain(
      "timer",
    );
    const audit = await changed((events) =>
      events.map((event) => (event.kind === "handler.finished" ? { ...event, done: event.done + 1 } : event)),
    );
    expect(codes(audit)).toContain("counts");
    const shown = await changed((events) => events.slice(0, -1));
    expect(codes(shown)).toContain("differs");
  });
});
