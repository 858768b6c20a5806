/**
 * Keys of the terminal, each followed by Enter. The terminal stays in its usual mode: a demo that is killed with -9 could
 * not bring it back.
 */
import { createInterface } from "node:readline";
import type { Screen } from "../cli/progress/screen.ts";
import type { Deed, Stage } from "./stage.ts";

const KEYS: Readonly<Record<string, Deed>> = { k: "kill", f: "freeze", d: "duplicate", r: "again" };

/** Listens until it is stopped. */
export function listenToKeys(stage: Stage, screen: Screen): { stop(): void } {
  const lines = createInterface({ input: process.stdin, terminal: false });
  lines.on("line", (line) => {
    screen.moved();
    const key = line.trim().toLowerCase();
    const deed = KEYS[key];
    if (deed !== undefined)
      stage.act(deed).catch((thrown: unknown) => screen.say(["✗", "red"], ` ${String(thrown)}`));
    else stage.begin();
  });
  return { stop: () => lines.close() };
}
