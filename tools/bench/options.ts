/** The command line of the bench. */
import { parseArgs } from "node:util";
import {
  BROKER_SCENARIOS,
  BUDGET_SCENARIOS,
  FILE_SCENARIOS,
  POSTGRES_SCENARIOS,
  REAL_SCENARIOS,
} from "./catalog.ts";
import type { Scenario } from "./scenario.ts";

export interface BenchOptions {
  readonly scenarios: readonly Scenario[];
  readonly json: boolean;
  readonly short: boolean;
  /** Whether the bench fails if a goal is missed by far. */
  readonly budgets: boolean;
  /** Whether to print where the time goes. */
  readonly profile: boolean;
  /** The directory for stores; null for a temporary directory on a disk. */
  readonly directory: string | null;
  /** The PostgreSQL to use; null for stores in files. A null URL starts a private server. */
  readonly postgres: { readonly url: string | null } | null;
  readonly keep: boolean;
}

const FILE_NAMES = FILE_SCENARIOS.map(({ name }) => name).join(",");
const BROKER_NAMES = BROKER_SCENARIOS.map(({ name }) => name).join(",");
const JOBS = [...new Set(REAL_SCENARIOS.map(({ job }) => job as string))];
const POSTGRES_NAMES = POSTGRES_SCENARIOS.map(({ name }) => name).join(",");

export const USAGE = `Usage: rondo bench [options] [NAMES]

  --only NAMES        some of ${FILE_NAMES};
                      with PostgreSQL, of ${POSTGRES_NAMES};
                      only where it is named, ${BROKER_NAMES}: over a RabbitMQ of this
                      machine, started for this, or the one of RABBITMQ_URL
  --real              programs as people write them: asynchronous handlers, tasks of 100 bytes, 100 at
                      a time, over an embedded store and over PostgreSQL, beside raw limits;
                      --only takes some of
                      ${JOBS.join(",")}
  --long              with --real: also ${REAL_SCENARIOS.find(({ isLong }) => isLong)?.job}, which takes minutes
  --nodes COUNTS      with --real: tasks and chains on 1, 2 or 4 nodes over one PostgreSQL: 1,2,4 or some of them
  --short             small sizes
  --budgets           small sizes; exit 1 if a goal is missed by more than 3 times
  --profile SCENARIO  run one scenario and print its hottest functions, by thread
  --json              one JSON object on stdout, everything else on stderr
  --store STORE       file:DIR: where stores are made; default: a temporary directory
                      postgres: a PostgreSQL of this machine, started for this
                      postgres://...: one that runs; it must let us create databases
  --keep              leave the stores, and the profiles
`;

/** Parses the options, or returns a rejection; null if help is wanted. */
export function readOptions(args: readonly string[]): BenchOptions | string | null {
  let values: Values;
  let named: readonly string[];
  try {
    ({ values, positionals: named } = parse(args));
  } catch (error) {
    return (error as Error).message;
  }
  if (values.help) return null;
  const store = storeOf(values.store);
  if (store === null) return `--store takes file:DIR, postgres or postgres://..., not "${values.store}"`;
  if (values.real === true) return realOptions(values, named, store);
  const [known, NAMES] =
    store.postgres === null ? [FILE_SCENARIOS, FILE_NAMES] : [POSTGRES_SCENARIOS, POSTGRES_NAMES];
  const wanted = values.profile ?? values.only ?? (named.length > 0 ? named.join(",") : NAMES);
  // The budgets are over files: they are checked where there may be no database.
  if (wanted === NAMES && values.budgets === true && store.postgres === null)
    return { scenarios: BUDGET_SCENARIOS, ...common(values), ...store };
  const names = wanted.split(",").filter((name) => name !== "");
  const scenarios: Scenario[] = [];
  for (const name of names) {
    const scenario = [...known, ...BROKER_SCENARIOS].find((one) => one.name === name);
    if (scenario === undefined) return `there is no scenario "${name}"; there are ${NAMES},${BROKER_NAMES}`;
    scenarios.push(scenario);
  }
  return { scenarios, ...common(values), ...store };
}

/** The options of `--real`: its jobs over the named store, or over both. */
function realOptions(
  values: Values,
  named: readonly string[],
  store: Pick<BenchOptions, "directory" | "postgres">,
): BenchOptions | string {
  const wanted = (values.profile ?? values.only ?? named.join(",")).split(",").filter((name) => name !== "");
  for (const count of values.nodes?.split(",") ?? []) wanted.push(`nodes-${count}`);
  const unknown = wanted.find((name) => !JOBS.includes(name));
  if (unknown !== undefined) return `there is no job "${unknown}"; there are ${JOBS.join(",")}`;
  const isChosen = (one: Scenario): boolean =>
    wanted.length > 0 ? wanted.includes(one.job as string) : one.isLong !== true || values.long === true;
  const stores =
    values.store === undefined ? ["file", "postgres"] : [store.postgres === null ? "file" : "postgres"];
  const scenarios = REAL_SCENARIOS.filter((one) => stores.includes(one.store as string) && isChosen(one));
  const postgres = stores.includes("postgres") ? (store.postgres ?? { url: null }) : null;
  return { scenarios, ...common(values), directory: store.directory, postgres };
}

function common(values: Values): Omit<BenchOptions, "scenarios" | "directory" | "postgres"> {
  return {
    json: values.json ?? false,
    short: values.short ?? values.budgets ?? false,
    budgets: values.budgets ?? false,
    profile: values.profile !== undefined,
    keep: values.keep ?? false,
  };
}

function storeOf(named: string | undefined): Pick<BenchOptions, "directory" | "postgres"> | null {
  if (named === undefined) return { directory: null, postgres: null };
  if (named === "postgres") return { directory: null, postgres: { url: null } };
  if (/^postgres(ql)?:\/\/./.test(named)) return { directory: null, postgres: { url: named } };
  const directory = /^file:(?:\/\/(?=\/))?(.+)$/.exec(named)?.[1];
  return directory === undefined ? null : { directory, postgres: null };
}

type Values = ReturnType<typeof parse>["values"];

function parse(args: readonly string[]) {
  return parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      only: { type: "string" },
      real: { type: "boolean" },
      long: { type: "boolean" },
      nodes: { type: "string" },
      short: { type: "boolean" },
      budgets: { type: "boolean" },
      profile: { type: "string" },
      json: { type: "boolean" },
      store: { type: "string" },
      keep: { type: "boolean" },
      help: { type: "boolean", short: "h" },
    },
  });
}
