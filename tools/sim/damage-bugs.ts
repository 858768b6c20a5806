/** Bugs about damaged executions that the simulator must find. */
import type { PlantedBug } from "./bugs.ts";

export const DAMAGE_BUGS: readonly PlantedBug[] = [
  {
    name: "a damaged execution is skipped silently",
    file: "src/engine/cache/damages.js",
    find: 'node.emit({ kind: "damaged", head: damagedHead(found) });',
    replace: "",
    seed: 2,
  },
  {
    name: "a damaged journal is read up to the damage",
    file: "src/engine/cache/restore-execution.js",
    find: "const row = (readable?.seq",
    replace: "if (readable !== null)\n            return readable;\n        const row = (readable?.seq",
    seed: 8,
  },
  {
    name: "a damaged journal reads as empty",
    file: "src/engine/cache/execution-cache.js",
    find: "declareDamaged(this.#node, slot, found);",
    replace: "slot.execution = null;\n        if (slot !== null)\n            return this.#ready(slot);",
    seed: 2,
  },
  {
    name: "damage stops the node",
    file: "src/engine/cache/restore-execution.js",
    find: "if (thrown instanceof UnknownVersion)\n            return { kind:",
    replace:
      "if (!(thrown instanceof UnknownVersion))\n            throw thrown;\n        if (thrown)\n            return { kind:",
    seed: 2,
  },
  {
    name: "timers of a mended execution do not fire",
    file: "src/engine/commit/after-commit.js",
    find: "this.#timers.forget((execution) => execution === slot.id);",
    replace: "",
    seed: 1_098,
  },
  {
    name: "letters to a mended execution do not come again",
    file: "src/engine/commit/after-commit.js",
    find: "this.#timers.rescan();\n        this.#letters.rescan();\n    }\n    /** The execution's state",
    replace: "this.#timers.rescan();\n    }\n    /** The execution's state",
    seed: 1_247,
  },
];
