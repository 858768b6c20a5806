/** The command line of the bench. */
import { parseArgs } from "node:util";
import { BROKER_SCENARIOS, FILE_SCENARIOS, POSTGRES_SCENARIOS } from "./catalog.ts";
import type { Scenario } from "./scenario.ts";

export interface BenchOptions {
  readonly scenarios: readonly Scenario[];
  readonly json: boolean;
  readonly short: boolean;
  /** Fails if a goal is missed by far. */
  readonly budgets: boolean;
  /** Prints where the time goes. */
  readonly profile: boolean;
  /** The directory for stores; null: a temporary directory on a disk. */
  readonly directory: string | null;
  /** Null: over files. Otherwise over PostgreSQL at this URL, or at a private server if the URL is null. */
  readonly postgres: { readonly url: string | null } | null;
  readonly keep: boolean;
}

const FILE_NAMES = FILE_SCENARIOS.map(({ name }) => name).join(",");
const BROKER_NAMES = BROKER_SCENARIOS.map(({ name }) => name).join(",");
const POSTGRES_NAMES = POSTGRES_SCENARIOS.map(({ name }) => name).join(",");

export const USAGE = `Usage: rondo bench [options] [NAMES]

  --only NAMES        some of ${FILE_NAMES};
                      with PostgreSQL, of ${POSTGRES_NAMES};
                      only where it is named, ${BROKER_NAMES}: over a RabbitMQ of this
                      machine, started for this, or the one of RABBITMQ_URL
  --short             small sizes
  --budgets           small sizes; exit 1 if a goal is missed by more than 3 times
  --profile SCENARIO  run one scenario and print its hottest functions, by thread
  --json              one JSON object on stdout, everything else on stderr
  --store STORE       file:DIR: where stores are made; default: a temporary directory
                      postgres: a PostgreSQL of this machine, started for this
                      postgres://...: one that runs; it must let us create databases
  --keep              leave the stores, and the profiles
`;

/** The options, or a rejection; null: help is wanted. */
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
  const [known, NAMES] =
    store.postgres === null ? [FILE_SCENARIOS, FILE_NAMES] : [POSTGRES_SCENARIOS, POSTGRES_NAMES];
  const wanted = values.profile ?? values.only ?? (named.length > 0 ? named.join(",") : NAMES);
  const names = wanted.split(",").filter((name) => name !== "");
  const scenarios: Scenario[] = [];
  for (const name of names) {
    const scenario = [...known, ...BROKER_SCENARIOS].find((one) => one.name === name);
    if (scenario === undefined) return `there is no scenario "${name}"; there are ${NAMES},${BROKER_NAMES}`;
    scenarios.push(scenario);
  }
  return {
    scenarios,
    json: values.json ?? false,
    short: values.short ?? values.budgets ?? false,
    budgets: values.budgets ?? false,
    profile: values.profile !== undefined,
    ...store,
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
