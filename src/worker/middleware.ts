/**
 * Runs middleware around the code of handlers: enumerations, tasks, `next`, `returns` and steps. The code is wrapped when a
 * worker hosts it. The worker's list of middleware is read at each call, so that middleware can be added later. Code without
 * middleware is called directly, and may run synchronously.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { brandFatal } from "../protocol/error-brands.ts";
import { toError } from "../std/to-error.ts";
import type { AttemptContext } from "./context.ts";
import type {
  BaseContext,
  HandlerCode,
  Middleware,
  MiddlewareContext,
  ProcessContext,
  StepCode,
  StepContext,
  StepOptions,
} from "./handler-code.ts";

type Chain = readonly Middleware[];
type Kind = MiddlewareContext["kind"];
/** Runs code inside a chain of middleware. */
type Around = (chain: Chain, context: BaseContext, code: () => unknown) => unknown;

/** Wraps the code of a handler in middleware: the worker's middleware is outside, that of the workflow inside. */
export function withMiddleware(code: HandlerCode, general: Chain): HandlerCode {
  const { process, processBatch, enumerate, answer, middleware: own = [] } = code;
  const chain = (): Chain => (general.length === 0 ? own : [...general, ...own]);
  const wrap = <C extends BaseContext, T>(run: (context: C) => T, around: Around) => {
    // Stored stacks end above the frame with this name (`USER_CODE_CALLER`).
    const callUserCode = (context: C): T => {
      const all = chain();
      return all.length === 0 ? run(context) : (around(all, context, () => run(context)) as T);
    };
    return callUserCode;
  };
  return {
    ...code,
    ...(process === undefined ? {} : { process: wrap(process, throughWithSteps) }),
    ...(processBatch === undefined ? {} : { processBatch: wrap(processBatch, through) }),
    ...(answer === undefined ? {} : { answer: wrap(answer, through) }),
    ...(enumerate === undefined ? {} : { enumerate: wrap(enumerate, throughEnumeration) }),
  };
}

/**
 * Runs code inside the chain of middleware. Returns the result of the outermost middleware; if that is undefined, the result of the code.
 */
function through(chain: Chain, context: BaseContext, code: () => unknown): Promise<unknown> {
  const attempt = context as unknown as AttemptContext;
  const over = untilOver(attempt);
  const isolated = (): Promise<unknown> => Promise.race([Promise.resolve(code()), over]);
  return runChain(chain, contextOf(attempt, kindOf(attempt)), {
    code: isolated,
    extend: (extension) => extend(attempt, extension),
  });
}

interface Inner {
  readonly code: () => Promise<unknown>;
  /** Adds fields to the context of the code; null for a step, whose context cannot be extended. */
  readonly extend: ((extension: object) => void) | null;
}

function runChain(chain: Chain, context: MiddlewareContext, inner: Inner): Promise<unknown> {
  const at = async (i: number): Promise<unknown> => {
    const middleware = chain[i];
    if (middleware === undefined) return inner.code();
    let under: Promise<unknown> | null = null;
    const next = (extension?: object): Promise<unknown> => {
      if (under !== null) throw new Error("a middleware called next twice; it may call next only once");
      if (extension !== undefined) {
        if (inner.extend === null) throw new Error("a middleware cannot extend the context of a step");
        inner.extend(extension);
      }
      under = at(i + 1);
      // If a middleware does not await `next` and the code fails, the unhandled rejection must not end the process.
      under.catch(() => {});
      return under;
    };
    const result = await middleware(context, next);
    return result === undefined && under !== null ? under : result;
  };
  return at(0);
}

/** Adds the fields that a middleware passed to `next` to the context of the handler. */
function extend(context: AttemptContext, extension: object): void {
  for (const [name, value] of Object.entries(extension)) {
    if (name in context)
      throw brandFatal(new Error(`a middleware adds "${name}" to the context, which has it already`));
    Object.defineProperty(context, name, { value, enumerable: true });
  }
}

/**
 * Returns a promise that rejects when the attempt ends before its code, because the task waits, the lease is lost or the time
 * limit has passed. The promises of such code never settle, so a middleware needs this rejection to release its resources.
 */
function untilOver(context: AttemptContext): Promise<never> {
  const over = new Promise<never>((_, reject) => {
    context.onOver(() => reject(new Error("the attempt has ended before its code")));
  });
  over.catch(() => {});
  return over;
}

function throughWithSteps(chain: Chain, context: BaseContext, code: () => unknown): Promise<unknown> {
  const attempt = context as unknown as AttemptContext & ProcessContext;
  const around = contextOf(attempt, "step");
  const wrapped =
    <T>(name: string, run: StepCode<T>): StepCode<T> =>
    (given: StepContext) =>
      runChain(
        chain,
        { ...around, step: name, attempt: given.attempt, signal: given.signal },
        { code: async () => run(given), extend: null },
      ) as Promise<T>;
  let step: ProcessContext["step"] | null = null;
  const original = (): ProcessContext["step"] => {
    step ??= Reflect.get(Object.getPrototypeOf(attempt), "step", attempt) as ProcessContext["step"];
    return step;
  };
  const wrappedStep = <T>(name: string, given: StepOptions | StepCode<T>, run?: StepCode<T>): Promise<T> =>
    typeof given === "function"
      ? original()(name, wrapped(name, given))
      : original()(name, given, typeof run === "function" ? wrapped(name, run) : (run as never));
  Object.defineProperty(attempt, "step", { value: wrappedStep });
  return through(chain, context, code);
}

/** Yields the items of an enumeration inside the chain of middleware. The promise of `next()` resolves when the last item has been read. */
async function* throughEnumeration(chain: Chain, context: BaseContext, code: () => unknown): AsyncGenerator {
  const attempt = context as unknown as AttemptContext;
  let begin: (inside: <T>(run: () => T) => T) => void = () => {};
  const begun = new Promise<<T>(run: () => T) => T>((resolve) => {
    begin = resolve;
  });
  let finish: (failure: Error | null) => void = () => {};
  const finished = new Promise<unknown>((resolve, reject) => {
    finish = (failure) => (failure === null ? resolve(null) : reject(failure));
  });
  const over = untilOver(attempt);
  const ran = runChain(chain, contextOf(attempt, "enumerate"), {
    code: () => {
      begin(AsyncLocalStorage.snapshot());
      return Promise.race([finished, over]);
    },
    extend: (extension) => extend(attempt, extension),
  });
  const early = ran.then(() => {
    throw brandFatal(new Error("a middleware returned around an enumeration without calling next"));
  });
  early.catch(() => {});
  const inside = await Promise.race([begun, early]);
  try {
    const items = (await inside(code)) as AsyncIterable<unknown> | Iterable<unknown>;
    const iterator = Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]();
    try {
      for (let item = await inside(() => iterator.next()); item.done !== true; ) {
        yield item.value;
        item = await inside(() => iterator.next());
      }
    } finally {
      await inside(() => iterator.return?.());
    }
  } catch (thrown) {
    finish(toError(thrown));
    await ran.catch(() => {});
    // The error is thrown again, so that a middleware cannot turn a failed enumeration into a complete one.
    throw thrown;
  }
  finish(null);
  await ran;
}

function kindOf({ shared, item }: AttemptContext): Kind {
  if (item.compensates !== undefined) return "compensate";
  const { do: kind } = shared.grant;
  return kind === "enumerate" || kind === "next" || kind === "returns" ? kind : "process";
}

function contextOf(context: AttemptContext, kind: Kind): MiddlewareContext {
  const { grant } = context.shared;
  return {
    kind,
    workflow: grant.workflow,
    project: grant.project,
    phase: grant.phase,
    handler: grant.handler,
    execution: grant.execution,
    task: kind === "enumerate" || kind === "next" || kind === "returns" ? null : context.item.number,
    attempt: context.attempt,
    attemptId: context.attemptId,
    input: context.input,
    now: context.now,
    get signal() {
      return context.signal;
    },
    get log() {
      return context.log;
    },
  };
}
