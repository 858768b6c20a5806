/** Measures a cycle of the token: the last one, and a moving average. */
export class CycleTime {
  #arrivedAt: number | null = null;
  count = 0;
  lastMs: number | null = null;
  averageMs: number | null = null;

  arrived(now: number): void {
    if (this.#arrivedAt !== null) {
      this.count++;
      this.lastMs = now - this.#arrivedAt;
      this.averageMs = Math.round(((this.averageMs ?? this.lastMs) * 7 + this.lastMs) / 8);
    }
    this.#arrivedAt = now;
  }
}
