/**
 * Keys of the terminal, each followed by Enter. The terminal stays in its normal mode, because a demo that is killed with -9
 * could not restore it.
 */
import type { Screen } from "../../src/cli/progress/screen.ts";
import type { Deed, Stage } from "./stage.ts";

const KEYS: Readonly<Record<string, Deed>> = { k: "kill", f: "freeze", d: "duplicate", r: "again" };
const HELP = "k kills a worker, f freezes one, d delivers messages twice, r plays again, q ends the demo";

/** Listens to keys until it is stopped. `quit` is called for q and at the end of input (Ctrl-D). */
export function listenToKeys(stage: Stage, screen: Screen, quit: () => void): { stop(): void } {
  const press = (key: string): void => {
    const deed = KEYS[key];
    if (deed !== undefined)
      stage.act(deed).catch((thrown: unknown) => screen.print(["✗", "red"], ` ${String(thrown)}`));
    else if (key === "q") quit();
    else if (key !== "") screen.print(["  keys     ", "cyan"], HELP);
  };
  const take = (text: string): void => {
    const lines = text.split("\n");
    // The terminal has shown the typed lines, so the live lines have moved up.
    screen.moved(lines.length - 1);
    stage.begin();
    for (const line of lines) press(line.trim().toLowerCase());
  };
  process.stdin.setEncoding("utf8").on("data", take).once("end", quit);
  return {
    stop() {
      process.stdin.off("data", take).off("end", quit).destroy();
    },
  };
}
