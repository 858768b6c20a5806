import type { RingMap, RingMember } from "./ring-map.ts";
import type { RingSettings } from "./settings.ts";
import type { Death } from "./token.ts";

/** A report of a member that did not answer. */
export interface NotedDeath extends Death {
  readonly at: number;
}

const NOTED_MAX = 20;

/** Members that did not answer: skipped for a while, then tried again. A hint only, the store knows who is a member. */
export class Suspects {
  readonly #settings: RingSettings;
  /** By URL: the incarnation, and until when it is skipped. */
  readonly #until = new Map<string, { incarnation: string; until: number }>();
  #noted: NotedDeath[] = [];

  constructor(settings: RingSettings) {
    this.#settings = settings;
  }

  /** Reports of late, the oldest first. */
  get noted(): readonly NotedDeath[] {
    return this.#noted;
  }

  /** It did not answer this node. */
  failed(death: Death, now: number): void {
    const { url, incarnation } = death;
    this.#until.set(url, { incarnation, until: now + this.#settings.suspectMs });
    this.reported(death, now);
  }

  /** It did not answer another node, a while ago: no reason to skip it, or old news would keep it out for ever. */
  reported(death: Death, now: number): void {
    this.#noted = [...this.#noted, { ...death, at: now }].slice(-NOTED_MAX);
  }

  /** It lives: it was heard. */
  heard(url: string): void {
    this.#until.delete(url);
  }

  isSuspect({ url, incarnation }: RingMember, now: number): boolean {
    const suspect = this.#until.get(url);
    return suspect !== undefined && suspect.incarnation === incarnation && now < suspect.until;
  }

  /** Forgets those that are no members any more. */
  keep(map: RingMap): void {
    for (const [url, { incarnation }] of this.#until)
      if (!map.members.some((member) => member.url === url && member.incarnation === incarnation))
        this.#until.delete(url);
  }
}
