/**
 * Follows server-sent events: continues after the last event when the connection breaks, and pauses while the page is hidden.
 */
import type { Choices } from "../core/address.ts";
import { lostSince } from "../core/connection.ts";
import { isVisible, pause, untilVisible } from "../core/visible.ts";
import { ask, Problem } from "./client.ts";

/** One event of a stream. */
export interface StreamEvent {
  readonly id: string;
  readonly data: string;
}

/** The options of a followed stream. */
export interface Following {
  readonly path: string;
  readonly query?: Choices;
  /** The id of the last event that is known already. */
  readonly after?: string;
  /** Called with the events that arrived together. */
  readonly take: (events: readonly StreamEvent[]) => void;
  /** Called with whether the connection is open. */
  readonly isOpen?: (isOpen: boolean) => void;
  /** Whether the stream has no end of its own: it ends only because the node stops, and is followed again. */
  readonly isEndless?: boolean;
}

const RETRY_MS = 1_000;
const RETRY_MS_MAX = 15_000;

/** Follows a stream until the signal is aborted or the stream has ended. */
export async function follow(following: Following, signal: AbortSignal): Promise<void> {
  let last = following.after ?? "";
  let waitMs = RETRY_MS;
  while (!signal.aborted) {
    await untilVisible(signal);
    if (signal.aborted) return;
    const connection = new AbortController();
    const end = (): void => connection.abort();
    signal.addEventListener("abort", end);
    const unwatch = isVisible.watch(() => {
      if (!isVisible.value) end();
    });
    try {
      const headers: Record<string, string> = { accept: "text/event-stream" };
      if (last !== "") headers["last-event-id"] = last;
      const response = await ask("GET", following.path, {
        ...(following.query === undefined ? {} : { query: following.query }),
        headers,
        signal: connection.signal,
      });
      following.isOpen?.(true);
      waitMs = RETRY_MS;
      await readEvents(response, (events) => {
        last = events.at(-1)?.id ?? last;
        following.take(events);
      });
      if (following.isEndless !== true) return;
    } catch (thrown) {
      if (thrown instanceof Problem) {
        if (!thrown.mayPass) throw thrown;
        waitMs = Math.max(waitMs, thrown.waitMs);
      }
    } finally {
      following.isOpen?.(false);
      unwatch();
      signal.removeEventListener("abort", end);
    }
    if (!isVisible.value) continue;
    await pauseUntilBack(waitMs, signal);
    waitMs = Math.min(RETRY_MS_MAX, waitMs * 2);
  }
}

/** Waits for a time; ends early when the node answers again. */
async function pauseUntilBack(ms: number, signal: AbortSignal): Promise<void> {
  const back = new AbortController();
  const unwatch = lostSince.watch(() => {
    if (lostSince.value === null) back.abort();
  });
  await pause(ms, AbortSignal.any([signal, back.signal]));
  unwatch();
}

async function readEvents(response: Response, take: (events: StreamEvent[]) => void): Promise<void> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (reader === undefined) return;
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop() ?? "";
    const events = blocks.flatMap(parseBlock);
    if (events.length > 0) take(events);
  }
}

function parseBlock(block: string): StreamEvent[] {
  let id = "";
  let data = "";
  for (const line of block.split("\n")) {
    if (line.startsWith("id:")) id = line.slice(3).trim();
    else if (line.startsWith("data:")) data += (data === "" ? "" : "\n") + line.slice(5).trimStart();
  }
  return data === "" ? [] : [{ id, data }];
}
