/** Asks a worker's own status API about silent attempts, before they count as lost. */
import { HttpConnection } from "../../net/http-connection.ts";
import { HttpFault } from "../../net/http-fault.ts";
import { encodeAttempt } from "../../protocol/attempt-id.ts";
import type { Beat } from "../../protocol/work.ts";

const ASK_MS = 2_000;
const ANSWER_BYTES_MAX = 65_536;
/** The most requests to one worker at a time. */
const AT_ONCE = 8;

/**
 * Asks one worker about attempts, a few requests at a time. Once the worker does not answer, all waiting questions are answered
 * with false.
 */
export class WorkerInquiry {
  readonly #connection: HttpConnection;
  readonly #waiting: { readonly attempt: string; readonly answer: (has: boolean) => void }[] = [];
  #underWay = 0;

  constructor(url: string) {
    this.#connection = new HttpConnection({ address: url, answerBytesMax: ANSWER_BYTES_MAX });
  }

  /** Whether the worker still has the attempt; false if the worker cannot be reached. */
  ask(attempt: string): Promise<boolean> {
    return new Promise((answer, fail) => {
      this.#waiting.push({ attempt, answer });
      if (this.#underWay < AT_ONCE) this.#work().catch(fail);
    });
  }

  /** Returns the attempts that the worker still has. */
  askAll(beats: readonly Beat[]): Promise<readonly Beat[]> {
    return Promise.all(
      beats.map(async (beat) => {
        const has = await Promise.all(
          beat.attempts.map((attempt) => this.ask(encodeAttempt({ ...beat, ...attempt }))),
        );
        return { ...beat, attempts: beat.attempts.filter((_, i) => has[i]) };
      }),
    );
  }

  close(): void {
    this.#connection.close();
  }

  async #work(): Promise<void> {
    this.#underWay++;
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      const path = `/attempts/${encodeURIComponent(next.attempt)}`;
      try {
        const { status } = await this.#connection.send({ method: "GET", path, timeoutMs: ASK_MS });
        next.answer(status === 200);
      } catch (thrown) {
        if (!(thrown instanceof HttpFault)) throw thrown;
        next.answer(false);
        for (const { answer } of this.#waiting.splice(0)) answer(false);
      }
    }
    this.#underWay--;
  }
}
