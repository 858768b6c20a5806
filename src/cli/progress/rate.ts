/** How fast a number grows, over the last few seconds. */
const WINDOW_MS = 3_000;
const SAMPLE_MS = 100;

export class Rate {
  readonly #samples: { at: number; value: number }[] = [];

  /** Notes the number as it is at `now`. */
  note(value: number, now: number): void {
    const last = this.#samples.at(-1);
    if (last !== undefined && now - last.at < SAMPLE_MS) return;
    this.#samples.push({ at: now, value });
    while (this.#samples.length > 2 && now - (this.#samples[1] as { at: number }).at > WINDOW_MS)
      this.#samples.shift();
  }

  /** Per second; 0 as long as it is not known. */
  perSecond(): number {
    const first = this.#samples[0];
    const last = this.#samples.at(-1);
    if (first === undefined || last === undefined || last.at === first.at) return 0;
    return Math.max(0, ((last.value - first.value) * 1_000) / (last.at - first.at));
  }
}
