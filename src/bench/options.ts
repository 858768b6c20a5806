/** The command line of the bench. */
import { parseArgs } from "node:util";
import { SCENARIOS, scenarioNamed } from "./catalog.ts";
import type { Scenario } from "./scenario.ts";

export interface BenchOptions {
  readonly scenarios: readonly Scenario[];
  readonly json: boolean;
  readonly short: boolean;
  /** Fail if a goal is missed by far. */
  readonly budgets: boolean;
  /** Print where the time goes. */
  readonly profile: boolean;
  /** Where stores are made; null: a temporary directory on a disk. */
  readonly directory: string | null;
  readonly keep: boolean;
}

const NAMES = SCENARIOS.map(({ name }) => name).join(",");

export const USAGE = `Usage: rondo bench [options]

  --only NAMES        some of ${NAMES}
  --short             small sizes
  --budgets           small sizes; exit 1 if a goal is missed by more than 3 times
  --profile SCENARIO  run one scenario and print its hottest functions, by thread
  --json              one JSON object on stdout, everything else on stderr
  --store file:DIR    where stores are made; default: a temporary directory
  --keep              leave the stores, and the profiles
`;

/** The options, or what is wrong with them; null: help is wanted. */
export function readOptions(args: readonly string[]): BenchOptions | string | null {
  let values: Values;
  try {
    values = parse(args);
  } catch (error) {
    return (error as Error).message;
  }
  if (values.help) return null;
  const names = (values.profile ?? values.only ?? NAMES).split(",").filter((name) => name !== "");
  const scenarios: Scenario[] = [];
  for (const name of names) {
    const scenario = scenarioNamed(name);
    if (scenario === undefined) return `there is no scenario "${name}"; there are ${NAMES}`;
    scenarios.push(scenario);
  }
  const directory = values.store === undefined ? null : /^file:(?:\/\/(?=\/))?(.+)$/.exec(values.store)?.[1];
  if (directory === undefined) return `--store takes file:DIR, not "${values.store}"`;
  return {
    scenarios,
    json: values.json ?? false,
    short: values.short ?? values.budgets ?? false,
    budgets: values.budgets ?? false,
    profile: values.profile !== undefined,
    directory,
    keep: values.keep ?? false,
  };
}

type Values = ReturnType<typeof parse>;

function parse(args: readonly string[]) {
  return parseArgs({
    args: [...args],
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
  }).values;
}
