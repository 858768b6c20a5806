/** The tab with the commands of an execution: each request (`cmd`) beside its progress (`proc`). */
import { get } from "../../api/client.ts";
import type { Execution, JournalEvent, Workflow } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { clock } from "../../core/format.ts";
import { Badge, type BadgeState } from "../../ui/badge.tsx";
import { messageOf } from "../../ui/error-view.tsx";
import { JsonView } from "../../ui/json.tsx";
import { Empty, Loading, Trouble } from "../../ui/state.tsx";
import type { About } from "./execution.tsx";
import { textOf } from "./text-of.ts";
import { useKinds } from "./use-kinds.ts";

/** A command as it was submitted. */
interface Command {
  readonly phase: string;
  readonly handler: string;
  readonly topic: string;
  readonly cmd: unknown;
}

type ProcStatus = "PENDING" | "RUNNING" | "COMPLETE" | "ERROR" | "CANCELLED";

const BADGES: Readonly<Record<ProcStatus, BadgeState>> = {
  PENDING: "pending",
  RUNNING: "running",
  COMPLETE: "done",
  ERROR: "failed",
  CANCELLED: "cancelled",
};

/** Loads the definition with which an execution was started. */
export function useDefinition({ workflow, workflowHash }: Execution) {
  const path = `/v1/workflows/${encodeURIComponent(workflow)}`;
  return useLive(`${path} ${workflowHash}`, (signal) =>
    get<Workflow>(path, { query: { hash: workflowHash }, signal }),
  );
}

/** The commands of a definition, in order. The data and metadata of a submitted document are in the input. */
export function commandsOf(workflow: Workflow | null, input: unknown): readonly Command[] {
  const { steps = [] } = (
    workflow?.definition["commands"] === "input" && typeof input === "object" && input !== null ? input : {}
  ) as { readonly steps?: readonly object[] };
  return definedIn(workflow).map((command, i) =>
    steps[i] === undefined ? command : { ...command, cmd: withGiven(command.cmd, steps[i]) },
  );
}

/** The command with the data and metadata of the input. In the definition, `cmd_data` lists references only. */
function withGiven(cmd: unknown, given: object): unknown {
  const { cmd_data: _, ...shared } = cmd as Readonly<Record<string, unknown>>;
  return { ...shared, ...given };
}

function definedIn(workflow: Workflow | null): readonly Command[] {
  const phases = (workflow?.definition.phases ?? []) as readonly {
    readonly name: string;
    readonly handlers?: Readonly<Record<string, { readonly command?: unknown; readonly topic?: string }>>;
  }[];
  return phases.flatMap(({ name, handlers }) =>
    Object.entries(handlers ?? {}).flatMap(([handler, { command, topic }]) =>
      command === undefined ? [] : [{ phase: name, handler, topic: topic ?? "", cmd: command }],
    ),
  );
}

export function CommandsTab({ path, facts, at }: About) {
  const definition = useDefinition(facts);
  const { events, problem } = useKinds(path, "postop.,command.", { revision: facts.revision, at });
  const trouble = definition.problem ?? problem;
  if (definition.data === null || events === null)
    return trouble === null ? <Loading /> : <Trouble problem={trouble} />;
  const commands = commandsOf(definition.data, facts.input);
  if (commands.length === 0) return <Empty title="This execution has no commands." />;
  return (
    <ol class="commands">
      {commands.map((command, i) => (
        <CommandRow
          key={`${command.phase} ${command.handler}`}
          command={command}
          number={i}
          facts={facts}
          events={events}
        />
      ))}
    </ol>
  );
}

function CommandRow(props: {
  readonly command: Command;
  readonly number: number;
  readonly facts: Execution;
  readonly events: readonly JournalEvent[];
}) {
  const { command, number, facts, events } = props;
  const receipt = events.findLast(
    (event) =>
      event.kind.endsWith("receipted") &&
      event["phase"] === command.phase &&
      event["handler"] === command.handler,
  );
  const status = statusOf(command, facts, receipt);
  const tries = events.filter(
    ({ kind, ...event }) => kind.includes("postop.") && isOf(event, command, number),
  );
  return (
    <li>
      <section aria-label={`cmd ${number}`}>
        <h3>cmd · {command.handler}</h3>
        <JsonView value={command.cmd} label={`Command ${number}`} />
      </section>
      <section aria-label={`proc ${number}`}>
        <h3 class="row">
          proc <Badge state={BADGES[status]} text={status} />
        </h3>
        <dl class="pairs">
          <div>
            <dt>topic</dt>
            <dd class="mono">{command.topic}</dd>
          </div>
          {receipt === undefined ? null : (
            <div>
              <dt>receipt</dt>
              <dd>
                {clock(receipt.at, { withMs: true })}, attempt {textOf(receipt["attempt"])}
              </dd>
            </div>
          )}
          {tries.map((event) => (
            <div key={event.seq}>
              <dt>{textOf(event["op"])}</dt>
              <dd>
                {event.kind.endsWith("done") ? "done" : event.kind.endsWith("failed") ? "failed" : "retried"},
                try {textOf(event["attempt"])} <span class="mono muted">{textOf(event["target"])}</span>
                {event["error"] === undefined ? null : (
                  <span class="failed-text"> {messageOf(event["error"])}</span>
                )}
              </dd>
            </div>
          ))}
        </dl>
        {receipt === undefined ? null : (
          <JsonView
            value={receipt["cmd_result"] ?? receipt["proc_err"] ?? null}
            label={`Result of command ${number}`}
          />
        )}
      </section>
    </li>
  );
}

function isOf(
  event: Readonly<Record<string, unknown>>,
  { phase, handler }: Command,
  number: number,
): boolean {
  const step = event["step"];
  return step === number || step === phase || step === handler;
}

/** The status of a command, from the counts of its handler and from its receipt. */
function statusOf(
  { phase, handler }: Command,
  facts: Execution,
  receipt: JournalEvent | undefined,
): ProcStatus {
  const counts = facts.phases
    .findLast(({ name }) => name === phase)
    ?.handlers.find(({ name }) => name === handler);
  if (counts !== undefined && counts.failed > 0) return "ERROR";
  if (receipt !== undefined) return receipt["proc_status"] === "ERROR" ? "ERROR" : "COMPLETE";
  if (counts === undefined) return "PENDING";
  if (counts.done > 0) return "COMPLETE";
  if (counts.cancelled > 0) return "CANCELLED";
  return counts.running + counts.retrying + counts.waiting > 0 ? "RUNNING" : "PENDING";
}
