/** Bugs of a cluster that the simulator must find (see bugs.ts): each needs several nodes over one database. */
import type { PlantedBug } from "./bugs.ts";

const BUGS: readonly Omit<PlantedBug, "cluster">[] = [
  {
    name: "no fencing",
    file: "store/memory/memory-tables.js",
    find: "const why = this.#ownership.whyStale(fence, partition, owner);",
    replace: "const why = null;",
    seed: 25,
  },
  {
    name: "fenced verdict ignored",
    file: "engine/commit-desk.js",
    find: "this.#underWay.delete(commit);\n        if (verdict.kind",
    replace:
      "this.#underWay.delete(commit);\n        verdict = { kind: 'ok', exists: [], fenced: [] };\n        if (verdict.kind",
    seed: 62,
  },
  {
    name: "partition kept after a yield",
    file: "engine/ownership-desk.js",
    find: "this.lost([tenure.partition]);",
    replace: "",
    seed: 2,
  },
  {
    name: "timers of lost partitions kept",
    file: "engine/ownership-desk.js",
    find: "this.#parts.timers.forget(isOver);",
    replace: "",
    seed: 146,
  },
  {
    name: "lease ignored after a freeze",
    file: "cluster/ownership.js",
    find: "return this.#isMember && now < this.#actUntil;",
    replace: "return true;",
    seed: 442,
  },
  {
    name: "lease table written before commits end",
    file: "engine/ownership-desk.js",
    find: "if (!isQuiet(tenure))",
    replace: "if (false)",
    seed: 31,
  },
  {
    name: "suspects handed over as clean",
    file: "engine/ownership-desk.js",
    find: "this.#hasSuspects(tenure) ? null : leases",
    replace: "leases",
    seed: 121,
  },
  {
    name: "suspects treated as clean after a takeover",
    file: "engine/restoring.js",
    find: "loaded.epoch <= slot.tenure.uncleanEpoch",
    replace: "false",
    seed: 2,
  },
  {
    name: "handed-over leases forgotten",
    file: "engine/ownership-desk.js",
    find: "noteHandedOver(node, leases, declared);",
    replace: "",
    seed: 27,
  },
  {
    name: "timers of one partition scanned",
    file: "engine/node.js",
    find: 'node.emit({ kind: "scan-timers", ...scan, partitions: node.tenures.scope });',
    replace:
      'node.emit({ kind: "scan-timers", ...scan, partitions: node.tenures.scope?.slice(0, 1) ?? null });',
    seed: 1,
  },
  {
    name: "work of new partitions not scanned",
    file: "engine/ownership-desk.js",
    find: "residency.rescan();",
    replace: "",
    seed: 1,
  },
  {
    name: "letters of others not looked for",
    file: "engine/cluster-desk.js",
    find: "return this.#letters.rescan();",
    replace: "return;",
    seed: 16,
  },
  {
    name: "epoch of the node in grants",
    file: "engine/granting.js",
    find: "epoch: slot.tenure.epoch",
    replace: "epoch: Math.max(...Object.values(node.tenures.fence.epochs))",
    seed: 3,
  },
  {
    name: "word about a lost partition acknowledged",
    file: "engine/clean-up.js",
    find: 'this.#verdict(queued, ["elsewhere"]);',
    replace: 'this.#verdict(queued, ["accepted"]);',
    seed: 1,
  },
  {
    name: "home grants before all have declared",
    file: "engine/permit-home.js",
    find: "if (this.awaited.size > 0 || this.#blockedUntil(limit) > now)",
    replace: "if (false)",
    seed: 77,
  },
  {
    name: "home knows of no crash before it",
    file: "engine/tenures.js",
    find: "const handed = isAfterCrash ? null :",
    replace: "const handed =",
    seed: 63,
  },
  {
    name: "quota kept after it was given back",
    file: "engine/permit-desk.js",
    find: "share.quota = quota;\n        share.wants = waiting",
    replace: "share.wants = waiting",
    seed: 77,
  },
  {
    name: "lost words never said again",
    file: "engine/permit-desk.js",
    find: "if (!isAnswered)\n            return askedAt + this.#patienceMs;",
    replace: "if (!isAnswered)\n            return Number.POSITIVE_INFINITY;",
    seed: 3,
  },
  {
    name: "node does not ask for permits",
    file: "engine/permit-desk.js",
    find: "return share === undefined || held < share.quota;",
    replace: "return true;",
    seed: 4,
  },
  {
    name: "start counts for no time",
    file: "engine/limits.js",
    find: "until: now + this.#rates.per(name)",
    replace: "until: now",
    seed: 2,
  },
  {
    name: "room under one limit not kept",
    file: "engine/limits.js",
    find: "this.#at(name).reserved.add(who);",
    replace: ";",
    seed: 1,
  },
];

/** They are hunted with `rondo sim --cluster`. */
export const CLUSTER_BUGS: readonly PlantedBug[] = BUGS.map((bug) => ({ ...bug, cluster: true }));
