/** What tests of commands in the kernel have in common: post-operations to write, and what is to be seen of them. */
import { viewCommands } from "../../../src/kernel/command/command-view.ts";
import type { KernelRun } from "./kernel-run.ts";

/** A persistence that is tried twice. */
export const PERSIST = {
  cmd_result_persistence: {
    target_statestore_name: "s",
    target_statestore_key: "k",
    retry: { attempts: 2, min: 8_000, backoff: "constant" },
  },
};

/** Broadcasts to these, each tried once. */
export const tell = (...urls: string[]) => ({
  cmd_result_broadcasts: urls.map((url) => ({ url, retry: { attempts: 1 } })),
});

/** How each command stands; `running`: attempts under way by handler. */
export const statuses = (run: KernelRun, running = new Map<string, number>()) =>
  viewCommands(run.execution, run.now, running).map(({ procStatus }) => procStatus);

/** What is owed, in its order. */
export const owed = (run: KernelRun) =>
  [...run.execution.postops.values()].map(({ op, index }) => `${op} ${index}`);

/** A receipt's result. */
export const result = (value: unknown) => ({ payload: JSON.stringify(value) });
