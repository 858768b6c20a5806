/**
 * Transcripts: a text of commands, each followed by `----` and by what the kernel answers. Blocks are separated by an
 * empty line; lines that begin with # are for the reader.
 *
 *   workflow              the definition as JSON on the lines below
 *   start [NAME]          the workflow NAME, or the last one     [input=J] [startAt=N] [deadline=N] [id=ID]
 *   at N                  the time of what follows
 *   page H J...           a page of tasks            [from=N] [attempt=N] [ids=a,b,c]
 *   seal H                the enumeration is done    [total=N] [failed] [fatal]
 *   receipt H N STATUS    a receipt for task N       [result=J] [error=TEXT] [attempt=N] [round=N] [late] [fatal] [retryAfter=N]
 *   started H N...        attempts began
 *   step H N NAME [J]     a step is done             [attempt=N] [round=N] [late]
 *   run H N I [J]         the run with index I is finished, and the state after it   [attempt=N] [round=N] [late]
 *   suspend H N NAME      the attempt ends; the task waits   [until=N] [signal=NAME] [timeout=N] [attempt=N] [late]
 *   children H N...       the owner asks for the children of these tasks
 *   postop OP [I]         a try at an owed persistence or broadcast ended   [error=TEXT] [fatal] [attempt=N]
 *   lost H N...           attempts whose workers went silent
 *   signal NAME [J]       [id=ID]
 *   timer ID              a timer's time has come
 *   pause | resume | cancel | retry   [id=ID]
 *   drained               the owner says that no attempt is open
 *   deliver               the oldest letter comes to its receiver, or [last] the newest
 *   in ID                 what follows is for the execution whose id begins so
 *
 * Letters to other executions are shown after ~>. H is a handler of the current visit, or phase/visit/handler. J is JSON without spaces.
 */
import type { Definition } from "../../../src/kernel/definition/definition.ts";
import { parseDefinition } from "../../../src/kernel/definition/parse-definition.ts";
import type { Answer, Sent, Verdict } from "../../../src/kernel/message.ts";
import { defined } from "../../../src/std/defined.ts";
import { isRejection } from "../../../src/std/rejection.ts";
import { KernelRun, type StartOptions } from "./kernel-run.ts";
import { showEvent, showId, showSent } from "./show-event.ts";

interface Arguments {
  readonly words: readonly string[];
  readonly options: Readonly<Record<string, string>>;
}

/** The transcript with every expected part replaced by what really came. */
export function replayTranscript(text: string): string {
  const narrator = new Narrator();
  const blocks = text.split(/\n{2,}/).filter((block) => block.trim() !== "");
  return `${blocks.map((block) => playBlock(narrator, block)).join("\n\n")}\n`;
}

function playBlock(narrator: Narrator, block: string): string {
  const lines = block.trimEnd().split("\n");
  const comments = lines.filter((line) => line.startsWith("#"));
  const rest = lines.filter((line) => !line.startsWith("#"));
  if (rest.length === 0) return comments.join("\n");
  const cut = rest.indexOf("----");
  const command = cut < 0 ? rest : rest.slice(0, cut);
  const answer = narrator.play(command[0] as string, command.slice(1).join("\n"));
  return [...comments, ...command, "----", ...answer].join("\n");
}

class Narrator {
  readonly #definitions = new Map<string, Definition>();
  readonly #runs = new Map<string, KernelRun>();
  readonly #letters: Sent[] = [];
  #last = "";
  #run: KernelRun | null = null;
  #now = 1_000;

  play(line: string, body: string): string[] {
    const [command = "", ...rest] = line.split(/\s+/);
    const given = readArguments(rest);
    if (command === "workflow") return this.#define(body);
    if (command === "at") {
      this.#now = Number(given.words[0]);
      return [`now ${this.#now}`];
    }
    if (command === "start") return this.#start(given);
    if (command === "in") return this.#enter(given.words[0] ?? "");
    if (command === "deliver") return this.#deliver(given.words[0] === "last");
    const run = this.#run;
    if (run === null) throw new Error(`${command}: there is no execution yet`);
    return this.#tell(run, () => send(run, command, given));
  }

  #define(body: string): string[] {
    const parsed = parseDefinition(JSON.parse(body));
    if (isRejection(parsed)) return [`-> refused: ${parsed.message}`];
    this.#definitions.set(parsed.name, parsed);
    this.#last = parsed.name;
    return ["-> ok"];
  }

  #start({ words, options }: Arguments): string[] {
    const { input, id } = options;
    const times = numeric(options, "startAt", "deadline");
    return this.#create(words[0] ?? this.#last, { ...times, ...defined({ input, id }) });
  }

  #create(workflow: string, options: StartOptions & { id?: string }): string[] {
    const run = new KernelRun(this.#definitions.get(workflow), { now: this.#now, ...options });
    this.#run = run;
    this.#runs.set(run.execution.id, run);
    this.#letters.push(...run.sent);
    return [...run.events.map(showEvent), ...run.sent.map(showSent), `= ${this.#state(run)}`];
  }

  #enter(id: string): string[] {
    const [run] = [...this.#runs.values()].filter(({ execution }) => execution.id.startsWith(id));
    if (run === undefined) throw new Error(`in: there is no execution ${id}`);
    this.#run = run;
    return [`= ${this.#state(run)}`];
  }

  /** Gives a letter to its receiver, which is made if the letter is its start. */
  #deliver(isLast: boolean): string[] {
    const letter = isLast ? this.#letters.pop() : this.#letters.shift();
    if (letter === undefined) throw new Error("deliver: there is no letter");
    const { to, message } = letter;
    const header = `${showId(to)} gets ${message.kind}`;
    const run = this.#runs.get(to);
    if (run === undefined) {
      if (message.kind !== "start") return [header, "-> there is no such execution"];
      const { input, parent } = message;
      return [header, ...this.#create(message.workflow, { id: to, input, ...defined({ parent }) })];
    }
    if (message.kind === "start") return [header, "-> it is there"];
    this.#run = run;
    return [header, ...this.#tell(run, () => showAnswer(run.send(message)))];
  }

  /** What a message leads to. */
  #tell(run: KernelRun, act: () => string): string[] {
    run.now = this.#now;
    run.last = [];
    const before = run.sent.length;
    const answer = act();
    const sent = run.sent.slice(before);
    this.#letters.push(...sent);
    return [...run.last.map(showEvent), ...sent.map(showSent), `-> ${answer}`, `= ${this.#state(run)}`];
  }

  #state({ execution, status, phase }: KernelRun): string {
    const drains = execution.draining ? ", draining" : "";
    const children = execution.current?.openChildren ?? 0;
    const open = children === 0 ? "" : `, ${children} open ${children === 1 ? "child" : "children"}`;
    return `${status}${phase === null ? "" : ` in ${phase}/${execution.current?.visit}`}${drains}${open}`;
  }
}

function send(run: KernelRun, command: string, { words, options }: Arguments): string {
  const [first = "", ...rest] = words;
  const numbers = rest.map(Number);
  const { id } = options;
  switch (command) {
    case "page":
      return showAnswer(
        run.page(
          first,
          rest.map((text) => JSON.parse(text) as unknown),
          {
            ...numeric(options, "from", "attempt"),
            ...(options["ids"] === undefined ? {} : { identities: options["ids"].split(",") }),
          },
        ),
      );
    case "seal":
      return showAnswer(
        run.seal(first, {
          ...numeric(options, "total", "attempt"),
          ...("failed" in options ? { status: "failed", payload: errorText("listing failed") } : {}),
          ...("fatal" in options ? { fatal: true } : {}),
        }),
      );
    case "receipt":
      return receipt(run, first, { words: rest, options });
    case "started":
      return showAnswer(run.started(first, ...numbers));
    case "step":
    case "run":
    case "suspend":
      return checkpoint(run, command, { words, options });
    case "children":
      return showAnswer(run.children(first, numbers));
    case "postop":
      return showAnswer(
        run.postOp(first as "persistence", {
          index: numbers[0] ?? 0,
          ...numeric(options, "attempt"),
          ...defined({ error: options["error"] }),
          ...("fatal" in options ? { fatal: true } : {}),
        }),
      );
    case "lost":
      return showAnswer(run.lost(first, ...numbers));
    case "signal":
      return showAnswer(run.signal(first, JSON.parse(rest[0] ?? "null"), id));
    case "timer":
      return showAnswer(run.timer(first));
    case "drained":
      return showAnswer(run.drained());
    case "pause":
    case "resume":
    case "cancel":
    case "retry":
      return showAnswer(run.control(command, id));
    default:
      throw new Error(`${command} is not a command`);
  }
}

/** What happens inside of a task. */
function checkpoint(
  run: KernelRun,
  command: "step" | "run" | "suspend",
  { words, options }: Arguments,
): string {
  const [handler = "", task = "0", what = "", json = "null"] = words;
  const n = Number(task);
  const given = { ...numeric(options, "attempt", "round"), ...("late" in options ? { live: false } : {}) };
  const value = JSON.parse(json) as unknown;
  if (command === "step")
    return showVerdict(run.stepDone(handler, n, { name: what, result: value, ...given }));
  if (command === "run")
    return showVerdict(run.runDone(handler, n, { index: Number(what), state: value, ...given }));
  const { until: untilMs, timeout: timeoutMs } = numeric(options, "until", "timeout");
  const { signal } = options;
  return showVerdict(
    run.suspend(handler, n, { name: what, ...defined({ untilMs, timeoutMs, signal }), ...given }),
  );
}

function receipt(run: KernelRun, handler: string, { words, options }: Arguments): string {
  const [task = "0", status = "done"] = words;
  const payload = options["result"] ?? (status === "done" ? "null" : errorText(options["error"] ?? "boom"));
  const { retryAfter, ...numbers } = numeric(options, "attempt", "round", "retryAfter");
  return showVerdict(
    run.receipt(handler, Number(task), {
      status: status as "done",
      payload,
      live: !("late" in options),
      ...numbers,
      ...("fatal" in options ? { fatal: true } : {}),
      ...(retryAfter === undefined ? {} : { retryAfterMs: retryAfter }),
    }),
  );
}

function readArguments(rest: readonly string[]): Arguments {
  const isOption = (word: string) => /^[a-zA-Z]+=/.test(word) || ["late", "fatal", "failed"].includes(word);
  const words: string[] = [];
  const options: Record<string, string> = {};
  for (const [i, word] of rest.entries()) {
    // A status that stands where a status goes is no flag.
    if (!isOption(word) || (word === "failed" && i === 2)) words.push(word);
    else options[word.split("=")[0] as string] = word.split("=").slice(1).join("=");
  }
  return { words, options };
}

function numeric<K extends string>(
  options: Readonly<Record<string, string>>,
  ...names: readonly K[]
): { [N in K]?: number } {
  const given = names.filter((name) => options[name] !== undefined);
  return Object.fromEntries(given.map((name) => [name, Number(options[name])])) as { [N in K]?: number };
}

function errorText(message: string): string {
  return JSON.stringify({ name: "Error", message });
}

function showVerdict(verdict: Verdict | undefined): string {
  return typeof verdict === "object" ? `refused (${verdict.code}): ${verdict.message}` : String(verdict);
}

function showAnswer(answer: Answer): string {
  if (answer.kind === "rejection") return `refused (${answer.code}): ${answer.message}`;
  const verdicts = answer.verdicts === undefined ? "" : ` [${answer.verdicts.map(showVerdict).join(" ")}]`;
  return answer.kind === "applied" ? `applied${verdicts}` : `ignored: ${answer.why}${verdicts}`;
}
