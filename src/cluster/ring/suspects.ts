import type { RingMap, RingMember } from "./ring-map.ts";
import type { RingSettings } from "./settings.ts";
import type { Death } from "./token.ts";

export interface NotedDeath extends Death {
  readonly at: number;
}

const NOTED_MAX = 20;

/** Keeps the members that did not answer. The ring skips them for a while. Only the store decides whether they are members. */
export class Suspects {
  readonly #settings: RingSettings;
  /** Skipped members by URL: the incarnation, and the time until which it is skipped. */
  readonly #until = new Map<string, { incarnation: string; until: number }>();
  #noted: NotedDeath[] = [];

  constructor(settings: RingSettings) {
    this.#settings = settings;
  }

  /** Recent reports of deaths, the oldest first. */
  get noted(): readonly NotedDeath[] {
    return this.#noted;
  }

  failed(death: Death, now: number): void {
    const { url, incarnation } = death;
    this.#until.set(url, { incarnation, until: now + this.#settings.suspectMs });
    this.reported(death, now);
  }

  /**
   * Records another node's report that a member is dead. The member is not skipped for that, because otherwise old reports could exclude
   * it for ever.
   */
  reported(death: Death, now: number): void {
    this.#noted = [...this.#noted, { ...death, at: now }].slice(-NOTED_MAX);
  }

  clear(url: string): void {
    this.#until.delete(url);
  }

  isSuspect({ url, incarnation }: RingMember, now: number): boolean {
    const suspect = this.#until.get(url);
    return suspect !== undefined && suspect.incarnation === incarnation && now < suspect.until;
  }

  /** Drops reports about nodes that are no longer members. */
  keep(map: RingMap): void {
    for (const [url, { incarnation }] of this.#until)
      if (!map.members.some((member) => member.url === url && member.incarnation === incarnation))
        this.#until.delete(url);
  }
}
