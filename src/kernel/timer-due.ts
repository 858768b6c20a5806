/** A timer fires once in effect: armed, then fired. A late, early or repeated trigger is ignored. */
import { assert } from "../std/assert.ts";
import { advance } from "./advance.ts";
import { cancelExecution } from "./control.ts";
import type { HandlerState } from "./execution.ts";
import type { Answer, TimerDueMessage } from "./message.ts";
import type { Step } from "./step.ts";
import { childOutOfTime } from "./tasks/children.ts";
import { waitOutOfTime } from "./tasks/task-waits.ts";
import { ENGINE, settleBuiltIn, taskOfTimer, timerId } from "./timers.ts";

/** A timer's time has come: ignored unless it is armed and due. */
export function timerDue(step: Step, message: TimerDueMessage): Answer {
  const { execution } = step;
  const timer = execution.timers.get(message.timer);
  if (timer === undefined) return { kind: "ignored", why: "the timer is not armed" };
  if (step.now < timer.due) return { kind: "ignored", why: "the timer is not due" };
  step.emit({ kind: "timer.fired", timer: message.timer, purpose: timer.purpose, due: timer.due });
  switch (timer.purpose) {
    case "start":
      break;
    case "task": {
      const timed = taskOfTimer(step, message.timer);
      if (timed?.handler.plan.mode === "workflow") childOutOfTime(step, timed.handler, timed.task);
      else if (timed !== null) waitOutOfTime(step, timed.handler, timed.task);
      break;
    }
    case "deadline":
      cancelExecution(step, { by: ENGINE, reason: "deadline", id: `deadline~${timer.due}` });
      break;
    case "sleep":
      settleBuiltIn(step, armedHandler(step, message.timer), {
        status: "done",
        reason: "timer",
        payload: "null",
      });
      break;
    case "wait": {
      const handler = armedHandler(step, message.timer);
      const { waitFor, optional } = handler.plan.definition;
      const error = {
        name: "WaitTimeout",
        code: "wait_timeout",
        message: `no signal "${waitFor}" came in time`,
      };
      settleBuiltIn(
        step,
        handler,
        optional
          ? { status: "done", reason: "timer", payload: "null" }
          : { status: "failed", reason: "wait_timeout", payload: JSON.stringify(error) },
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
  assert(handler !== undefined, "an armed timer belongs to a handler of the current visit");
  return handler;
}
