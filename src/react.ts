/**
 * `rondo/react`: hooks that follow one execution from a page. They connect after the first paint, so that nothing happens while a
 * server renders. Unmounting, or other arguments, end the connection. React is a peer of any version from 18 on.
 */
"use client";
import { useEffect, useState } from "react";
import { connect } from "./client/connect.ts";
import type { ExecutionView, ShownStatus } from "./kernel/view.ts";
import type { ExecutionHandle, RondoClient } from "./sdk/handle.ts";
import { StreamFold } from "./sdk/stream-fold.ts";
import type { AnyWorkflow, WorkflowOutput } from "./sdk/workflow.ts";
import type { Json } from "./std/json.ts";

/** The server that a hook asks: a client, or the address of a server and a token. */
export interface FollowOptions {
  /**
   * A client, as `connect` of `rondo/client` gives it. Keep the same one between renderings.
   *
   * @default a client of `url` and `token`
   */
  readonly client?: Pick<RondoClient, "execution">;
  /**
   * The address of the server.
   *
   * @default the origin of the page
   */
  readonly url?: string;
  /**
   * A token for the execution, as `rondo.tokenFor(id)` makes it. With a new one the hook connects again.
   *
   * @default none
   */
  readonly token?: string;
}

/** An execution as `useExecution` gives it. */
export interface FollowedExecution<Output, Values extends object> {
  /** The newest view; null before the first one. */
  readonly view: ExecutionView | null;
  /** The status of the execution; null before the first view. */
  readonly status: ShownStatus | null;
  /** The output of the execution once its status is `done`; null before. */
  readonly output: Output | null;
  /** The values that the code of the execution has published, by key. */
  readonly published: Partial<Values>;
  /** Why the execution cannot be followed, such as a token that has expired. Why an execution has failed is `view.error`. */
  readonly error: Error | null;
  /** Whether there is a connection. Without one, the last view stays, and the hook tries again. */
  readonly connected: boolean;
}

const NOTHING: FollowedExecution<never, object> = {
  ...{ view: null, status: null, output: null, published: {}, error: null },
  connected: false,
};

/**
 * Follows an execution until it has ended: its view, status, output and published values. `null` as the id follows nothing.
 *
 * @example const { status, published, error } = useExecution("order-7", { url: "https://rondo.example", token });
 */
export function useExecution<
  W extends AnyWorkflow = AnyWorkflow,
  Values extends object = Readonly<Record<string, Json>>,
>(id: string | null, options: FollowOptions = {}): FollowedExecution<WorkflowOutput<W>, Values> {
  const nothing = NOTHING as FollowedExecution<WorkflowOutput<W>, Values>;
  return useFollowed({ ...options, id, name: "" }, nothing, async (execution, set) => {
    for await (const view of execution.watch({ onConnection: (connected) => set({ connected }) })) {
      const { status } = view;
      const output = status === "done" ? (view.output as WorkflowOutput<W>) : null;
      set({ view, status, output, published: (view.published ?? {}) as Partial<Values> });
    }
  });
}

/** A stream as `useStream` gives it. */
export interface FollowedStream<Chunk> {
  /** The chunks so far, in their order. */
  readonly chunks: readonly Chunk[];
  /** The chunks so far as one text. Chunks that are no texts are shown as JSON. */
  readonly text: string;
  /** Whether the stream has ended, or its execution has. */
  readonly done: boolean;
  /** Whether a step or a task that wrote chunks has run again, so that new chunks have replaced its earlier ones. */
  readonly restarted: boolean;
  /** Why the stream cannot be followed, such as a token that has expired. */
  readonly error: Error | null;
}

const NO_CHUNKS: FollowedStream<never> = {
  ...{ chunks: [], text: "", done: false, restarted: false, error: null },
};

/**
 * Follows a stream of an execution from its beginning: the tokens of a model, for example. `null` as the id follows nothing.
 *
 * @example const { text, done } = useStream<string>("chat-7", "answer", { url: "https://rondo.example", token });
 */
export function useStream<Chunk = Json>(
  id: string | null,
  name: string,
  options: FollowOptions = {},
): FollowedStream<Chunk> {
  return useFollowed({ ...options, id, name }, NO_CHUNKS as FollowedStream<Chunk>, async (execution, set) => {
    const fold = new StreamFold<Chunk>();
    let restarted = false;
    for await (const piece of execution.stream<Chunk>(name)) {
      restarted = fold.add(piece) || restarted;
      const { chunks, hasEnded: done } = fold;
      set({ chunks, text: chunks.map(textOf).join(""), done, restarted });
    }
    set({ done: true });
  });
}

function textOf(chunk: unknown): string {
  return typeof chunk === "string" ? chunk : JSON.stringify(chunk);
}

interface Target extends FollowOptions {
  readonly id: string | null;
  /** The name of the stream; empty if the execution itself is followed. */
  readonly name: string;
}

/** Runs `follow` while the component is mounted with this target. A state of an earlier target is never shown. */
function useFollowed<State extends { readonly error: Error | null }>(
  { id, name, client, url, token }: Target,
  initial: State,
  follow: (execution: ExecutionHandle<unknown>, set: (change: Partial<State>) => void) => Promise<void>,
): State {
  const target = [id, name, client, url, token];
  const [held, setHeld] = useState<{ readonly target: readonly unknown[]; readonly state: State }>({
    target: [],
    state: initial,
  });
  useEffect(() => {
    if (id === null) return undefined;
    let isMounted = true;
    let state = initial;
    let end = (): void => {};
    const set = (change: Partial<State>): void => {
      state = { ...state, ...change };
      if (isMounted) setHeld({ target, state });
    };
    const run = async (): Promise<void> => {
      const own =
        client ??
        connect({ url: url ?? pageOrigin(), ...PATIENT, ...(token === undefined ? {} : { token }) });
      const execution = own.execution(id);
      end = () => void execution[Symbol.asyncDispose]();
      await follow(execution, set);
    };
    run().catch((thrown: unknown) => {
      const error = thrown instanceof Error ? thrown : new Error(String(thrown));
      set({ error, connected: false } as unknown as Partial<State>);
    });
    return () => {
      isMounted = false;
      end();
    };
  }, target);
  return held.target.every((part, i) => part === target[i]) && held.target.length > 0 ? held.state : initial;
}

/** A page tries to connect again for as long as it is open: its machine may sleep. */
const PATIENT = { reconnectMs: Number.MAX_SAFE_INTEGER };

function pageOrigin(): string {
  return (globalThis as { location?: { origin: string } }).location?.origin ?? "";
}
