/**
 * OpenTelemetry, if the program has registered an SDK. Rondo does not load `@opentelemetry/api`. It uses the objects that any
 * version 1.x of that package registers under a global symbol, so a program can have any such version, or none. If the SDK
 * throws, spans and metrics get lost and one warning is written, but no work is lost.
 */

/** The members of an OpenTelemetry span that Rondo uses. */
export interface Span {
  spanContext(): SpanContext;
  setAttribute(name: string, value: string | number | boolean): unknown;
  addEvent?(name: string, attributes?: Attributes): unknown;
  recordException?(error: { readonly name: string; readonly message: string; readonly stack?: string }): void;
  setStatus(status: { readonly code: number; readonly message?: string }): unknown;
  isRecording?(): boolean;
  end(at?: Date): void;
}

export interface SpanContext {
  readonly traceId: string;
  readonly spanId: string;
  readonly traceFlags: number;
  readonly isRemote?: boolean;
}

export type Attributes = Readonly<Record<string, string | number | boolean>>;

/** An OpenTelemetry context: the values that are active in a chain of calls. */
export interface Context {
  getValue(key: symbol): unknown;
  setValue(key: symbol, value: unknown): Context;
  deleteValue(key: symbol): Context;
}

interface SpanOptions {
  readonly kind?: number;
  readonly attributes?: Attributes;
  readonly links?: readonly { readonly context: SpanContext }[];
  /**
   * When the span began; now by default. The type is not a number, because an SDK reads small numbers as times since the start
   * of the process.
   */
  readonly startTime?: Date;
}

interface Instrument {
  add?(value: number, attributes: Attributes): void;
  record?(value: number, attributes: Attributes): void;
}

interface Meter {
  createCounter(name: string, options: object): Instrument;
  createHistogram(name: string, options: object): Instrument;
}

/** The objects that `@opentelemetry/api` registers globally. */
interface Registry {
  readonly trace?: {
    getTracer(name: string): { startSpan(name: string, options: SpanOptions, context: Context): Span };
  };
  readonly context?: { active(): Context; with<T>(context: Context, run: () => T): T };
  readonly metrics?: { getMeter(name: string): Meter };
}

export const SPAN_KIND = { internal: 0, server: 1, client: 2, producer: 3, consumer: 4 } as const;
export const SPAN_STATUS = { ok: 1, error: 2 } as const;

const REGISTRY = Symbol.for("opentelemetry.js.api.1");
/** The key under which all versions of `@opentelemetry/api` keep the active span in a context. */
const SPAN_KEY = Symbol.for("OpenTelemetry Context Key SPAN");
const TRACEPARENT = /^[\da-f]{2}-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})/;
const NONE = /^0+$/;

function registry(): Registry | undefined {
  return (globalThis as { [REGISTRY]?: Registry })[REGISTRY];
}

let hasWarned = false;

/** Calls a function of the program's SDK; returns `otherwise` if it throws. */
function guarded<T>(call: () => T, otherwise: T): T {
  try {
    return call();
  } catch (thrown) {
    warn(thrown);
    return otherwise;
  }
}

/** Writes the warning only once, because a broken SDK throws for every attempt. */
function warn(thrown: unknown): void {
  if (hasWarned) return;
  hasWarned = true;
  const why = thrown instanceof Error ? thrown.message : String(thrown);
  const { process } = globalThis as { process?: { emitWarning?: (text: string) => void } };
  process?.emitWarning?.(`OpenTelemetry threw an error, so Rondo's spans and figures are incomplete: ${why}`);
}

/** A span of the program's SDK. Its methods do not throw. */
class GuardedSpan implements Span {
  /** The span of the SDK. */
  readonly own: Span;

  constructor(own: Span) {
    this.own = own;
  }

  spanContext(): SpanContext {
    return guarded(() => this.own.spanContext(), NO_SPAN.spanContext());
  }

  setAttribute(name: string, value: string | number | boolean): void {
    guarded(() => this.own.setAttribute(name, value), undefined);
  }

  addEvent(name: string, attributes?: Attributes): void {
    guarded(() => this.own.addEvent?.(name, attributes), undefined);
  }

  recordException(error: { readonly name: string; readonly message: string; readonly stack?: string }): void {
    guarded(() => this.own.recordException?.(error), undefined);
  }

  setStatus(status: { readonly code: number; readonly message?: string }): void {
    guarded(() => this.own.setStatus(status), undefined);
  }

  isRecording(): boolean {
    return guarded(() => this.own.isRecording?.() === true, false);
  }

  end(at?: Date): void {
    guarded(() => this.own.end(at), undefined);
  }
}

class Values implements Context {
  readonly #values: ReadonlyMap<symbol, unknown>;

  constructor(values: ReadonlyMap<symbol, unknown> = new Map()) {
    this.#values = values;
  }

  getValue(key: symbol): unknown {
    return this.#values.get(key);
  }

  setValue(key: symbol, value: unknown): Context {
    return new Values(new Map(this.#values).set(key, value));
  }

  deleteValue(key: symbol): Context {
    const left = new Map(this.#values);
    left.delete(key);
    return new Values(left);
  }
}

const ROOT: Context = new Values();

/** Whether the program has registered a tracer. */
export function hasTracer(): boolean {
  return registry()?.trace !== undefined;
}

/** The context that is active now; empty if the program has no context manager. */
export function activeContext(): Context {
  return guarded(() => registry()?.context?.active(), undefined) ?? ROOT;
}

/** Begins a span under a context. If the program has no tracer, the span does nothing. */
export function startSpan(name: string, options: SpanOptions, context: Context): Span {
  const span = guarded(
    () => registry()?.trace?.getTracer("rondo").startSpan(name, options, context),
    undefined,
  );
  return span === undefined ? NO_SPAN : new GuardedSpan(span);
}

/** Runs code while a span is the active span. */
export function inSpan<T>(span: Span, under: Context, run: () => T): T {
  const manager = registry()?.context;
  if (manager === undefined) return run();
  let hasBegun = false;
  try {
    return manager.with(under.setValue(SPAN_KEY, span instanceof GuardedSpan ? span.own : span), () => {
      hasBegun = true;
      return run();
    });
  } catch (thrown) {
    // If the code has begun, the code threw this error, not the SDK.
    if (hasBegun) throw thrown;
    warn(thrown);
    return run();
  }
}

/** Returns the W3C `traceparent` of the active span; null if no span is active. */
export function activeTrace(): string | null {
  const context = guarded(() => {
    const span = registry()?.context?.active().getValue(SPAN_KEY) as Partial<Span> | undefined;
    return span?.spanContext?.();
  }, undefined);
  return context === undefined || NONE.test(context.traceId) ? null : traceparentOf(context);
}

export function traceparentOf({ traceId, spanId, traceFlags }: SpanContext): string {
  return `00-${traceId}-${spanId}-${(traceFlags & 0xff).toString(16).padStart(2, "0")}`;
}

/** Makes a context from a W3C `traceparent`. If the text is missing or invalid, a new trace begins. */
export function contextOf(traceparent: string | null | undefined): Context {
  const [, traceId = "", spanId = "", flags = "00"] = TRACEPARENT.exec(traceparent ?? "") ?? [];
  if (traceId === "" || NONE.test(traceId) || NONE.test(spanId)) return ROOT;
  const context = { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
  return ROOT.setValue(SPAN_KEY, remoteSpan(context));
}

/** A span of another process. Other spans can only use it as their parent. */
function remoteSpan(context: SpanContext): Span {
  return {
    spanContext: () => context,
    setAttribute() {},
    setStatus() {},
    isRecording: () => false,
    end() {},
  };
}

/** A span that does nothing. */
const NO_SPAN = remoteSpan({ traceId: "0".repeat(32), spanId: "0".repeat(16), traceFlags: 0 });

let meters: { readonly of: object; readonly instruments: Map<string, Instrument> } | null = null;

/** Whether the program has a meter provider. */
export function hasMeter(): boolean {
  return registry()?.metrics !== undefined;
}

/** Adds a value to a counter or histogram of the program's meter provider, if there is one. */
export function measure(
  instrument: "counter" | "histogram",
  { name, description, unit }: { readonly name: string; readonly description: string; readonly unit: string },
  value: number,
  attributes: Attributes,
): void {
  const provider = registry()?.metrics;
  if (provider === undefined) return;
  if (meters?.of !== provider) meters = { of: provider, instruments: new Map() };
  const { instruments } = meters;
  guarded(() => {
    let known = instruments.get(name);
    if (known === undefined) {
      const meter = provider.getMeter("rondo");
      const options = { description, unit };
      known =
        instrument === "counter" ? meter.createCounter(name, options) : meter.createHistogram(name, options);
      instruments.set(name, known);
    }
    if (instrument === "counter") known.add?.(value, attributes);
    else known.record?.(value, attributes);
  }, undefined);
}
