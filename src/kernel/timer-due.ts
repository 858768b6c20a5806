/** Fires timers. Each timer that is set fires once. Early, late or repeated messages about a timer are ignored. */
import { assert } from "../std/assert.ts";
import { advance } from "./advance.ts";
import { cancelExecution } from "./control.ts";
import type { HandlerState } from "./execution.ts";
import type { Answer, TimerDueMessage } from "./message.ts";
import { gateDue } from "./relay/gate.ts";
import type { Step } from "./step.ts";
import { childOutOfTime } from "./tasks/children.ts";
import { waitOutOfTime } from "./tasks/task-waits.ts";
import { taskOfTimer, timerId } from "./timer-ids.ts";
import { ENGINE, settleBuiltIn, waitTimeout } from "./timers.ts";

const TIME_IS_UP = { status: "done", reason: "timer", payload: "null" } as const;

/** Fires a timer and does what it was set for. The message is ignored unless the timer is set and due. */
export function timerDue(step: Step, message: TimerDueMessage): Answer {
  const { execution } = step;
  const timer = execution.timers.get(message.timer);
  if (timer === undefined) return { kind: "ignored", why: "the timer is not set any more, or never was" };
  if (step.now < timer.due) return { kind: "ignored", why: "the message came before the timer was due" };
  step.emit({ kind: "timer.fired", timer: message.timer, purpose: timer.purpose, due: timer.due });
  switch (timer.purpose) {
    case "start":
      break;
    case "gate":
      gateDue(step);
      break;
    case "task": {
      const timed = taskOfTimer(step, message.timer);
      if (timed?.handler.plan.mode === "workflow") childOutOfTime(step, timed.handler, timed.task);
      else if (timed !== null) waitOutOfTime(step, timed.handler, timed);
      break;
    }
    case "deadline":
      cancelExecution(step, { by: ENGINE, reason: "deadline", id: `deadline~${timer.due}` });
      break;
    case "cleanup":
      cancelExecution(step, { by: ENGINE, reason: "cleanupTimeout", id: `cleanup~${timer.due}` });
      break;
    case "sleep":
      settleBuiltIn(step, armedHandler(step, message.timer), TIME_IS_UP);
      break;
    case "wait": {
      const handler = armedHandler(step, message.timer);
      const { waitFor, optional } = handler.plan.definition;
      settleBuiltIn(
        step,
        handler,
        optional ? TIME_IS_UP : { status: "failed", reason: "wait_timeout", payload: waitTimeout(waitFor) },
      );
      break;
    }
  }
  advance(step);
  return { kind: "applied", seq: execution.seq };
}

function armedHandler(step: Step, timer: string): HandlerState {
  const handler = step.execution
    .currentVisit()
    .handlers.find((candidate) => timerId(step, candidate) === timer);
  assert(handler !== undefined, "a timer that is set must belong to a handler of the current visit");
  return handler;
}
