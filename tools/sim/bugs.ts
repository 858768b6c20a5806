/**
 * Bugs that the simulator must find. Each is a small change at marked places of the compiled code (see plant.ts). `seed` finds
 * the bug; CI replays a share of the seeds.
 */
import type { Modes } from "./run.ts";

export interface PlantedBug extends Modes {
  /** The marker in the source is "@plant NAME", and "@plant NAME 2", ... for more places. */
  readonly name: string;
  readonly seed: number;
  /** The template of the marked place, or one for each place. */
  readonly change: string | readonly string[];
  /** Whether the bug needs several nodes over one database: `rondo sim --cluster`. */
  readonly cluster?: boolean;
  /** Whether `rondo sim --talk` finds the bug; `seed` is counted from its first seed. */
  readonly talk?: boolean;
}

const ENGINE: readonly PlantedBug[] = [
  { name: "settled task counted again", seed: 17, change: "if (true) $then" },
  { name: "effects before their commit", seed: 1, change: "" },
  {
    name: "acknowledged before it is durable",
    seed: 1,
    change: [
      'if ($test) { $then this.$key@2(this.$key@3, { kind: "ok", exists: [], fenced: [] }); }',
      "$",
      "$",
    ],
  },
  { name: "timer not stored", seed: 1, change: ";" },
  {
    name: "repeated messages applied again",
    seed: 9,
    change: ["const $key = undefined;", "const $key = undefined;"],
  },
  {
    name: "repeated retry without its answer",
    seed: 5,
    change: 'if ($test) return { kind: "applied", seq: $left };',
  },
  { name: "snapshot forgets kept signals", seed: 25, change: "$key: []" },
  { name: "snapshot of an older state", seed: 1, change: "($1.stale ??= $)" },
  { name: "suspects started unrecorded", seed: 1, change: "" },
  { name: "start of an open attempt not journaled", seed: 1, change: "false" },
  { name: "lost attempt without its start", seed: 63, change: "" },
  {
    name: "start of an adopted attempt journaled late",
    seed: 226,
    cluster: true,
    change: "false",
  },
  { name: "permits not given back", seed: 1, change: ";" },
  { name: "limit off by one", seed: 1, change: "return $callee($1 + 1, $2);" },
  { name: "handler ends before it is sealed", seed: 1, change: "true" },
  { name: "phase ends while attempts are open", seed: 4, change: "false" },
  { name: "newest signal first", seed: 7, change: "const $key = $object?.pop();" },
  { name: "kept signal lost at the end", seed: 12, change: "" },
  { name: "start loses its signal", seed: 4, change: "" },
  { name: "signal accepted after the end", seed: 5, change: "" },
  { name: "retry clears tasks that are done", seed: 25, change: "true" },
  {
    name: "unknown outcome taken for success",
    seed: 3,
    change: ['return this.$key@2($1, { kind: "ok", exists: [], fenced: [] });', "$"],
  },
  { name: "task that kills workers not alone", seed: 48, change: "false" },
  { name: "crashes not counted", seed: 4, change: "$then" },
  { name: "retry before its time", seed: 4, change: "true" },
  { name: "page opened without a mark", seed: 4, change: "" },
  { name: "pause does not close the gate", seed: 25, change: '($ || $left === "paused")' },
  { name: "late done after a later step", seed: 164, change: "true" },
  { name: "step journaled though stale", seed: 162, change: ["true", "true"] },
  { name: "signal taken twice", seed: 7, change: "" },
  { name: "sleep does not wait", seed: 7, change: "$key: $left === null ? $right : 1" },
  { name: "suspended task uses up an attempt", seed: 162, change: '$key: "attempt"' },
  { name: "time limit of a wait forgotten", seed: 4, change: "true" },
  { name: "answered wait closes the others", seed: 141, change: "$left = [];" },
  { name: "tries of a step forgotten", seed: 7, change: ";" },
  { name: "times that code has read are forgotten", seed: 6, change: "" },
  { name: "page of a map left out", seed: 2_009, change: "if ($object.length === 0) $" },
  { name: "snapshot forgets children of code", seed: 6, change: "...{}" },
  { name: "handler ends while a child of its code is open", seed: 48, change: "true" },
  { name: "journaled runs done again", seed: 3, change: "const $key = [];" },
  { name: "message lost with an unknown commit", seed: 25, change: "" },
  { name: "mailbox not scanned after a restart", seed: 28, change: "$key = false;" },
  { name: "message removed before it is applied", seed: 58, change: ["$ this.$key@2($2, [$1]);", "$"] },
  { name: "cancel overtakes a start", seed: 426, change: "$else" },
  { name: "children not cancelled with their parent", seed: 6, change: "" },
  { name: "children not paused with their parent", seed: 35, change: "" },
  { name: "open children not counted", seed: 1, change: "" },
  { name: "purged child is not started again", seed: 16, change: ["if ($key@2 === undefined) $", "$"] },
  { name: "end of a child counted twice", seed: 83, change: ["$object === undefined", ""] },
  {
    name: "page that was read starts no children",
    seed: 1,
    change: ["$callee($1, true);", "if (arguments[1] !== true) $"],
  },
  { name: "rate window too short", seed: 8, change: "return ($left) + $right / 2;" },
  {
    name: "rate in fixed windows",
    seed: 11,
    change: ["return Math.floor($value / $right@2) * $right@2;", "$"],
  },
  { name: "permit returned to its giver", seed: 68, change: "return $left;" },
  { name: "priority ignores dirty executions", seed: 78, change: "" },
  { name: "waiters not called when a permit returns", seed: 1, change: ";" },
  { name: "rate forgotten by a restart", seed: 11, change: ["$key: null", "$key: null"] },
  {
    name: "permit of a project not given back",
    seed: 1,
    change: ["$key: $value.filter((one) => one !== $key@2)", "$"],
  },
  { name: "limit of a project ignored", seed: 4, change: "const $key = null;" },
  { name: "lines stored again after adoption", seed: 142, change: "$key: $right" },
  { name: "lines stored again after an unknown commit", seed: 1, change: "$key: $left" },
  { name: "retry leaves dead letters", seed: 25, change: "" },
  { name: "chosen retry runs other tasks", seed: 7, change: "" },
  { name: "snapshot forgets the former end", seed: 5, change: "...{}" },
  { name: "chosen retry forgets other dead letters", seed: 3, change: "" },
  { name: "lost before its worker is asked", seed: 21, change: "const $key = false;" },
  { name: "execution read while it is purged", seed: 10, change: "" },
  { name: "runs counted, not identified", seed: 57, change: ["false", "const $key = $left@1 ?? 0;"] },
  { name: "run of a lost attempt stays open", seed: 63, change: ";" },
  { name: "finished run counts again", seed: 33, change: "$key: false" },
  { name: "lapsed claim granted again under its id", seed: 4, change: "" },
];

/** Bugs in the choice of the worker for a task. */
const WORKERS: readonly PlantedBug[] = [
  { name: "version range ignored", seed: 4, change: "$callee($1, null)" },
  {
    name: "lower version gets work too",
    seed: 1,
    change: ["const $key = [...$object.$key@2($1)].map((version) => $callee($1, version))[0];", "$"],
  },
  {
    name: "enumeration inferred from the workers present",
    seed: 4,
    change: ["if ($left === $4@2.id) $@2 else $else", "$", "true"],
  },
  {
    name: "enumeration given to code that only processes",
    seed: 11,
    change: "return $left !== undefined || $right;",
  },
  { name: "enumeration given to code that does not say", seed: 7, change: "return $left ?? true;" },
  { name: "input given to code that enumerates", seed: 4, change: "$then" },
];

/** Bugs in commands and post-operations. */
const COMMANDS: readonly PlantedBug[] = [
  { name: "command done before it is persisted", seed: 3, change: "$then" },
  { name: "owed post-operations not found again", seed: 204, change: "const $key = $2;" },
  { name: "second receipt sends the next command again", seed: 1034, change: "return $left;" },
  { name: "snapshot forgets owed post-operations", seed: 3, change: "$key: []" },
  { name: "broadcasts do not wait for the persistence", seed: 3, change: "$value;" },
  { name: "retry repeats a command that has its result", seed: 144, change: "$right.clear();" },
  { name: "visit ends while its persistence is owed", seed: 81, change: "" },
  { name: "post-operation before its time", seed: 10, change: "false" },
  { name: "one post-operation too many", seed: 24, change: "return ($left) > $right;" },
  { name: "broadcast overtakes the one before it", seed: 161, change: ";" },
  {
    name: "post-operation before its commit",
    seed: 3,
    change: ["for (const slot of $1.$key@2.values()) $object@3.$key@4(slot); $", "$", "$", "$"],
  },
  { name: "retry forgets broadcasts that were given up", seed: 117, change: "" },
  { name: "command refers to an earlier visit's result", seed: 239, change: "$object.has($1) || $value;" },
  { name: "result of a command not enriched", seed: 5, change: "const $key = $callee($1, []);" },
  {
    name: "command counts as its own receipt",
    seed: 3,
    change: 'if ($test) return { status: "done", payload: "{}" };',
  },
  {
    name: "empty proc_err counts as success",
    seed: 72,
    change: ['return $left@2 === "" ? { status: "done", payload: "{}" } : $value;', "$"],
  },
];

/** Bugs in the handling of damaged executions. */
const DAMAGE: readonly PlantedBug[] = [
  { name: "damaged execution skipped silently", seed: 2, change: "" },
  {
    name: "damaged journal read up to the damage",
    seed: 8,
    change: ["if ($key@2 !== null) return $key@2; $", "$"],
  },
  { name: "damaged journal reads as empty", seed: 2, change: ["return $callee@2($2);", "$"] },
  { name: "damaged data stops the node", seed: 2, change: "if (!($test)) throw $left; $" },
  { name: "damaged execution mended by its snapshot", seed: 65, change: "" },
  { name: "timers of a mended execution do not fire", seed: 1_098, change: "" },
  { name: "messages to a mended execution not scanned", seed: 285_252, change: "" },
];

/** Bugs of several nodes over one database. */
const CLUSTER: readonly PlantedBug[] = [
  { name: "store does not fence writes", seed: 32, change: "const $key = null;" },
  {
    name: "fenced verdict ignored",
    seed: 170,
    change: ['$object@2 = { kind: "ok", exists: [], fenced: [] };', "$"],
  },
  { name: "partition kept after a yield", seed: 4, change: "" },
  { name: "timer of a lost partition fires", seed: 47, change: "" },
  {
    name: "timer discarded by a node not first",
    seed: 2,
    change: ["if ($object.$key@2.$key@3 <= [...$object.$key@2.$key@4].sort()[0]) $", "$", "$", "$"],
  },
  { name: "end of the node's lease ignored", seed: 14, change: "$left = Number.POSITIVE_INFINITY;" },
  { name: "lease table written before commits end", seed: 7, change: "" },
  { name: "suspects handed over as clean", seed: 8, change: "$key: $else" },
  {
    name: "attempt adopted after its permit was given back",
    seed: 28,
    drill: true,
    change: "return $1;",
  },
  { name: "suspects treated as clean after a takeover", seed: 2, change: "const $key = $right;" },
  { name: "handed-over leases forgotten", seed: 20, change: "" },
  { name: "timers of one partition scanned", seed: 114, change: "$key: $value?.slice(0, 1) ?? null" },
  { name: "work of new partitions not scanned", seed: 2, change: "" },
  { name: "messages from other nodes not scanned", seed: 57, change: "return;" },
  {
    name: "grant names another partition's epoch",
    seed: 14,
    change: ["$key: ($object@2.highest = Math.max($object@2.highest ?? 0, $value))", "$"],
  },
  { name: "report about a lost partition acknowledged", seed: 7, change: '$callee($1, ["accepted"]);' },
  { name: "permits given out before their bound is stored", seed: 57, drill: true, change: "return true;" },
  { name: "a wait begins anew at each death", seed: 1, drill: true, change: "const $key = undefined;" },
  {
    name: "recorded attempts given out again while they are in doubt",
    seed: 1,
    drill: true,
    change: "return false;",
  },
  { name: "waiters not called after a refused start", seed: 718, change: "$then" },
  { name: "home grants before all have declared", seed: 54, change: "return false;" },
  { name: "home knows of no crash before it", seed: 419, change: "false" },
  { name: "quota kept after it was given back", seed: 393, change: "" },
  { name: "lost quota requests never repeated", seed: 23, change: "return Number.POSITIVE_INFINITY;" },
  { name: "node does not ask for permits", seed: 14, change: "return Number.POSITIVE_INFINITY;" },
  { name: "starts not counted under a rate", seed: 2, change: ["", ""] },
  { name: "room under one limit not kept", seed: 1, change: "" },
  { name: "newer events written beside older nodes", seed: 6, change: "" },
  { name: "vocabulary of older nodes ignored", seed: 11, change: "return $1;" },
  { name: "executions held back not resumed", seed: 333, change: "" },
  { name: "unreadable partition kept", seed: 485, change: "false" },
  { name: "unreadable partition taken again", seed: 381, change: "false" },
  {
    name: "token trusted for safety",
    seed: 14,
    change: [
      "$object@3.$key@4().$key@5 < 3_000",
      '$key: (input) => (input.kind === "lost" && $object@3.$key@4().$key@5 < 3_000) || ($value)(input)',
      "$",
      "$",
      "$",
    ],
  },
  { name: "lost token not replaced", seed: 1, change: "false" },
  {
    name: "nodes that name only themselves end all sessions",
    seed: 1,
    change: ["return $then;", "return $right;", "", "$then"],
  },
  { name: "no session in touch counts as not away", seed: 1, change: ";" },
  { name: "failed claim ends the worker", seed: 1, change: ["$@2", "$"] },
  { name: "failed registration not tried again", seed: 1, change: "" },
];

/** Bugs in tasks that add tasks, and in tasks that wait for tasks. */
const GROWTH: readonly PlantedBug[] = [
  { name: "task added by a duplicate receipt counted twice", seed: 184, change: "true" },
  { name: "added task counted again though its identity is known", seed: 4, change: "" },
  { name: "handler finished before added tasks are settled", seed: 4, change: ["if ($test@2) $", "$"] },
  { name: "waiter released before its last dependency", seed: 4, change: "if ($right) $then" },
  { name: "unknown dependency judged while tasks can run", seed: 4, change: "" },
  { name: "retried tasks do not wait for their dependencies", seed: 70, change: "" },
  { name: "snapshot forgets which tasks wait for others", seed: 4, change: "$key: undefined" },
];

/** Bugs in the clean-up of executions that end. */
const ENDINGS: readonly PlantedBug[] = [
  { name: "unknown outcomes not compensated", seed: 1, change: "return $left;" },
  { name: "clean-up begins while children are open", seed: 6, change: ["", "false"] },
  { name: "finally left out after done", seed: 2, change: ["$", "if ($test@1) $"] },
  { name: "start of a compensated task not recorded", seed: 1, change: "" },
  { name: "compensation in the order of the work", seed: 3, change: "const $key = $object;" },
  { name: "failed clean-up stops the others", seed: 2, change: "" },
  { name: "cancel ends the clean-up", seed: 1, change: "" },
  { name: "forced cancel forgotten while the work drains", seed: 3, change: "$else" },
  { name: "snapshot forgets visits to compensate", seed: 3, change: "$key: []" },
];

/** Bugs in rates by key and rates that are spread. */
const RATES: readonly PlantedBug[] = [
  { name: "parked task queued again", seed: 147, change: "" },
  { name: "spread rate not spread", seed: 7, change: "$then" },
  { name: "starts not counted under the rate of a key", seed: 7, change: "" },
  { name: "rate of a key forgotten by a restart", seed: 9, change: "$key: null" },
];

/** Bugs in signals with starts. */
const RACES: readonly PlantedBug[] = [
  { name: "repeated signal placed anew", seed: 1, change: "const $key = true;" },
];

/** Bugs in events and gates. */
const EVENTS: readonly PlantedBug[] = [
  { name: "messages of an event not sent", seed: 1, change: "" },
  { name: "gate not told about an end", seed: 1, change: "" },
  { name: "signal refused by its execution is lost", seed: 12, change: "" },
  { name: "debounce passes each event", seed: 1, change: "$then" },
  { name: "debounce does not wait for the last event", seed: 2, change: "if ($left) $then" },
  { name: "singleton starts a second execution", seed: 1, change: "" },
  { name: "throttle starts at once", seed: 1, change: "return $then;" },
  { name: "gate forgets its timer", seed: 1, change: "" },
  { name: "batch forgets the events before", seed: 1, change: "$key: $then" },
  { name: "carried gate forgets what it holds", seed: 1, change: "" },
  { name: "carried gate forgets its timer", seed: 1, change: "" },
];

/** Bugs in moves to another version of a workflow. */
const MOVES: readonly PlantedBug[] = [
  { name: "move keeps the old versions of code", seed: 3, change: "" },
  { name: "snapshot forgets a move", seed: 5, change: "...{}" },
  { name: "move accepts any definition", seed: 1, change: "return null;" },
];

/** Bugs in executions that continue as others. */
const ENTITIES: readonly PlantedBug[] = [
  { name: "applied messages not handed on", seed: 2, change: "$key: { ...$value, seen: [] }" },
  { name: "unread signals not handed on", seed: 1, change: "...{}" },
  { name: "unread signals handed on by name", seed: 1, change: "return $object;" },
  { name: "first execution not told of a begin", seed: 12, change: "" },
  { name: "first execution not told of the last end", seed: 1, change: "" },
  { name: "first execution deleted while the newest is open", seed: 2, change: "const $key = false;" },
  { name: "paused execution continues", seed: 2, change: "" },
  { name: "snapshot forgets that the code continues", seed: 12, change: '"round"' },
  { name: "snapshot forgets the newest execution", seed: 12, change: '"round"' },
  { name: "mail to an execution that has continued is lost", seed: 1, change: "" },
  { name: "cancel not handed on", seed: 7, change: "" },
  { name: "snapshot forgets a cancel of the next one", seed: 7, change: '"round"' },
];

/** Bugs in streams, published values and updates. */
const TALK: readonly PlantedBug[] = [
  { name: "snapshot forgets published values", seed: 1, change: "...{}" },
  { name: "snapshot forgets unanswered updates", seed: 1, change: "...{}" },
  { name: "removed keys stay published", seed: 1, change: "$then" },
  { name: "answered update counts as unanswered", seed: 1, change: "" },
  { name: "answer without its update", seed: 1, change: "const $key = {};" },
  { name: "only the last line of a report stored", seed: 1, change: "$key: $value.slice(-1)" },
];

/** Bugs in alerts. */
const ALERTS: readonly PlantedBug[] = [
  { name: "alert sent by nodes that did not claim it", seed: 2, change: "$test;" },
  { name: "claim of an alert without a time", seed: 1, change: "$key: 0" },
  { name: "late failures not looked for", seed: 1, change: "$left" },
  { name: "queue that is young again counts as told", seed: 3, change: "" },
  { name: "sent alert stays open", seed: 1, change: '$key: "open"' },
];

/** Bugs in the sessions of workers over HTTP. */
const SESSIONS: readonly PlantedBug[] = [
  { name: "failed claim repeated under another id", seed: 1, change: "" },
  { name: "lost answer of a claim with events forgotten", seed: 1, change: "if (!($test)) $else" },
  { name: "work of a lost answer kept", seed: 1, change: "" },
  { name: "open claim forgotten at a registration", seed: 31, change: "" },
  { name: "failed claims not kept", seed: 1, change: "const $key = [];" },
  { name: "events of a failed request dropped", seed: 2, change: "$1" },
  { name: "claim with events waits for work", seed: 1, change: "$object" },
  { name: "lost answer forgotten after others", seed: 23, change: "" },
];

export const PLANTED_BUGS: readonly PlantedBug[] = [
  ...ENGINE,
  ...WORKERS,
  ...COMMANDS,
  ...DAMAGE,
  ...GROWTH,
  ...ENDINGS.map((bug) => ({ ...bug, endings: true })),
  ...RATES.map((bug) => ({ ...bug, rates: true })),
  ...CLUSTER.map((bug) => ({ ...bug, cluster: true })),
  ...RACES.map((bug) => ({ ...bug, races: true })),
  ...EVENTS.map((bug) => ({ ...bug, events: true })),
  ...MOVES.map((bug) => ({ ...bug, versions: true })),
  ...ENTITIES.map((bug) => ({ ...bug, entities: true })),
  ...ALERTS.map((bug) => ({ ...bug, alerts: true })),
  ...SESSIONS.map((bug) => ({ ...bug, sessions: true })),
  ...TALK.map((bug) => ({ ...bug, talk: true })),
];
