/** Runs an enumeration: checks items, packs them into pages, and pauses while too many pages are unacknowledged. */

import { LIMITS } from "../kernel/definition/definition.ts";
import type { Outcome } from "../kernel/message.ts";
import { brandFatal } from "../protocol/error-brands.ts";
import type { GrantItem, Report } from "../protocol/work.ts";
import type { Clock } from "../std/clock.ts";
import { checksum } from "../std/hash.ts";
import { toStoredText } from "../std/json.ts";
import { OpenPromises } from "../std/open-promises.ts";
import { isRejection, type Rejection } from "../std/rejection.ts";
import type { ListingContext, Shared } from "./context.ts";
import type { HandlerCode } from "./handler-code.ts";
import { handedBack, refused, threw } from "./outcome.ts";

export interface EnumerateOptions {
  readonly clock: Clock;
  /** Sends a page. Resolves with false if the attempt has ended and the enumeration must stop. */
  readonly sendPage: (page: Report) => Promise<boolean>;
  /** Called after each full page. Resolves when no granted task is ready to begin, or after a short time. */
  readonly waitForReadyTasks: () => Promise<void>;
}

const PAGES_UNACKNOWLEDGED_MAX = 4;
const NO_NAMES: readonly string[] = [];
/** The time after which a page is sent even if it is not full. */
const LINGER_MS = 20;

/** Runs an enumeration and returns its outcome. Pages of tasks are journaled while it runs. */
export async function enumerate(
  context: ListingContext,
  code: HandlerCode,
  options: EnumerateOptions,
): Promise<Outcome> {
  const pager = new Pager(context, code, options);
  try {
    if (code.enumerate === undefined)
      throw new Error(
        `the definition has the tasks enumerated by "${code.use}", but its code in this worker has no enumerate`,
      );
    await pager.run(await code.enumerate(context));
    return (
      pager.outcome ??
      (context.signal.aborted
        ? handedBack("cancelled")
        : { status: "done", payload: "null", total: pager.total })
    );
  } catch (thrown) {
    await pager.settle();
    return pager.outcome ?? (context.signal.aborted ? handedBack("cancelled") : threw(thrown));
  }
}

class Pager {
  readonly #shared: Shared;
  readonly #item: GrantItem;
  readonly #code: HandlerCode;
  readonly #options: EnumerateOptions;
  readonly #context: ListingContext;
  /** The limit of a task's text. The name of the task is put together only when it is read. */
  readonly #limits: { readonly bytesMax: number; readonly what: string };
  #tasks: string[] = [];
  #keys: string[] | null;
  #identities: string[] | null;
  #afters: (readonly string[])[] | null;
  #chars = 0;
  /** The number of items so far, including the journaled ones. */
  position = 0;
  /** The number of items that the code has yielded in this attempt. */
  #given = 0;
  /**
   * The number of items to skip because they are journaled. It is -1 while it is not known whether the code continues after
   * them or starts from the beginning.
   */
  #skip = -1;
  #sum = 0;
  readonly #unacknowledged = new OpenPromises();
  /** Whether a full page was sent and the enumeration has not paused since. */
  #hasFilledPage = false;
  /** The outcome of the enumeration once it cannot go on; null before. */
  outcome: Outcome | null = null;

  constructor(context: ListingContext, code: HandlerCode, options: EnumerateOptions) {
    this.#shared = context.shared;
    this.#item = context.item;
    this.#code = code;
    this.#options = options;
    this.#context = context;
    const position = (): number => this.position;
    this.#limits = {
      bytesMax: LIMITS.taskBytes,
      get what() {
        return `task ${position()}`;
      },
    };
    this.#keys = code.key === undefined ? null : [];
    this.#identities = code.identity === undefined ? null : [];
    this.#afters = code.after === undefined ? null : [];
  }

  async run(items: Iterable<unknown> | AsyncIterable<unknown>): Promise<void> {
    if (typeof (items as AsyncIterable<unknown>)?.[Symbol.asyncIterator] === "function")
      await this.#runAsync(items as AsyncIterable<unknown>);
    else if (
      typeof (items as Iterable<unknown>)?.[Symbol.iterator] === "function" &&
      typeof items !== "string"
    )
      await this.#runSync(items as Iterable<unknown>);
    else throw brandFatal(new TypeError("enumerate must return an array, an iterable or an async iterable"));
    await this.settle();
    const { resume } = this.#shared.grant;
    // The code has continued from `resume` and found no more items.
    if (this.#skip < 0 && resume !== null && this.#context.resumed) this.position = resume.count;
    if (
      this.outcome === null &&
      !this.#isOver &&
      this.#skip > 0 &&
      this.position < this.#skip &&
      resume !== null
    ) {
      this.outcome = diverged(
        `the enumeration yielded ${this.position} tasks, but ${resume.count} are journaled`,
      );
    }
  }

  /** Sends the last page; resolves when all pages are acknowledged. */
  async settle(): Promise<void> {
    if (!this.#isOver) this.#flush();
    while (this.#unacknowledged.size > 0) await this.#unacknowledged.all();
  }

  /**
   * The number of tasks. If tasks have identities, it is the number of items that this attempt yielded, including those that
   * the engine has already.
   */
  get total(): number {
    return this.#identities === null ? this.position : this.#given;
  }

  get #isOver(): boolean {
    return this.outcome !== null || this.#context.signal.aborted;
  }

  async #runSync(items: Iterable<unknown>): Promise<void> {
    for (const item of items) {
      this.#add(item);
      if (this.#isOver) return;
      if (this.#mustPause) await this.#pause();
      if (this.#isOver) return;
    }
  }

  async #runAsync(items: AsyncIterable<unknown>): Promise<void> {
    const iterator = items[Symbol.asyncIterator]();
    try {
      for (;;) {
        let isWaiting = true;
        let stopLinger: (() => void) | null = null;
        const next = iterator.next();
        if (this.#tasks.length > 0) {
          stopLinger = this.#options.clock.after(LINGER_MS, () => {
            if (isWaiting && !this.#isOver) this.#flush();
          });
        }
        const { done, value } = await next;
        isWaiting = false;
        stopLinger?.();
        if (done) return;
        this.#add(value);
        if (this.#mustPause) await this.#pause();
        if (this.#isOver) return;
      }
    } finally {
      if (this.#isOver) await iterator.return?.();
    }
  }

  get #mustPause(): boolean {
    return this.#hasFilledPage || this.#unacknowledged.size >= PAGES_UNACKNOWLEDGED_MAX;
  }

  /** Waits while too many pages are unacknowledged, and after a full page while tasks are ready to begin. */
  async #pause(): Promise<void> {
    if (this.#unacknowledged.size >= PAGES_UNACKNOWLEDGED_MAX) await this.#unacknowledged.next();
    if (!this.#hasFilledPage) return;
    this.#hasFilledPage = false;
    await this.#options.waitForReadyTasks();
  }

  #add(value: unknown): void {
    const { resume } = this.#shared.grant;
    if (this.#skip < 0) {
      // Code that has read `resume` continues after the journaled items. Other code starts from the beginning; the worker then
      // skips the journaled items. If items have identities, the engine skips those that it has.
      this.#skip =
        resume === null || this.#identities !== null ? 0 : this.#context.resumed ? 0 : resume.count;
      if (resume !== null && this.#skip === 0) this.position = resume.count;
    }
    const text = toStoredText(value, this.#limits);
    if (isRejection(text)) {
      this.#refuse(text);
      return;
    }
    const isKnown = this.position < this.#skip;
    const key = isKnown ? "" : String(this.#code.key?.(value) ?? "");
    const identity = isKnown ? "" : String(this.#code.identity?.(value) ?? "");
    const after = isKnown ? NO_NAMES : (this.#code.after?.(value) ?? NO_NAMES);
    this.position++;
    this.#given++;
    if (isKnown) {
      this.#sum = checksum(`${text}\n`, this.#sum);
      if (this.position === this.#skip && this.#sum !== resume?.checksum)
        this.outcome = diverged(`the first ${this.#skip} tasks are not the ones that are journaled`);
      return;
    }
    this.#tasks.push(text);
    this.#keys?.push(key);
    this.#identities?.push(identity);
    this.#afters?.push(after);
    this.#chars += text.length;
    for (const name of after) this.#chars += name.length;
    if (this.#tasks.length < LIMITS.pageTasks && this.#chars < LIMITS.pageBytes / 4) return;
    this.#flush();
    this.#hasFilledPage = true;
  }

  #refuse(rejection: Rejection): void {
    this.outcome = refused(rejection);
  }

  #flush(): void {
    if (this.#tasks.length === 0) return;
    const { execution, phase, visit, handler, round, epoch } = this.#shared.grant;
    const from = this.position - this.#tasks.length;
    const page: Report = {
      kind: "page",
      execution,
      phase,
      visit,
      handler,
      round,
      epoch,
      attempt: this.#item.attempt,
      claim: this.#item.claim,
      from: this.#identities === null ? from : this.#given - this.#tasks.length,
      tasks: this.#tasks,
      keys: this.#keys,
      identities: this.#identities,
      ...(this.#afters === null ? {} : { afters: this.#afters }),
    };
    this.#tasks = [];
    this.#chars = 0;
    if (this.#keys !== null) this.#keys = [];
    if (this.#identities !== null) this.#identities = [];
    if (this.#afters !== null) this.#afters = [];
    const sent = this.#options.sendPage(page).then((goOn) => {
      if (!goOn) this.outcome ??= handedBack("the attempt is over");
    });
    this.#unacknowledged.add(sent);
  }
}

function diverged(why: string): Outcome {
  const message = `the enumeration is not the same as in its earlier attempt: ${why}`;
  return {
    status: "failed",
    fatal: true,
    payload: JSON.stringify({
      name: "EnumerationDiverged",
      code: "enumeration_diverged",
      message,
      hint: "read `resume` and go on from there, or give tasks an identity",
    }),
  };
}
