/** Checks the runs of script tasks in a journal, for the auditor: they must be the first runs of the script, in its order. */
import type { TaskRun } from "../kernel/event.ts";

/** A script of the stored definition. */
interface Script {
  readonly runs: readonly string[];
  readonly resume: boolean;
}

/** Scripts by `phase/handler`. If the definition is known, a handler that is missing in this map is not a script. */
export type Scripts = ReadonlyMap<string, Script>;

export function scriptsIn(definition: string): Scripts {
  const { phases = [] } = JSON.parse(definition) as {
    phases?: { name: string; handlers: Record<string, { script?: { name: string }[]; resume?: boolean }> }[];
  };
  return new Map(
    phases.flatMap(({ name, handlers }) =>
      Object.entries(handlers).flatMap(([handler, { script, resume }]) =>
        script === undefined
          ? []
          : [
              [
                `${name}/${handler}`,
                { runs: script.map((run) => run.name), resume: resume !== false },
              ] as const,
            ],
      ),
    ),
  );
}

/** The finished runs of open tasks of one handler in one visit. */
export class RunTally {
  readonly #tasks = new Map<number, { attempt: number; round: number; finished: number }>();
  #round = 0;

  /** Counts a finished run. Returns what is wrong with it, or null. `scripts` is null if the definition is not known. */
  note({ phase, handler, task, attempt, index, name }: TaskRun, scripts: Scripts | null): string | null {
    const at = `task ${task} of ${phase}/${handler}`;
    const script = scripts?.get(`${phase}/${handler}`);
    if (scripts !== null && script === undefined)
      return `${at} has a run ${name}, but the handler is not a script`;
    const known = this.#tasks.get(task);
    const isNewer = known === undefined || attempt > known.attempt || this.#round > known.round;
    const mayBegin = isNewer && script?.resume !== true;
    const finished = known?.finished ?? 0;
    const isNext = index === finished || (mayBegin && index === 0);
    this.#tasks.set(task, { attempt, round: this.#round, finished: index + 1 });
    if (script !== undefined && script.runs[index] !== name)
      return `${at}: run ${index} is ${name}; the script has ${script.runs[index] ?? "no such run"} at this position`;
    if (script?.resume === false && isNewer && index !== 0)
      return `${at}: attempt ${attempt} has to begin with the first run of the script, but its first run is ${name}`;
    return isNext
      ? null
      : `${at}: run ${index} (${name}) comes after ${finished} finished runs: runs are missing or out of order`;
  }

  /** Called when the task gets its outcome. No more runs of a done task are expected. */
  settled(task: number, isDone: boolean): void {
    if (isDone) this.#tasks.delete(task);
  }

  /** Begins a new round after a retry. In it, tasks may run their scripts from the first run again. */
  reopen(): void {
    this.#round++;
  }
}
