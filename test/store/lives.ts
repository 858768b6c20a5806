import { onTestFinished } from "vitest";
import type { Store, StoreInfo } from "../../src/store/store.ts";
import { openWhole } from "./open-whole.ts";

/** A place where data stays: each call makes the next store over the same data. */
export type MakePlace = () => (() => Store) | Promise<() => Store>;

/** One store after the other over the same data, each owning all of it. */
export class Lives {
  readonly #makeStore: () => Store;
  store: Store;
  info: StoreInfo = { generation: "", key: "", partitions: 0, owned: [] };

  private constructor(makeStore: () => Store) {
    this.#makeStore = makeStore;
    this.store = makeStore();
  }

  static async begin(makePlace: MakePlace): Promise<Lives> {
    const lives = new Lives(await makePlace());
    lives.info = await openWhole(lives.store);
    onTestFinished(() => lives.store.close({ clean: false }));
    return lives;
  }

  async restart(options: { clean: boolean } = { clean: true }): Promise<void> {
    await this.store.close(options);
    this.store = this.#makeStore();
    this.info = await openWhole(this.store);
  }
}
