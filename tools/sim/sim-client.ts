/** A simulated user: starts, pauses, signals, cancels and retries executions, and repeats requests without an answer. */
import type { Inspection, Request } from "../../src/engine/io.ts";
import {
  type Arrival,
  type FollowAnswer,
  type FollowQuestion,
  followNewest,
} from "../../src/engine/newest.ts";
import {
  PLACE_FORM,
  type PlaceQuestion,
  placeBody,
  placeId,
  placeSignal,
} from "../../src/engine/signal-place.ts";
import { numberOf } from "../../src/kernel/definition/names.ts";
import type { Plan } from "../../src/kernel/definition/plan.ts";
import { successorId } from "../../src/kernel/definition/successor-id.ts";
import type { Answer, ControlMessage, SignalMessage, StartMessage } from "../../src/kernel/message.ts";
import { updateSignal } from "../../src/kernel/updates.ts";
import type { SeededRandom } from "../../src/std/random.ts";
import { isRejection, type Rejection } from "../../src/std/rejection.ts";
import { parseDocument } from "../../src/store/document-form.ts";
import { FORCED } from "./check/cleanup-model.ts";
import { must } from "./trace.ts";
import { ASK, SIGNALS, talks } from "./workload/program.ts";
import type { World } from "./world.ts";

interface Asked {
  readonly execution: string;
  readonly message: Request;
  readonly plan: Plan | null;
  /** Called with the answer to a signal with a start. */
  readonly onAnswer?: (answer: Answer) => void;
}

/** An item that is sent by a signal with a start. */
interface SignalSent {
  readonly plan: Plan;
  readonly signal: string;
  readonly item: string;
}

export class SimClient {
  readonly #world: World;
  readonly #random: SeededRandom;
  readonly #asked = new Map<number, Asked>();
  /** The number of planned further starts, by execution. */
  readonly #planned = new Map<string, number>();
  /** Draws what concerns starts with signals, so that runs without them do not change. */
  readonly #signalling: SeededRandom;
  /** The starts of executions. */
  readonly #starts = new Map<string, { readonly message: StartMessage; readonly plan: Plan }>();
  /** Messages that were answered as applied, by id; starts by the execution's id. */
  readonly acknowledged = new Map<
    string,
    { execution: string; kind: string; seq: number; retried?: string | undefined }
  >();
  #requests = 0;
  #ids = 0;

  constructor(world: World, random: SeededRandom) {
    this.#world = world;
    this.#random = random;
    this.#signalling = random.child("starts with signals");
  }

  start(execution: string, plan: Plan, times: { startAt?: number; deadline?: number }): void {
    const project = this.#random.pick(this.#world.drill?.projects ?? ["default", "other"]);
    const plain: StartMessage = {
      kind: "start",
      execution,
      workflow: plan.definition.name,
      hash: plan.hash,
      project,
      input: JSON.stringify({ of: execution }),
      tags: {},
      ...times,
    };
    this.#starts.set(execution, { message: plain, plan });
    const message = this.#signalling.chance(0.2) ? this.#withSignal(plain) : plain;
    this.#ask({ execution, message, plan });
    if (this.#random.chance(0.2)) {
      this.#planned.set(execution, (this.#planned.get(execution) ?? 0) + 1);
      this.#world.timeline.after(this.#random.below(500), () => {
        this.#planned.set(execution, (this.#planned.get(execution) ?? 1) - 1);
        this.#ask({ execution, message, plan });
      });
    }
    if (this.#random.chance(0.1)) this.#conflict(execution, plain, plan);
  }

  #withSignal(message: StartMessage): StartMessage {
    return { ...message, signal: this.#signalOf(this.#signalling.pick(SIGNALS)) };
  }

  /** Whether the execution can be purged: no start of it is planned, and it is not kept as damaged. */
  mayForget(execution: string): boolean {
    if (this.#world.garbled.mayBeDamaged(execution)) return false;
    if ((this.#planned.get(execution) ?? 0) > 0) return false;
    for (const asked of this.#asked.values())
      if (asked.execution === execution && asked.message.kind === "start") return false;
    return true;
  }

  /** After the start is acknowledged, a different start under the same id must be a conflict. */
  #conflict(execution: string, message: StartMessage, plan: Plan): void {
    this.#planned.set(execution, (this.#planned.get(execution) ?? 0) + 1);
    this.#world.timeline.after(1_000, () => {
      this.#planned.set(execution, (this.#planned.get(execution) ?? 1) - 1);
      if (this.acknowledged.has(execution))
        this.#ask({ execution, message: { ...message, input: '"other"' }, plan });
      else this.#conflict(execution, message, plan);
    });
  }

  /** Does something that a user might do. */
  act(execution: string): void {
    const kind = this.#random.pick([
      "pause",
      "resume",
      "resume",
      "cancel",
      "retry",
      "retry",
      "signal",
      "signal",
    ] as const);
    if (kind === "signal") {
      // Often several, so that some are kept while another one is consumed.
      const name = this.#random.pick(SIGNALS);
      for (let i = this.#random.between(1, 3); i > 0; i--) this.signal(execution, name);
    } else this.control(execution, kind);
    if (!talks(this.#world.behaviour.seed)) return;
    for (let i = this.#signalling.between(0, 3); i > 0; i--)
      this.#ask({ execution, message: this.#signalOf(updateSignal(ASK)), plan: null });
  }

  control(execution: string, kind: ControlMessage["kind"], more: { force?: true } = {}): void {
    const reason = more.force === true ? FORCED : null;
    const message = { kind, id: `m${++this.#ids}`, by: "user", reason, ...more };
    this.#ask({ execution, message, plan: null });
  }

  /** Moves an execution to another definition of its workflow. */
  move(execution: string, { definition }: Plan): void {
    const id = `m${++this.#ids}`;
    const text = JSON.stringify(definition);
    const message = { kind: "move", id, by: "user", reason: null, definition: text } as const;
    this.#ask({ execution, message, plan: null });
  }

  /** Signals an execution, sometimes by a start with the signal. */
  signal(execution: string, name: string): void {
    const start = this.#starts.get(execution);
    const signal = this.#signalOf(name);
    const isOpen = this.#world.ledger.model(execution)?.ended === false;
    if (start !== undefined && isOpen && this.#signalling.chance(0.3))
      this.#ask({ execution, message: { ...start.message, signal }, plan: start.plan });
    else this.#ask({ execution, message: signal, plan: null });
  }

  #signalOf(signal: string): SignalMessage {
    const id = `m${++this.#ids}`;
    return { kind: "signal", id, signal, data: JSON.stringify({ id }) };
  }

  /** The number of signals with starts that are under way. */
  unsent = 0;

  /** Signals the open execution of a name, or starts the next one with the signal. */
  signalWithStart(name: string, sent: SignalSent): void {
    this.unsent++;
    const placing = placeSignal(() => this.#ended.get(name) ?? 1);
    const signal: SignalMessage = {
      kind: "signal",
      id: sent.item,
      signal: sent.signal,
      data: JSON.stringify({ id: sent.item }),
    };
    const { kind } = PLACE_FORM;
    const document = placeId(name, sent.item);
    const tables = this.#world.documents;
    const goOn = (answer: boolean | number | null): void => {
      const { done, value } = placing.next(answer);
      if (done === true) {
        this.unsent--;
        return;
      }
      // Each question takes its time, so that executions end and other requests are answered meanwhile.
      if (value.kind === "offer") this.#offer(successorId(name, value.n), { ...sent, signal }, goOn);
      else this.#world.timeline.after(this.#world.delay(), () => goOn(answerTo(value)));
    };
    const answerTo = (question: Exclude<PlaceQuestion, { kind: "offer" }>): boolean | number | null => {
      const noted = tables.getDocument(kind, document);
      const n = noted === null ? null : parseDocument(PLACE_FORM, document, noted).n;
      switch (question.kind) {
        case "ended":
          return this.#hasEnded(name, question.n);
        case "read":
          return n;
        case "note":
          if (n !== null) this.#world.count("signal placed again");
          return (
            n === question.was &&
            tables.swapDocument(kind, document, { was: noted, body: placeBody(question.n, 0) })
          );
      }
    };
    goOn(null);
  }

  /** The highest number of an execution of each name that was seen as ended, as a node remembers it. */
  readonly #ended = new Map<string, number>();

  #hasEnded(name: string, n: number): boolean {
    const hasEnded = this.#world.ledger.model(successorId(name, n))?.ended === true;
    if (hasEnded) this.#ended.set(name, Math.max(n, this.#ended.get(name) ?? 1));
    return hasEnded;
  }

  /** Sends a start with a signal to one execution, until it is answered. */
  #offer(
    execution: string,
    { plan, signal }: { readonly plan: Plan; readonly signal: SignalMessage },
    answered: (isTaken: boolean) => void,
  ): void {
    const message: StartMessage = {
      kind: "start",
      execution,
      workflow: plan.definition.name,
      hash: plan.hash,
      project: "default",
      input: "null",
      tags: {},
      signal,
    };
    let isOver = false;
    const onAnswer = (answer: Answer) => {
      if (isOver) return;
      isOver = true;
      const isGone = answer.kind === "rejection" && answer.code === "gone";
      must(isGone || answer.kind === "applied", `${execution}: a signal with a start is applied, or gone`);
      if (isGone) this.#world.count("signal after the end");
      else this.#world.begun(execution, plan);
      if (answer.kind === "applied" && answer.signal === "kept") this.#world.count("signal before the end");
      answered(!isGone);
    };
    this.#ask({ execution, message, plan, onAnswer });
  }

  /** Reads of the state of executions that are under way. */
  readonly #inspecting = new Map<number, (found: Inspection | Rejection) => void>();

  inspected(request: number, found: Inspection | Rejection): void {
    const isLater = isRejection(found) && ["not_owner", "not_ready"].includes(found.code);
    const answered = this.#inspecting.get(request);
    if (isLater || !this.#inspecting.delete(request)) return;
    answered?.(found);
  }

  /** Reads the state of an execution, until a node answers. */
  #inspect(execution: string, answered: (found: Inspection | Rejection) => void): void {
    const request = ++this.#requests;
    this.#inspecting.set(request, answered);
    this.#world.fromClient({ kind: "inspect", request, execution });
    this.#world.timeline.after(2_000, () => {
      if (this.#inspecting.delete(request)) this.#inspect(execution, answered);
    });
  }

  /**
   * Signals the newest execution of an id, as a client of the engine does. `untilApplied`: if it is refused, because the newest one
   * is cancelled, it is sent again later.
   */
  signalNewest(
    id: string,
    sent: { readonly signal: string; readonly item: string },
    options: { readonly untilApplied: boolean },
    over: () => void,
  ): void {
    const data = JSON.stringify({ id: sent.item });
    const message: SignalMessage = { kind: "signal", id: sent.item, signal: sent.signal, data };
    const following = followNewest(id, message.kind);
    let isApplied = false;
    const goOn = (answer: FollowAnswer): void => {
      const { done, value } = following.next(answer);
      if (done === true) {
        if (isApplied || !options.untilApplied) return over();
        this.#world.count("signal after the end");
        return this.#world.timeline.after(300, () => this.signalNewest(id, sent, options, over));
      }
      const { kind, execution } = value;
      if (kind === "send") {
        let isAnswered = false;
        const onAnswer = (answered: Answer): void => {
          if (isAnswered) return;
          isAnswered = true;
          isApplied = answered.kind !== "rejection";
          goOn(answered);
        };
        this.#ask({ execution, message, plan: null, onAnswer });
      } else if (kind === "successor")
        this.#inspect(execution, (found) => goOn(isRejection(found) ? null : (found.newest ?? null)));
      else this.#arrival(value, goOn);
    };
    goOn(null);
  }

  /** Asks again and again whether an execution has begun. */
  #arrival(awaited: Extract<FollowQuestion, { kind: "arrival" }>, over: (arrival: Arrival) => void): void {
    const { execution, first, isOpen } = awaited;
    this.#inspect(execution, (found) => {
      if (!isRejection(found)) return over("begun");
      if (!isOpen) return over("never");
      this.#inspect(first, (named) => {
        const newest = isRejection(named) ? undefined : named.newest;
        if (numberOf(newest?.execution ?? first) > numberOf(execution)) return over("newer");
        this.#world.timeline.after(50, () => this.#arrival(awaited, over));
      });
    });
  }

  /** Sends an event until it is durable. `before` is sent first, unless it has been: then this is a repetition. */
  event(message: StartMessage, plan: Plan, before?: () => void): void {
    const { execution } = message;
    if (before !== undefined && this.#world.ledger.model(execution) === undefined) return before();
    this.unsent++;
    let isOver = false;
    const onAnswer = (answer: Answer) => {
      must(answer.kind === "applied", `${execution}: an event is applied`);
      if (isOver) return;
      isOver = true;
      this.unsent--;
    };
    this.#ask({ execution, message, plan, onAnswer });
  }

  /** Retries some tasks of an execution that are not done, or all failed ones of a handler. */
  retryTasks(execution: string, random: SeededRandom): void {
    const places = this.#world.ledger.model(execution)?.retriable ?? [];
    if (places.length === 0) return;
    const { numbers, ...place } = random.pick(places);
    const tasks = random.chance(0.5) ? place : { ...place, numbers: [random.pick(numbers)] };
    this.#ask({
      execution,
      message: { kind: "retry", id: `m${++this.#ids}`, by: "user", reason: null, tasks },
      plan: null,
    });
  }

  /** Now and then, requests a broadcast again that was given up. */
  tellAgain(random: SeededRandom): void {
    const { timeline, ledger } = this.#world;
    if (!this.#world.has("controls")) return;
    timeline.after(random.below(4_000), () => {
      if (!this.#world.has("controls")) return;
      const given = [...ledger.models].filter(({ owes }) => owes.undelivered.size > 0);
      if (given.length > 0) {
        const { id: execution, owes } = random.pick(given);
        const { ref: op } = random.pick([...owes.undelivered.values()]);
        const message = { kind: "postop.retry", id: `m${++this.#ids}`, by: "user", op } as const;
        this.#ask({ execution, message, plan: null });
      }
      this.tellAgain(random);
    });
  }

  replied(request: number, answer: Answer, existed: boolean): void {
    const asked = this.#asked.get(request);
    // A request at the wrong node, during an upgrade, or about a damaged execution is repeated.
    const isLater =
      answer.kind === "rejection" &&
      (["not_owner", "not_ready"].includes(answer.code) ||
        (answer.code === "wrong_status" && this.#world.garbled.mayBeDamaged(asked?.execution ?? "")));
    if (answer.kind === "rejection" && answer.code === "not_ready")
      this.#world.count("newer events held back");
    if (asked === undefined || isLater) return;
    this.#asked.delete(request);
    const { message, execution, onAnswer } = asked;
    if (onAnswer !== undefined) return onAnswer(answer);
    if (message.kind === "start" && message.input === '"other"') {
      must(
        answer.kind === "rejection" && answer.code === "conflict",
        `${execution}: a start with another input is a conflict`,
      );
      return;
    }
    if (answer.kind === "rejection") {
      const isGone = message.kind === "start" && message.signal !== undefined && answer.code === "gone";
      must(message.kind !== "start" || isGone, `${execution}: a start is not refused (${answer.message})`);
      return;
    }
    if (answer.kind !== "applied" || this.#world.ledger.wasPurged(execution)) return;
    this.#world.mustBeDurable(execution, answer.seq);
    const id = message.kind === "start" ? execution : message.id;
    const before = this.acknowledged.get(id);
    const retried = JSON.stringify(answer.retried);
    if (before !== undefined && message.kind !== "start")
      must(before.seq === answer.seq && before.retried === retried, `${id}: a repeat gets the first answer`);
    if (message.kind === "start" && message.signal !== undefined)
      this.acknowledged.set(message.signal.id, { execution, kind: "signal", seq: answer.seq });
    if (!existed || before === undefined)
      this.acknowledged.set(id, { execution, kind: message.kind, seq: answer.seq, retried });
  }

  /** A request without an answer is repeated. */
  #ask(asked: Asked): void {
    const request = ++this.#requests;
    this.#asked.set(request, asked);
    const { execution, message, plan } = asked;
    this.#world.fromClient({
      kind: "request",
      request,
      execution,
      message,
      ...(plan === null ? {} : { plan }),
    });
    this.#world.timeline.after(2_000, () => {
      if (!this.#asked.delete(request)) return;
      this.#ask(asked);
    });
    // Some requests are sent twice although the first answer is on its way.
    if (this.#random.chance(0.1) && this.#world.has("repeated-messages")) {
      const again = ++this.#requests;
      this.#asked.set(again, asked);
      this.#world.fromClient({
        kind: "request",
        request: again,
        execution,
        message,
        ...(plan === null ? {} : { plan }),
      });
    }
  }
}
