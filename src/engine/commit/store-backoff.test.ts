import { expect, test } from "vitest";
import { StoreFault } from "../../store/store.ts";
import { StoreBackoff } from "./store-backoff.ts";

const fault = new StoreFault("no room for more connections", { retryable: true, nothingWritten: true });

function scene() {
  let now = 0;
  const clock = { now: () => now, soon: (run: () => void) => run(), after: () => () => {} };
  const patience = new StoreBackoff(clock, undefined);
  return {
    patience,
    pass: (ms: number) => {
      now += ms;
    },
  };
}

test("renewals that work do not hide that commits fail", () => {
  const { patience, pass } = scene();
  for (let i = 0; i < 5; i++) {
    void patience.commitFailed(fault);
    pass(3_000);
    patience.renewed();
    expect(patience.commitFault).toBe(fault);
  }
});

test("the fault is over when a commit is taken, or when none was tried for long and renewals work", () => {
  const { patience, pass } = scene();
  void patience.commitFailed(fault);
  patience.succeeded();
  expect(patience.commitFault).toBeNull();
  void patience.commitFailed(fault);
  pass(10_001);
  expect(patience.commitFault).toBe(fault);
  patience.renewed();
  expect(patience.commitFault).toBeNull();
});
